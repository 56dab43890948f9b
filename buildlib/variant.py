"""Build variants and their names. Pure.

The grammar is the one that the `kernels` client parses; an artifact in a folder with another name is never loaded.
A test sends every name through the client's own parser.
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple, assert_never

import msgspec


class Backend(enum.StrEnum):
    """A device family, spelled as in build.toml and in metadata.json."""

    CANN = "cann"
    CPU = "cpu"
    CUDA = "cuda"
    METAL = "metal"
    NEURON = "neuron"
    ROCM = "rocm"
    TPU = "tpu"
    XPU = "xpu"


class Platform(enum.StrEnum):
    """An operating system and a CPU architecture, `<cpu>-<os>`."""

    X86_64_LINUX = "x86_64-linux"
    AARCH64_LINUX = "aarch64-linux"
    AARCH64_DARWIN = "aarch64-darwin"
    X86_64_WINDOWS = "x86_64-windows"

    @property
    def cpu(self) -> str:
        return self.value.partition("-")[0]

    @property
    def os(self) -> str:
        return self.value.partition("-")[2]


class Version(NamedTuple):
    """`X.Y`, the precision at which the client compares versions."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read the first two numbers of a version such as `2.13.0+cu130`; a missing minor counts as 0.

        Raises:
            ValueError: the text does not start with a number.
        """
        match = re.match(r"(\d+)(?:\.(\d+))?", text)
        if match is None:
            raise ValueError(f"{text!r} is not a version")
        return cls(int(match[1]), int(match[2] or 0))

    @property
    def digits(self) -> str:
        """The form used in variant names: `2.13` is `213`."""
        return f"{self.major}{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


# The prefix of a compute segment that carries a version, `cu130`; the other backends stand alone.
_VERSIONED = {Backend.CUDA: "cu", Backend.ROCM: "rocm", Backend.XPU: "xpu", Backend.CANN: "cann"}


class Compute(msgspec.Struct, frozen=True, kw_only=True):
    """The compute segment of a variant name: a backend, with its version where the name carries one."""

    backend: Backend
    version: Version | None = None

    @classmethod
    def parse(cls, text: str) -> Compute:
        """Read `cpu`, `cu130`, `rocm71`, `xpu20253`, …; the last digit is the minor version.

        Raises:
            ValueError: no backend is spelled so.
        """
        for backend, prefix in _VERSIONED.items():
            if match := re.fullmatch(rf"{prefix}(\d+)(\d)", text):
                return cls(backend=backend, version=Version(int(match[1]), int(match[2])))
        backend = Backend(text)
        if backend in _VERSIONED:
            raise ValueError(f"{text!r} lacks a version; write it as in cu130")
        return cls(backend=backend)

    def __str__(self) -> str:
        if self.version is None:
            return self.backend.value
        return _VERSIONED[self.backend] + self.version.digits


class TorchVariant(msgspec.Struct, frozen=True, kw_only=True, tag="torch"):
    """An extension for one torch release: `torch213-cxx11-cu130-x86_64-linux`."""

    torch: Version
    compute: Compute
    platform: Platform


class TorchStableAbiVariant(msgspec.Struct, frozen=True, kw_only=True, tag="torch-stable-abi"):
    """An extension for torch's stable ABI of one release and later ones: `torch-stable-abi211-cpu-x86_64-linux`."""

    abi: Version
    compute: Compute
    platform: Platform


class TvmFfiVariant(msgspec.Struct, frozen=True, kw_only=True, tag="tvm-ffi"):
    """A tvm-ffi library: `tvm-ffi01-cpu-x86_64-linux`."""

    tvm_ffi: Version
    compute: Compute
    platform: Platform


class TorchNoarchVariant(msgspec.Struct, frozen=True, kw_only=True, tag="torch-noarch"):
    """A Python package without an extension: `torch-cuda`."""

    backend: Backend


Variant = TorchVariant | TorchStableAbiVariant | TvmFfiVariant | TorchNoarchVariant


def name(variant: Variant) -> str:
    """The folder name of a variant's artifact."""
    match variant:
        case TorchVariant(torch=torch, compute=compute, platform=platform):
            # Only on Linux have there been two C++ ABIs, so only there the name says which.
            abi = "-cxx11" if platform.os == "linux" else ""
            return f"torch{torch.digits}{abi}-{compute}-{platform}"
        case TorchStableAbiVariant(abi=version, compute=compute, platform=platform):
            return f"torch-stable-abi{version.digits}-{compute}-{platform}"
        case TvmFfiVariant(tvm_ffi=version, compute=compute, platform=platform):
            return f"tvm-ffi{version.digits}-{compute}-{platform}"
        case TorchNoarchVariant(backend=backend):
            # The client looks for torch's own name of the device, which for CANN is npu.
            return "torch-npu" if backend is Backend.CANN else f"torch-{backend}"
        case _ as unreachable:
            assert_never(unreachable)


def framework(variant: Variant) -> str:
    """The framework that a variant's artifact is loaded by: torch, torch-noarch or tvm-ffi."""
    match variant:
        case TorchVariant() | TorchStableAbiVariant():
            return "torch"
        case TvmFfiVariant():
            return "tvm-ffi"
        case TorchNoarchVariant():
            return "torch-noarch"
        case _ as unreachable:
            assert_never(unreachable)


def backend(variant: Variant) -> Backend:
    """The backend that a variant is for."""
    return variant.backend if isinstance(variant, TorchNoarchVariant) else variant.compute.backend
