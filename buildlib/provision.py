"""Toolchains from the Python index: fetched by pip to the byte that lock.toml names, and kept in the per-user cache.

A folder is made under another name and renamed when it is whole, so a killed provisioning leaves nothing that could be
taken for a toolchain. Of two processes one provisions, and the other waits.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import msgspec

from buildlib import cuda, environment
from buildlib.environment import Settings
from buildlib.errors import ToolchainError, UnavailableError
from buildlib.lock import Locked
from buildlib.process import Processes
from buildlib.variant import Version

_RECORD = "toolchain.json"
_MEGA = 1_000_000
# Unpacked, the packages take about three times what is fetched, and both are there for a moment.
_ROOM = 4
_POLL_SECONDS = 0.5
# What pip says, in lower case, and the remedy where the index is not to blame.
_NO_ROOM = ("no space left on device", "disk quota exceeded")
_ALTERED = ("do not match the hashes", "badzipfile", "is not a zip file", "has an invalid wheel", "is invalid.")
_UNREACHABLE = ("proxyerror", "cannot connect to proxy", "tunnel connection failed")
# Of torch only what is compiled and linked against is kept.
_TORCH = ("torch/include", "torch/version.py")
_TORCH_LIBRARIES = ("libc10.so", "libc10_cuda.so", "libtorch.so", "libtorch_cpu.so", "libtorch_cuda.so")

Progress = Callable[[str, str], None]


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a provisioned folder holds: the size of each file, in bytes, by path."""

    id: str
    files: dict[str, int]


def size(locked: Locked, settings: Settings) -> int | None:
    """The bytes of a provisioned toolchain on the disk, or None where it is not there, or not whole."""
    folder = locked.folder(settings.cache)
    try:
        record = msgspec.json.decode((folder / _RECORD).read_bytes(), type=_Record)
    except (OSError, msgspec.DecodeError):
        return None
    try:
        whole = all(os.stat(folder / path).st_size == bytes_ for path, bytes_ in record.files.items())
    except OSError:
        return None
    return sum(record.files.values()) if whole else None


def ensure(locked: Locked, settings: Settings, processes: Processes, progress: Progress) -> Path:
    """The folder of a toolchain, provisioned unless it is there; `progress` takes the toolchain's id and a text.

    Raises:
        UnavailableError: the index cannot be reached, or has not got it.
        ToolchainError: it cannot be provisioned for a reason that the user can mend.
    """
    folder = locked.folder(settings.cache)
    if size(locked, settings) is not None:
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder.with_name(f"{folder.name}.lock"))
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        progress(locked.id, "waiting for another process that provisions it")
        lock.acquire()
    try:
        if size(locked, settings) is None:
            # Under the lock, what is left under either name is of nobody who lives.
            shutil.rmtree(folder, ignore_errors=True)
            _provision(locked, folder, settings, processes, progress)
    finally:
        lock.release()
    return folder


def _provision(locked: Locked, folder: Path, settings: Settings, processes: Processes, progress: Progress) -> None:
    making = folder.with_name(f".making-{folder.name}")
    shutil.rmtree(making, ignore_errors=True)
    try:
        making.mkdir()
        room = shutil.disk_usage(making).free
        if room < locked.size * _ROOM:
            raise _no_room(locked, settings)
        _fetch(locked, making, settings, processes, progress)
        root = _arrange(making / "site")
        _try_out(locked, root, settings)
        files = {str(path.relative_to(root)): path.stat().st_size for path in sorted(root.rglob("*")) if path.is_file()}
        (root / _RECORD).write_bytes(msgspec.json.encode(_Record(id=locked.id, files=files)))
        root.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _fetch(locked: Locked, making: Path, settings: Settings, processes: Processes, progress: Progress) -> None:
    """Have pip fetch and unpack the packages into `making/site`; again without its cache, should that be corrupt."""
    requirements = making / "requirements.txt"
    requirements.write_text(
        "".join(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in locked.wheels)
    )
    temporary = making / "tmp"
    temporary.mkdir()
    log = making / "log"
    # Beside pip's own: a user's variable must not send the packages elsewhere.
    env = environment.child(settings, **settings.pip, TMPDIR=str(temporary), PYTHONDONTWRITEBYTECODE="1")
    argv = (
        sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-compile",
        "--no-input", "--disable-pip-version-check", "--progress-bar=off", "--retries=1", "--timeout=20",
        f"--target={making / 'site'}", *_other_python(locked), f"--requirement={requirements}",
    )  # fmt: skip
    said = ""
    for more in ((), ("--no-cache-dir",)):
        log.unlink(missing_ok=True)
        shutil.rmtree(making / "site", ignore_errors=True)
        with _watched(locked, temporary, progress):
            status = processes.run((*argv, *more), cwd=making, env=env, log=log)
        if status == 0:
            return
        said = log.read_text(encoding="utf-8")
        if not any(sign in said.lower() for sign in _ALTERED):
            break
    raise _failure(locked, said, settings)


