"""The compiler of the device language nvptx: a rustc of this machine with a core for its target nvptx64-nvidia-cuda.

The core is one that is installed for the target, or is compiled from rustc's own source into the per-user cache, once
(ten seconds). Its source comes first: compiled here, core's panics are traps, and every function of it can be inlined.
One that is installed carries panics with messages, which cost registers and are never shown.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from buildlib import environment, kept, process
from buildlib.config.model import Dsl
from buildlib.environment import Settings
from buildlib.errors import ToolchainError
from buildlib.files import write
from buildlib.rust import manifest
from buildlib.rust.assembled import WithToolkit
from buildlib.variant import Version

if TYPE_CHECKING:
    from buildlib.workspace import Workspace

TARGET = "nvptx64-nvidia-cuda"
# The target has no stable features: entries (abi_ptx), the registers of threads (stdarch_nvptx), and these flags.
BOOTSTRAP = {"RUSTC_BOOTSTRAP": "1"}
# A panic is a trap, with nothing that describes it: a GPU has nowhere to show that. All functions can be inlined across
# crates; what is not becomes a function of the image, so that nothing is left to link.
_FLAGS = ("-Zunstable-options", "-Cpanic=immediate-abort", "-Zcross-crate-inline-threshold=always")
_FLAGS_OF_INSTALLED = ("-Zunstable-options",)
# Part of the name of every folder in the cache; raised when what `_make_core` makes changes.
_LAYOUT = 1
_TAIL = 20

# Every crate is linked with this one. What it is to hold, such as memcpy, LLVM writes out for GPUs.
_BUILTINS = "#![feature(compiler_builtins)]\n#![compiler_builtins]\n#![no_std]\n"
# In place of the message that an installed core makes of a panic.
_PANICS = """\
#![no_std]
#![feature(stdarch_nvptx)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { core::arch::nvptx::trap() }
}
"""
PANICS = "kernelyard_panics"


class Nvptx(WithToolkit, frozen=True, kw_only=True, tag="nvptx"):
    """A rustc that compiles for NVIDIA's GPUs: for those in `cpus`. `build` tells apart two of one version.

    `source` is the folder of core's source; None where the target is installed. `instead_of` is the version that
    published builds are made with, where this is another.
    """

    dsl = Dsl.NVPTX

    rustc: str
    version: str
    commit: str
    build: str
    sysroot: Path
    source: Path | None
    cpus: tuple[str, ...]
    instead_of: str | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        """What every crate is compiled with; the sysroot comes to it."""
        return _FLAGS if self.source else _FLAGS_OF_INSTALLED

    @property
    def identity(self) -> str:
        return f"{self._rustc_identity}{self.assembler}"

    @property
    def _rustc_identity(self) -> str:
        core = "own core" if self.source else "installed core"
        return f"rustc {self.version} {self.commit} {TARGET} ({core}, {' '.join(self.flags)})"

    def unknown(self, value: str) -> str | None:
        """Why it makes no code for a capability although that is new enough, or None."""
        if cpu(value.removesuffix("+PTX")) in self.cpus:
            return None
        return f"rustc {self.version} makes no code for {value!r}; remove it, or install a newer rustc"

    def folder(self, cache: Path) -> Path:
        """What is compiled once for it, in the per-user cache: another folder for each content."""
        content = repr((_LAYOUT, self.build, self._rustc_identity)).encode()
        return cache / "toolchains" / f"nvptx-{self.version}-{hashlib.sha256(content).hexdigest()[:12]}"


class Requirements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[nvptx]` in toolchains/dsl.toml: the oldest capability, the oldest rustc, and the one of published builds."""

    minimum: str
    rustc: str
    published: str
    install: str


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a rustc says of itself, and the state of its file by which that is still true."""

    version: str
    commit: str
    build: str
    sysroot: str
    cpus: tuple[str, ...]
    state: str


def cpu(bare: str) -> str:
    """The name that rustc has for a capability: `sm_90a` for `9.0a`."""
    return f"sm_{bare.replace('.', '')}"


def find(settings: Settings, required: Requirements) -> Nvptx | str:
    """The best rustc of this machine that can compile for the target, or why there is none. Nothing is compiled.

    That is the version of published builds where there is one, else the newest release, else the newest of all.
    """
    lacking, old, able = [], [], []
    for rustc in _rustcs(settings):
        asked = _ask(settings, rustc)
        if asked is None:
            continue
        if Version.parse(asked.version.partition("-")[0]) < Version.parse(required.rustc):
            old.append(f"{rustc} is {asked.version}")
        elif (made := _with_core(rustc, asked, required)) is None:
            lacking.append(f"{rustc} {asked.version}")
        else:
            able.append(made)
    if able:
        best = max(able, key=lambda each: _rank(each, required))
        return (
            best if best.version == required.published else msgspec.structs.replace(best, instead_of=required.published)
        )
    if lacking:
        problem = f"no core for {TARGET} and no source of it, which {' and '.join(lacking)} would need"
    elif old:
        problem = f"no rustc of {required.rustc} or newer for {TARGET} ({', '.join(old)})"
    else:
        problem = f"no rustc that knows {TARGET}"
    return f"nvptx: {problem}; {required.install}"


def ensure_core(compiler: Nvptx, workspace: Workspace) -> Path:
    """The folder that `Nvptx.folder` names, made unless it is there.

    Raises:
        ToolchainError: rustc cannot compile core.
    """
    name = f"nvptx-{compiler.version}"

    def make(making: Path) -> Path:
        workspace.notify(name, "compiling core for GPUs" if compiler.source else "compiling what panics do on GPUs")
        library = making / "root/lib/rustlib" / TARGET / "lib"
        library.mkdir(parents=True)
        for command in _commands(compiler, making, library):
            _compile(command, compiler, making, workspace)
        return making / "root"

    try:
        return kept.ensure(compiler.folder(workspace.settings.cache), name, make, workspace.notify)
    finally:
        workspace.notify(name, "")


def sysroot(compiler: Nvptx, folder: Path) -> Path:
    """Where rustc finds core; `folder` is what `ensure_core` made."""
    return folder if compiler.source else compiler.sysroot


def _rustcs(settings: Settings) -> Iterator[str]:
    """Every rustc: those on PATH, in its order, and rustup's toolchains."""
    home = environment.home_of(settings, "rustup")
    on_path = (
        Path(folder, "rustc")
        for folder in (settings.passed.get("PATH") or os.defpath).split(os.pathsep)
        # rustup's own stand-in runs one of its toolchains, which are looked at by themselves.
        if folder and not Path(folder, "rustup").exists()
    )
    found = (*on_path, *sorted(home.glob("toolchains/*/bin/rustc")))
    seen = set()
    for path in found:
        real = os.path.realpath(path)
        if shutil.which(path) and real not in seen:
            seen.add(real)
            yield str(path)


