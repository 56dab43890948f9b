"""The device language cutile: a device crate → Tile IR for each instantiation × capability → machine code.

The emitter, a small program rendered over the device crate, compiles tile programs to Tile IR bytecode; tileiras makes
machine code of that. The crates of cutile read CUDA's headers when they are compiled, and nothing needs a driver.
"""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
from collections.abc import Iterator
from pathlib import Path

import filelock
import msgspec

from buildlib import process
from buildlib.environment import child
from buildlib.errors import StepError
from buildlib.files import length
from buildlib.plan import BuildSpec
from buildlib.rust import answers
from buildlib.rust.command import run, rustflags, said
from buildlib.rust.crates import Device
from buildlib.rust.device_code import Check, Code, Entry, Unit, Variant
from buildlib.rust.dsl import Cutile
from buildlib.rust.toolchain import Rust
from buildlib.rust.workspace import CargoWorkspace, emitter_name
from buildlib.toolchain import Compiler
from buildlib.workspace import Workspace

PROFILE = "emitter"
# How many programs an emitter may compile at once.
_THREADS = "KERNELYARD_EMITTER_THREADS"
# What the emitter is compiled with: quickly, but for what it spends its time in.
_PROFILE = {
    "inherits": '"dev"',
    "debug": "false",
    "incremental": "true",
    **{f"package.{name}.opt-level": "1" for name in ("cutile-compiler", "cutile-ir", "proc-macro2", "syn")},
}


class _Image(msgspec.Struct, frozen=True, kw_only=True):
    capability: str
    tuned: dict[str, int]
    file: str
    launch_checks: tuple[Check, ...]


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    symbol: str
    function: str
    keys: dict[str, int | str]
    parameters: tuple[str, ...]
    images: tuple[_Image, ...]


class _Emitted(msgspec.Struct, frozen=True):
    """entries.json, which the emitter writes last."""

    entries: tuple[_Entry, ...]


def emit(
    spec: BuildSpec, device: Device, compiler: Cutile, folder: Path, cargo: CargoWorkspace, workspace: Workspace
) -> tuple[Unit, ...]:
    """Compile a device crate to Tile IR in a folder; the caller holds `cargo.lock`.

    Raises:
        StepError: a tile program does not compile.
    """
    assert spec.toolchain is not None
    assert spec.toolchain.rust is not None
    rust = spec.toolchain.rust
    where = f"{workspace.shown(spec.kernel.folder)}: device code of [kernel.{device.component}]"
    log = workspace.log("build", spec)
    name = emitter_name(spec.kernel.key, device)
    archs = spec.archs[device.component]
    capabilities = tuple(dict.fromkeys(arch.removesuffix("+PTX").removesuffix("a") for arch in archs))
    with shared_target(spec, compiler, workspace) as (target, extra):
        argv = (rust.cargo, "build", "--locked", f"--package={name}", *target, *profile())
        program = target_folder(rust, workspace) / rust.host / PROFILE / name
        before = length(log)
        status = run(argv, cargo.root, cargo.folder, rust, log, workspace, extra)
        if status == 0:
            answers.check_reads(program.with_suffix(".d"), spec, cargo, workspace)
            # No other checkout may replace the program before it has run.
            status = _run_emitter((str(program), str(folder), *capabilities), cargo, log, workspace)
        if status != 0:
            raise StepError(
                f"{where} does not compile ({process.describe(status)}); the whole log is {workspace.shown(log)}\n"
                f"{said(log, before)}"
            )
    emitted = msgspec.json.decode((folder / "entries.json").read_bytes(), type=_Emitted)
    return tuple(_unit(entry, folder, archs) for entry in emitted.entries)


def _run_emitter(argv: tuple[str, ...], cargo: CargoWorkspace, log: Path, workspace: Workspace) -> int:
    """Run an emitter, on as many threads as jobs are free; its exit status."""
    with workspace.jobs.slots() as jobs:
        # It copies syntax trees for much of its time, and takes a third less with room for them in malloc's caches.
        room = "glibc.malloc.tcache_count=65535:glibc.malloc.tcache_max=4096"
        env = child(workspace.settings, **{_THREADS: str(jobs)}, GLIBC_TUNABLES=room)
        return workspace.processes.run(argv, cwd=cargo.root, env=env, log=log, rename={f"{cargo.folder}/": ""})


@contextlib.contextmanager
def shared_target(
    spec: BuildSpec, compiler: Cutile, workspace: Workspace
) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """Arguments and variables of cargo, by which all checkouts share the compiled crates of cutile, one at a time.

    These take minutes to compile. The caller has provisioned what they are compiled with.
    """
    assert spec.toolchain is not None
    assert spec.toolchain.rust is not None
    rust, host = spec.toolchain.rust, spec.toolchain.compiler
    # No paths are mapped: the macro of cutile reads the device crate's source again, by the path that rustc gives it.
    extra = {**rustflags((), rust, host.path), **environment(compiler, host, workspace)}
    target = target_folder(rust, workspace)
    target.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(target / "lock"):
        yield (f"--target={rust.host}", f"--target-dir={target}"), extra


def target_folder(rust: Rust, workspace: Workspace) -> Path:
    """Where all checkouts compile the crates of cutile: for each rustc elsewhere, as cargo starts over for another."""
    return workspace.settings.cache / "emitters" / hashlib.sha256(rust.rustc.encode()).hexdigest()[:12]


def profile() -> Iterator[str]:
    """The arguments of cargo that set the profile of emitters."""
    yield f"--profile={PROFILE}"
    for key, value in _PROFILE.items():
        yield f"--config=profile.{PROFILE}.{key}={value}"


def assemble(compiler: Cutile, code: Code, target: Path) -> tuple[str, ...]:
    """The command that makes machine code."""
    arch = code.arch.removesuffix("a")
    return (str(compiler.root / "bin/tileiras"), f"--gpu-name=sm_{arch}", f"--output-file={target}", str(code.file))


def environment(compiler: Cutile, host: Compiler, workspace: Workspace) -> dict[str, str]:
    """The variables by which the crates of cutile find CUDA's headers, and libclang with the headers of a compiler."""
    # libclang comes without the headers that every compiler brings, such as stddef.h.
    query = (host.path, "-print-file-name=include")
    own = (process.output(query, env=child(workspace.settings)) or "").strip()
    return {
        "CUDA_TOOLKIT_PATH": str(compiler.root),
        "LIBCLANG_PATH": str(compiler.libclang),
        "BINDGEN_EXTRA_CLANG_ARGS": f'-I"{own}"' if posixpath.isabs(own) else "",
    }


def _unit(entry: _Entry, folder: Path, archs: tuple[str, ...]) -> Unit:
    variants = tuple(
        Variant(
            capability=image.capability,
            exact=f"{image.capability}a" in archs,
            portable=f"{image.capability}+PTX" in archs,
            tuned=image.tuned,
            checks=image.launch_checks,
        )
        for image in entry.images
    )
    codes = tuple(
        Code(
            capability=variant.capability,
            arch=variant.capability.replace(".", "") + ("a" if variant.exact else ""),
            file=folder / image.file,
            portable=variant.portable,
        )
        for image, variant in zip(entry.images, variants, strict=True)
    )
    known = Entry(
        function=entry.function, symbol=entry.symbol, keys=entry.keys, parameters=entry.parameters, variants=variants
    )
    return Unit(name=entry.symbol, kind="tileir", entries=(known,), codes=codes)