def _other_python(locked: Locked) -> Iterator[str]:
    """Options for wheels of a certain Python, which is not the one that runs: only headers and libraries are used."""
    if python := next((wheel.python for wheel in locked.wheels if wheel.python), None):
        machine = os.uname().machine
        yield from (f"--python-version={python}", "--implementation=cp", f"--abi=cp{python.replace('.', '')}")
        yield from (f"--platform=manylinux_2_{minor}_{machine}" for minor in (28, 27, 17))


@contextmanager
def _watched(locked: Locked, temporary: Path, progress: Progress) -> Iterator[None]:
    """Tell how much pip has fetched while it runs: it keeps what it fetches in its temporary folder."""
    over = threading.Event()

    def watch() -> None:
        while True:
            fetched = sum(_size(path) for path in temporary.rglob("*.whl"))
            progress(locked.id, f"{fetched // _MEGA} of {-(-locked.size // _MEGA)} MB")
            if over.wait(_POLL_SECONDS):
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        progress(locked.id, "")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # pip has just moved it.


def _failure(locked: Locked, said: str, settings: Settings) -> ToolchainError | UnavailableError:
    lower = said.lower()
    if any(sign in lower for sign in _NO_ROOM):
        return _no_room(locked, settings)
    if any(sign in lower for sign in _ALTERED):
        return ToolchainError(
            f"{locked.id}: the index gives other content than toolchains/lock.toml names, or a broken download; "
            "try again, or ask who runs the index"
        )
    if "no module named pip" in lower:
        return ToolchainError(f"{locked.id}: this Python environment has no pip; install it with 'python -m ensurepip'")
    if any(sign in lower for sign in _UNREACHABLE):
        return UnavailableError(f"toolchain {locked.id} cannot be fetched: the proxy refuses; mend HTTPS_PROXY")
    if "no matching distribution" in lower or "could not find a version" in lower:
        return UnavailableError(
            f"toolchain {locked.id} cannot be fetched: no package index has it, or none can be reached; "
            f"'doit toolchain:{locked.id}' tries again"
        )
    last = [line for line in said.splitlines() if line.strip()][-1:] or ["no output"]
    return ToolchainError(f"{locked.id}: pip failed ({last[0].strip()}); 'doit toolchain:{locked.id}' tries again")


def _no_room(locked: Locked, settings: Settings) -> ToolchainError:
    return ToolchainError(
        f"{settings.cache}: no room to provision {locked.id}, which takes {locked.size * _ROOM // _MEGA} MB for a "
        "moment; make room, or set KERNELYARD_CACHE to a folder on another disk"
    )


def _arrange(site: Path) -> Path:
    """Make of the unpacked packages the folder that the toolchain will be; returns its root."""
    if (site / "torch").is_dir():
        return _arrange_torch(site)
    roots = sorted(site.glob("nvidia/cu[0-9]*"))
    if not roots:
        return site
    (root,) = roots
    # What nvcc, and whoever links, expects to find in a toolkit.
    if (root / "lib").is_dir():
        if not (root / "lib64").exists():
            (root / "lib64").symlink_to("lib")
        for library in sorted(root.glob("lib/libcudart.so.*")):
            (root / "lib" / "libcudart.so").symlink_to(library.name)
    return root


def _arrange_torch(site: Path) -> Path:
    kept = site.with_name("torch-root")
    for path in (*_TORCH, *(f"torch/lib/{name}" for name in _TORCH_LIBRARIES)):
        if (site / path).exists():
            (kept / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).rename(kept / path)
    return kept


def _try_out(locked: Locked, root: Path, settings: Settings) -> None:
    """Ask CUDA's compilers for their version, which must be the one that their package has."""
    for program in ("nvcc", "tileiras"):
        wanted = locked.version(f"nvidia-cuda-{program}")
        if wanted is None:
            continue
        reported = cuda.release(settings, root / "bin" / program)
        if reported != (Version.parse(wanted), wanted):
            said = f"reports version {reported[1]}" if reported else "does not run"
            remedy = (
                f"install CUDA {Version.parse(wanted)} and set CUDA_HOME to it"
                if program == "nvcc"
                else ("it works with the ptxas of its own version only; ask who runs the index")
            )
            raise ToolchainError(f"{locked.id}: the {program} of the package for {wanted} {said}; {remedy}")