def _ask(settings: Settings, rustc: str) -> _Asked | None:
    """What a rustc says of itself, asked once for each content of its file; None where it is none for the target."""
    stat = os.stat(rustc)
    state = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
    record = settings.cache / "probes" / f"nvptx-{hashlib.sha256(rustc.encode()).hexdigest()[:16]}.json"
    try:
        asked = msgspec.json.decode(record.read_bytes(), type=_Asked)
        if asked.state == state:
            return asked
    except (OSError, msgspec.DecodeError):
        pass  # Not asked yet, or the record is from another version: ask.
    env = environment.child(settings, **BOOTSTRAP)
    said = process.output([rustc, "-vV"], env=env) or ""
    printed = process.output([rustc, "--print=sysroot", "--print=target-cpus", f"--target={TARGET}"], env=env)
    found = dict(re.findall(r"^(release|commit-hash): (\S+)$", said, re.MULTILINE))
    if printed is None or "release" not in found:
        return None
    asked = _Asked(
        version=found["release"],
        commit=found.get("commit-hash", "unknown")[:9],
        build=hashlib.sha256(said.encode()).hexdigest()[:16],
        sysroot=printed.partition("\n")[0],
        cpus=tuple(re.findall(r"\bsm_\w+", printed)),
        state=state,
    )
    write(record, msgspec.json.encode(asked))
    return asked


def _with_core(rustc: str, asked: _Asked, required: Requirements) -> Nvptx | None:
    library = Path(asked.sysroot, "lib/rustlib")
    source: Path | None = library / "src/rust/library"
    if not (library / "src/rust/library/core/src/lib.rs").is_file():
        if not any((library / TARGET / "lib").glob("libcore-*.rlib")):
            return None
        source = None
    return Nvptx(
        rustc=rustc,
        version=asked.version,
        commit=asked.commit,
        build=asked.build,
        sysroot=Path(asked.sysroot),
        source=source,
        cpus=asked.cpus,
        minimum=required.minimum,
    )


def _rank(compiler: Nvptx, required: Requirements) -> tuple[bool, bool, Version]:
    number, _, channel = compiler.version.partition("-")
    return compiler.version == required.published, not channel, Version.parse(number)


def _commands(compiler: Nvptx, making: Path, library: Path) -> Iterator[tuple[str, ...]]:
    """The commands that make all that is compiled once."""
    common = (
        compiler.rustc, f"--target={TARGET}", "-Copt-level=3", "-Ccodegen-units=1", "--cap-lints=allow",
        "--crate-type=rlib", f"--remap-path-prefix={making}=.", *compiler.flags,
    )  # fmt: skip
    if compiler.source is None:
        (making / "panics.rs").write_text(_PANICS)
        library = making / "root"
        yield (*common, "--edition=2021", f"--crate-name={PANICS}", f"-o{library}/lib{PANICS}.rlib", "panics.rs")
        return
    core = compiler.source / "core"
    document = manifest.read(core / "Cargo.toml", f"{core}/Cargo.toml")
    edition = f"--edition={document['package']['edition']}"
    remap = f"--remap-path-prefix={compiler.source}=library"
    (making / "builtins.rs").write_text(_BUILTINS)
    yield (*common, edition, remap, "--crate-name=core", f"-o{library}/libcore.rlib", f"{core}/src/lib.rs")
    yield (
        *common, edition, f"--sysroot={making}/root", "--crate-name=compiler_builtins",
        f"-o{library}/libcompiler_builtins.rlib", "builtins.rs",
    )  # fmt: skip


def _compile(command: tuple[str, ...], compiler: Nvptx, making: Path, workspace: Workspace) -> None:
    log = making / "log"
    env = environment.child(workspace.settings, **BOOTSTRAP)
    with workspace.jobs.slot():
        status = workspace.processes.run(command, cwd=making, env=env, log=log)
    if status != 0:
        last = "\n".join(log.read_text(encoding="utf-8").splitlines()[-_TAIL:])
        where = compiler.source or compiler.sysroot
        raise ToolchainError(
            f"{where}: {compiler.rustc} {compiler.version} cannot compile core for {TARGET} "
            f"({process.describe(status)}); install the source of this very version\n{last}"
        )
