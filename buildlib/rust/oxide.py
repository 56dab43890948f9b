"""The device language cuda-oxide: a device crate → PTX for each capability → machine code.

`cargo oxide` compiles the device crate, as a crate for the CPU, with a backend that writes PTX beside it. The crate is
a workspace of its own or of the kernel's, since its dependencies need the pinned nightly; it may be a program, as
upstream has it, whose `main` is empty.
"""

from __future__ import annotations

import re
from pathlib import Path

from buildlib import environment
from buildlib.errors import StepError
from buildlib.files import length, write_if_changed
from buildlib.plan import BuildSpec
from buildlib.process import describe
from buildlib.rust import nvptx
from buildlib.rust.command import remaps, run, rustflags, said
from buildlib.rust.crates import PTX_FOLDER, Device
from buildlib.rust.device_code import Unit
from buildlib.rust.nvptx_toolchain import cpu
from buildlib.rust.oxide_toolchain import CudaOxide
from buildlib.rust.workspace import CargoWorkspace
from buildlib.workspace import Workspace

_TARGET = re.compile(r"^\.target\s+(\w+)", re.MULTILINE)


def emit(
    spec: BuildSpec, device: Device, compiler: CudaOxide, folder: Path, cargo: CargoWorkspace, workspace: Workspace
) -> tuple[Unit, ...]:
    """Compile a device crate to PTX in a folder; the caller holds `cargo.lock`.

    Raises:
        StepError: the crate does not compile, or its entries cannot be launched.
    """
    where = f"{workspace.shown(spec.kernel.folder)}: device code of [kernel.{device.component}]"
    archs = tuple(dict.fromkeys(arch.removesuffix("+PTX") for arch in spec.archs[device.component]))
    images = {}
    for arch in archs:
        made = _ptx(folder, arch, device)
        _compile(spec, device, compiler, arch, made, cargo, workspace)
        images[arch] = made
    texts = {arch: file.read_text(encoding="utf-8") for arch, file in images.items()}
    for arch, text in texts.items():
        found = _TARGET.search(text)
        if found is None or found[1] != cpu(arch):
            named = found[1] if found else "nothing"
            raise StepError(f"{where}: cuda-oxide wrote code for {named} and was asked for {cpu(arch)}; update it")
    return (nvptx.unit(device.crate.name, nvptx.agreeing(texts, where), images, spec.archs[device.component]),)


def place(spec: BuildSpec, device: Device, folder: Path, cargo: CargoWorkspace) -> None:
    """Put PTX where host crates in upstream's layout include it: that of the oldest capability, which suits all."""
    oldest = spec.archs[device.component][0].removesuffix("+PTX")
    made = _ptx(folder, oldest, device)
    write_if_changed(cargo.folder / "kernels" / spec.kernel.key / PTX_FOLDER / made.name, made.read_bytes())


def _ptx(folder: Path, arch: str, device: Device) -> Path:
    """What the backend writes: it names the file after the crate."""
    return folder / cpu(arch) / f"{device.crate.name.replace('-', '_')}.ptx"


def _compile(
    spec: BuildSpec,
    device: Device,
    compiler: CudaOxide,
    arch: str,
    made: Path,
    cargo: CargoWorkspace,
    workspace: Workspace,
) -> None:
    assert spec.toolchain is not None
    assert spec.toolchain.rust is not None
    rust, log = spec.toolchain.rust, workspace.log("build", spec)
    before = length(log)
    manifest = cargo.folder / "kernels" / spec.kernel.key / device.crate.manifest
    made.parent.mkdir(parents=True, exist_ok=True)
    argv = (
        str(compiler.folder / "bin/cargo"), "oxide", "build", f"--arch={cpu(arch)}",
        # Beside the PTX: where cargo takes its work for done, that is still there.
        f"--cargo-target-dir={made.parent / 'target'}",
        # What the host's crates among its dependencies have is not for this image.
        f"--device-codegen-crate={device.crate.name}",
        "--", "--release", "--locked", f"--manifest-path={manifest}",
    )  # fmt: skip
    environ = {
        **rustflags(remaps(cargo.folder, workspace), rust, spec.toolchain.compiler.path),
        "CUDA_OXIDE_BACKEND": str(compiler.backend),
        "CUDA_OXIDE_PTX_DIR": str(made.parent),
        # Some versions take the argument for the host's code alone.
        "CUDA_OXIDE_TARGET": cpu(arch),
        "CUDA_HOME": str(compiler.root),
        # cargo-oxide calls the cargo, and that the rustc, that are first.
        "PATH": environment.path_with(
            workspace.settings, str(compiler.folder / "bin/cargo"), str(compiler.cargo_oxide), rust.cargo
        ),
        "RUSTC": str(compiler.folder / "bin/rustc"),
        "RUSTUP_TOOLCHAIN": compiler.nightly,
    }
    status = run(argv, manifest.parent, cargo.folder, rust, log, workspace, environ)
    where = f"{workspace.shown(spec.kernel.folder)}: device code of [kernel.{device.component}]"
    if status != 0:
        raise StepError(
            f"{where} does not compile for {arch} ({describe(status)}); "
            f"the whole log is {workspace.shown(log)}\n{said(log, before)}"
        )
    if not made.is_file():
        raise StepError(
            f"{where}: cuda-oxide wrote no {made.name}; mark a function of {device.crate.name} as #[kernel], "
            f"or see {workspace.shown(log)}"
        )
