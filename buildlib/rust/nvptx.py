"""The device language nvptx: a device crate → PTX for each capability → machine code.

rustc compiles the crate, with all that it depends on, through the optimiser of its own target; cargo does the calling,
as for any crate. There is no linker for PTX here: whole-program optimisation brings all crates together, and rustc
writes the outcome out as text. ptxas, of the variant's own CUDA, makes machine code of it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from buildlib.errors import StepError
from buildlib.files import length
from buildlib.plan import BuildSpec
from buildlib.process import describe
from buildlib.rust import answers, nvptx_toolchain, ptx
from buildlib.rust.command import release_flags, remaps, run, rustflags, said
from buildlib.rust.crates import Device
from buildlib.rust.device_code import Code, Entry, Unit, Variant
from buildlib.rust.nvptx_toolchain import BOOTSTRAP, PANICS, TARGET, Nvptx
from buildlib.rust.oxide_toolchain import CudaOxide
from buildlib.rust.workspace import CargoWorkspace
from buildlib.workspace import Workspace

# What hosts can pass.
_PARAMETERS = frozenset({"pointer", "b32", "b64", "f32", "f64"})


def emit(
    spec: BuildSpec, device: Device, compiler: Nvptx, folder: Path, cargo: CargoWorkspace, workspace: Workspace
) -> tuple[Unit, ...]:
    """Compile a device crate to PTX in a folder; the caller holds `cargo.lock`.

    Raises:
        StepError: the crate does not compile, or its entries cannot be launched.
        ToolchainError: rustc cannot compile core.
    """
    run_of = _Run(spec, device, compiler, cargo, workspace)
    images = {arch: folder / f"{device.crate.name}.{_cpu(arch)}.ptx" for arch in _archs(spec.archs[device.component])}
    for arch, file in images.items():
        # Of a command that it has run before, cargo believes that its files are there: this one is always another.
        with tempfile.TemporaryDirectory(dir=folder) as making:
            made = Path(making) / file.name
            run_of.compile(arch, made, quiet=arch != next(iter(images)))
            made.replace(file)
    where = run_of.where
    entries = agreeing({arch: file.read_text(encoding="utf-8") for arch, file in images.items()}, where)
    return (unit(device.crate.name, entries, images, spec.archs[device.component]),)


def assemble(compiler: Nvptx | CudaOxide, code: Code, target: Path) -> tuple[str, ...]:
    """The command that makes machine code; it tells what each entry uses."""
    return (
        str(compiler.root / "bin/ptxas"), "-O3", "--verbose", f"--gpu-name=sm_{code.arch}",
        f"--output-file={target}", str(code.file),
    )  # fmt: skip


def agreeing(texts: Mapping[str, str], where: str) -> tuple[ptx.Entry, ...]:
    """The entries of the PTX for some capabilities, which must all have the same.

    Raises:
        StepError: they differ, or one cannot be launched or lacks a part.
    """
    found = {arch: ptx.entries(text) for arch, text in texts.items()}
    first, *others = found
    for arch in others:
        if different := {entry.symbol for entry in set(found[first]) ^ set(found[arch])}:
            raise StepError(
                f"{where}: {', '.join(sorted(different))}: not the same for {first} and {arch}; "
                "give every entry the same parameters for every capability"
            )
    for entry in found[first]:
        for at, kind in enumerate(entry.parameters):
            if kind not in _PARAMETERS:
                what = f"has {kind[1:]} bits" if kind else "is neither a number nor a pointer"
                raise StepError(
                    f"{where}: {entry.symbol}: parameter {at + 1} {what}; pass pointers, and numbers of 32 or 64 bits"
                )
    for text in texts.values():
        if lost := ptx.undefined(text):
            raise StepError(
                f"{where}: uses {', '.join(lost)}, which nothing defines for GPUs; write it in the device crate"
            )
    return found[first]


def unit(name: str, entries: tuple[ptx.Entry, ...], images: Mapping[str, Path], archs: tuple[str, ...]) -> Unit:
    """All entries in one fatbin; `images` are the files of PTX by capability."""
    variants = tuple(
        Variant(capability=arch.rstrip("af"), exact=arch[-1] == "a", portable=f"{arch}+PTX" in archs) for arch in images
    )
    return Unit(
        name=name,
        kind="ptx",
        entries=tuple(
            Entry(
                function=entry.symbol,
                symbol=entry.symbol,
                parameters=tuple(kind for kind in entry.parameters if kind is not None),
                variants=variants,
            )
            for entry in entries
        ),
        codes=tuple(
            Code(
                capability=variant.capability, arch=_cpu(arch).removeprefix("sm_"), file=file, portable=variant.portable
            )
            for variant, (arch, file) in zip(variants, images.items(), strict=True)
        ),
    )


class _Run:
    """Runs cargo for one device crate."""

    def __init__(
        self, spec: BuildSpec, device: Device, compiler: Nvptx, cargo: CargoWorkspace, workspace: Workspace
    ) -> None:
        self._spec = spec
        self._device = device
        self._compiler = compiler
        self._cargo = cargo
        self._workspace = workspace
        self._core = nvptx_toolchain.ensure_core(compiler, workspace)
        self.where = f"{workspace.shown(spec.kernel.folder)}: device code of [kernel.{device.component}]"

    def compile(self, arch: str, target: Path, *, quiet: bool) -> None:
        """Have cargo compile the crate for one capability, and rustc write the PTX; `quiet` is without warnings."""
        spec, cargo, workspace = self._spec, self._cargo, self._workspace
        assert spec.toolchain is not None
        assert spec.toolchain.rust is not None
        rust = spec.toolchain.rust
        log = workspace.log("build", spec)
        before = length(log)
        argv = (
            rust.cargo, "rustc", "--locked", f"--package={self._device.crate.name}", "--lib", f"--target={TARGET}",
            # A library that is complete in itself, so that rustc optimises it with all that it needs.
            "--crate-type=cdylib", f"--target-dir={cargo.target}", "--message-format=json-render-diagnostics",
            *release_flags(),
            # What the crates before it are compiled for does not matter: their code is generated here.
            "--", f"-Ctarget-cpu={_cpu(arch)}", f"--emit=asm={target}", "-Zno-link", *self._extern(),
            *(("--cap-lints=allow",) if quiet else ()),
        )  # fmt: skip
        environ = {
            **rustflags(self._flags(), rust, spec.toolchain.compiler.path),
            **BOOTSTRAP,
            "RUSTC": self._compiler.rustc,
        }
        answer = target.with_suffix(".json")
        status = run(argv, cargo.root, cargo.folder, rust, log, workspace, environ, answer)
        if status != 0:
            raise StepError(
                f"{self.where} does not compile for {arch} ({describe(status)}); "
                f"the whole log is {workspace.shown(log)}\n{said(log, before)}"
            )
        # Beside where the library would be, were it linked, cargo lists what was read for it.
        manifest = os.path.normpath(cargo.folder / "kernels" / spec.kernel.key / self._device.crate.manifest)
        for message in answers.messages(answer):
            if message.reason == "compiler-artifact" and message.manifest_path == manifest:
                library = message.target.name.replace("-", "_")
                answers.check_reads(cargo.target / TARGET / "release" / f"{library}.d", spec, cargo, workspace)

    def _flags(self) -> list[str]:
        compiler = self._compiler
        found = [f"--sysroot={nvptx_toolchain.sysroot(compiler, self._core)}", *compiler.flags]
        found += remaps(self._cargo.folder, self._workspace)
        if compiler.source:
            found.append(f"--remap-path-prefix={compiler.source}=library")
        return found

    def _extern(self) -> Iterator[str]:
        if self._compiler.source is None:
            # Though no crate names it.
            yield f"--extern=force:{PANICS}={self._core}/lib{PANICS}.rlib"


def _archs(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value.removesuffix("+PTX") for value in values))


def _cpu(arch: str) -> str:
    return nvptx_toolchain.cpu(arch)
