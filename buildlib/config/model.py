"""build.toml as one typed, frozen model, whatever edition the file is written in.

Paths are relative to the kernel's folder, with `/`, and have no `.` parts. Field names are the keys of build.toml in
snake_case; what each means is said once, in grammar.py. Of lists other than those of flags, each item is there once.
"""

from __future__ import annotations

import enum
from pathlib import Path

import msgspec

from buildlib.variant import Backend, Version


class _Struct(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What all tables have in common."""


class KernelDepend(_Struct, omit_defaults=True, frozen=True, kw_only=True):
    """Another kernel on the Hub, at a version branch or at a revision (exactly one of the two)."""

    repo_id: str
    version: int | None = None
    revision: str | None = None


class BackendGeneral(_Struct, frozen=True, kw_only=True):
    """What `[general.<backend>]` says; each backend accepts a subset of these keys."""

    minver: Version | None = None
    maxver: Version | None = None
    kernel_depends: tuple[KernelDepend, ...] = ()
    python_depends: tuple[str, ...] = ()


class Hub(_Struct, frozen=True, kw_only=True):
    """Where the kernel is published."""

    repo_id: str | None = None
    branch: str | None = None


class General(_Struct, frozen=True, kw_only=True):
    """The `[general]` table."""

    name: str
    version: int
    license: str
    backends: tuple[Backend, ...]
    upstream: str | None = None
    source: str | None = None
    kernel_depends: tuple[KernelDepend, ...] = ()
    python_depends: tuple[str, ...] = ()
    by_backend: dict[Backend, BackendGeneral] = {}
    hub: Hub = Hub()

    @property
    def module(self) -> str:
        """The Python package's name."""
        return self.name.replace("-", "_")


class Torch(_Struct, tag_field="framework", tag="torch", frozen=True, kw_only=True):
    """`[torch]`: an extension that registers torch operators."""

    src: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    pyext: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()
    minver: Version | None = None
    maxver: Version | None = None
    # A scalar in the file stands for every declared backend.
    stable_abi: dict[Backend, Version] = {}


class TorchNoarch(_Struct, tag_field="framework", tag="torch-noarch", frozen=True, kw_only=True):
    """`[torch-noarch]`: a Python package."""

    pyext: tuple[str, ...] = ()
    cuda_capabilities: tuple[str, ...] = ()
    rocm_archs: tuple[str, ...] = ()


class TvmFfi(_Struct, tag_field="framework", tag="tvm-ffi", frozen=True, kw_only=True):
    """`[tvm-ffi]`: a library that exports `__tvm_ffi_*` functions."""

    src: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    pyext: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()


Framework = Torch | TorchNoarch | TvmFfi


class _Component(_Struct, tag_field="language", frozen=True, kw_only=True):
    name: str
    depends: tuple[str, ...] = ()
    src: tuple[str, ...] = ()


class _Cpp(_Component, frozen=True, kw_only=True):
    include: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()


class CppCpu(_Cpp, tag="cpp-cpu", frozen=True, kw_only=True):
    """C++ for the CPU."""


class CppCuda(_Cpp, tag="cpp-cuda", frozen=True, kw_only=True):
    """C++ and CUDA C++."""

    cuda_capabilities: tuple[str, ...] = ()
    cuda_flags: tuple[str, ...] = ()
    cuda_minver: Version | None = None


class CppRocm(_Cpp, tag="cpp-rocm", frozen=True, kw_only=True):
    """C++ and HIP."""

    rocm_archs: tuple[str, ...] = ()
    hip_flags: tuple[str, ...] = ()


class CppXpu(_Cpp, tag="cpp-xpu", frozen=True, kw_only=True):
    """C++ and SYCL."""

    sycl_flags: tuple[str, ...] = ()


class CppMetal(_Cpp, tag="cpp-metal", frozen=True, kw_only=True):
    """C++, Objective-C++ and Metal."""


class RustCpu(_Component, tag="rust-cpu", frozen=True, kw_only=True):
    """A Rust crate for the CPU."""

    cargo_manifest: str
    features: tuple[str, ...] = ()


class Dsl(enum.StrEnum):
    """A device language: how the device code of a rust-cuda component is written, and so how it is compiled."""

    CUTILE = "cutile"
    NVPTX = "nvptx"
    CUDA_OXIDE = "cuda-oxide"


class RustCuda(_Component, tag="rust-cuda", frozen=True, kw_only=True):
    """A Rust host crate with device code."""

    cargo_manifest: str
    features: tuple[str, ...] = ()
    cuda_capabilities: tuple[str, ...] = ()
    dsl: Dsl = Dsl.CUTILE
    device_manifest: str | None = None


Component = CppCpu | CppCuda | CppRocm | CppXpu | CppMetal | RustCpu | RustCuda

BACKENDS: dict[type[Component], Backend] = {
    CppCpu: Backend.CPU,
    CppCuda: Backend.CUDA,
    CppRocm: Backend.ROCM,
    CppXpu: Backend.XPU,
    CppMetal: Backend.METAL,
    RustCpu: Backend.CPU,
    RustCuda: Backend.CUDA,
}


class Kernel(_Struct, frozen=True, kw_only=True):
    """One kernel: a folder with a build.toml."""

    folder: Path
    general: General
    framework: Framework
    components: tuple[Component, ...] = ()

    @property
    def key(self) -> str:
        """The folder's name, which names the kernel's tasks; `general.name` need not be unique."""
        return self.folder.name or self.folder.absolute().name
