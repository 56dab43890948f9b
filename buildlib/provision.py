"""Toolchains that are fetched, to the byte that is locked, and kept in the per-user cache."""

from __future__ import annotations

import shutil
from pathlib import Path

from buildlib import cuda, environment, kept
from buildlib.environment import Settings
from buildlib.errors import ToolchainError, UnavailableError
from buildlib.fetch import git, pip
from buildlib.fetch.common import Progress, no_room
from buildlib.lock import Locked
from buildlib.process import Processes
from buildlib.variant import Version

# Of torch only what is compiled and linked against is kept.
_TORCH = ("torch/include", "torch/version.py")
_TORCH_LIBRARIES = ("libc10.so", "libc10_cuda.so", "libtorch.so", "libtorch_cpu.so", "libtorch_cuda.so")


def size(locked: Locked, settings: Settings) -> int | None:
    """The bytes of a provisioned toolchain on the disk, or None where it is not there, or not whole."""
    return kept.size(locked.folder(settings.cache))


def lacks(locked: Locked, settings: Settings) -> str | None:
    """Why a toolchain can certainly not be provisioned: nobody has said where an index is, and it is not there yet."""
    for index in locked.indexes:
        variable = environment.index_variable(index)
        if variable not in settings.indexes and not locked.folder(settings.cache).is_dir():
            return f"{locked.contents} is in the package index {index!r} only; set {variable} to the URL of that index"
    return None


def ensure(locked: Locked, settings: Settings, processes: Processes, progress: Progress) -> Path:
    """The folder of a toolchain, provisioned unless it is there; `progress` takes the toolchain's id and a text.

    Raises:
        UnavailableError: the index cannot be reached, or has not got it.
        ToolchainError: it cannot be provisioned for a reason that the user can mend.
    """
    if size(locked, settings) is None and (reason := lacks(locked, settings)):
        raise UnavailableError(f"toolchain {locked.id}: {reason}")

    def provision(making: Path) -> Path:
        if shutil.disk_usage(making).free < locked.room:
            raise no_room(locked, settings)
        fetched = (git if locked.git else pip).fetch(locked, making, settings, processes, progress)
        root = _arrange(fetched)
        _try_out(locked, root, settings)
        return root

    return kept.ensure(locked.folder(settings.cache), locked.id, provision, progress)


def _arrange(site: Path) -> Path:
    """Make of the unpacked packages the folder that the toolchain will be; returns its root."""
    if (site / "torch").is_dir():
        return _arrange_torch(site)
    roots = sorted(site.glob("nvidia/cu[0-9]*"))
    if not roots:
        return site
    (root,) = roots
    for path in sorted(site.iterdir()):
        # What other packages bring stands beside the toolkit's own folders.
        if path != root.parent and not path.name.endswith(".dist-info") and not (root / path.name).exists():
            path.rename(root / path.name)
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
