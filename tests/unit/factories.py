"""Small kernels, hosts and matrices, so that a test says only what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from buildlib import plan as planning
from buildlib.config.model import CppCpu, CppCuda, Framework, General, Kernel, Torch, TorchNoarch, TvmFfi
from buildlib.matrix import Matrix, Row
from buildlib.plan import BuildSpec, Plan
from buildlib.toolchain import Compiler, Host, Library
from buildlib.toolchain import Torch as HostTorch
from buildlib.variant import Backend, Compute, Platform, Version

FOLDER = Path("/checkout/kernels/relu")

GCC = Compiler(path="/usr/bin/g++", family="gcc", version="12.2.0", target="x86_64-linux-gnu")

HOST = Host(
    platform=Platform.X86_64_LINUX,
    portability=None,
    compiler=GCC,
    torch=HostTorch(version="2.13.0+cpu", cuda=None, root=Path("/env/torch")),
    tvm_ffi=Library(name="tvm-ffi", version="0.1.15", includes=("/env/tvm_ffi/include",)),
    python=Library(name="python", version="3.11", includes=("/env/python/include",)),
    cmake="/env/bin/cmake",
    ninja="/env/bin/ninja",
)


def row(version: str, compute: str = "cpu", platform: Platform = Platform.X86_64_LINUX) -> Row:
    return Row(version=Version.parse(version), compute=Compute.parse(compute), platform=platform)


# One row that HOST can build for each framework with an extension.
MATRIX = Matrix(torch=(row("2.13"),), tvm_ffi=(row("0.1"),))


def host(**changes: Any) -> Host:
    return msgspec.structs.replace(HOST, **changes)


def torch(version: str) -> HostTorch:
    return HostTorch(version=version, cuda=None, root=Path("/env/torch"))


def cpu(*src: str, **more: Any) -> CppCpu:
    return CppCpu(**{"name": "relu_cpu", "src": src, **more})


def cuda(*src: str, **more: Any) -> CppCuda:
    return CppCuda(**{"name": "relu_cuda", "src": src, **more})


def kernel(framework: Framework | None = None, *components: Any, folder: Path = FOLDER, **general: Any) -> Kernel:
    """A [torch] kernel for the CPU, unless told otherwise; `general` are fields of its `[general]` table."""
    fields: dict[str, Any] = {"name": "relu", "version": 1, "license": "MIT", "backends": (Backend.CPU,)}
    return Kernel(
        folder=folder,
        general=General(**{**fields, **general}),
        framework=framework or Torch(src=("torch-ext/binding.cpp",)),
        components=components or (cpu("csrc/relu.cpp"),),
    )


def noarch(*, folder: Path = FOLDER, pyext: tuple[str, ...] = (), **general: Any) -> Kernel:
    return msgspec.structs.replace(kernel(TorchNoarch(pyext=pyext), folder=folder, **general), components=())


def tvm_ffi(*components: Any, folder: Path = FOLDER, **general: Any) -> Kernel:
    return kernel(TvmFfi(src=("tvm-ffi-ext/binding.cpp",)), *components, folder=folder, **general)


def plan(*kernels: Kernel, matrix: Matrix = MATRIX, on: Host = HOST) -> Plan:
    return planning.plan(kernels, (), matrix, on)


def spec(planned: Kernel, *, matrix: Matrix = MATRIX, on: Host = HOST) -> BuildSpec:
    """The one build spec that a kernel is planned to."""
    (only,) = plan(planned, matrix=matrix, on=on).specs
    return only


def compiled(planned: Kernel, *, matrix: Matrix = MATRIX, on: Host = HOST) -> BuildSpec:
    """The one build spec with an extension, of a kernel that may have others without."""
    (only,) = (each for each in plan(planned, matrix=matrix, on=on).specs if each.toolchain)
    return only


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files by path below a folder, which is returned."""
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder
