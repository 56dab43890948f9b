"""The compilers of device languages: what each needs, what there is of it here, and for what it makes code.

`toolchains/dsl.toml` has the data. A reason why a device language cannot be compiled is one line that ends in what
to do about it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from buildlib import capability
from buildlib.config.model import Dsl
from buildlib.cuda import Cuda
from buildlib.data import read
from buildlib.environment import Settings
from buildlib.lock import Locked
from buildlib.rust import nvptx_toolchain, oxide_toolchain
from buildlib.rust.nvptx_toolchain import Nvptx
from buildlib.rust.oxide_toolchain import CudaOxide
from buildlib.variant import Version

# The first capability from which on tileiras makes code for one architecture alone: `sm_90a`, and not `sm_90`.
_ARCHITECTURE_SPECIFIC = "9.0"


class Cutile(msgspec.Struct, frozen=True, kw_only=True, tag="cutile"):
    """tileiras and what else compiles tile programs: `root` holds CUDA's headers and bin/tileiras with its ptxas.

    `libclang` is the folder of that library, with which the crates of cutile read the headers. `cuda` is the oldest
    CUDA whose driver loads what it makes.
    """

    version: str
    root: Path
    libclang: Path
    locked: tuple[Locked, ...]
    minimum: str
    cuda: Version

    @property
    def identity(self) -> str:
        return f"tileiras {self.version}"

    def beside(self, _toolkit: Cuda) -> Cutile:
        """It for a variant with a toolkit; it has an assembler of its own."""
        return self

    def refuses(self, cuda: Version) -> str | None:
        """Why no variant for a version of CUDA can have its code, or None."""
        if cuda >= self.cuda:
            return None
        return f"cutile needs a driver of CUDA {self.cuda} or newer, and the variant promises CUDA {cuda}"

    def wrong(self, asked: Iterable[str]) -> str | None:
        """What is wrong with the capabilities that a component asks for, or None."""
        for value in asked:
            bare = value.removesuffix("+PTX")
            if bare[-1] in "af":
                return f"cutile takes {value!r} without {bare[-1]!r}: it always makes code for the architecture itself"
            if capability.is_older(bare, self.minimum):
                return f"cutile makes code for {self.minimum} and newer, and not for {value!r}; remove it"
        return None

    def made(self, chosen: Iterable[str]) -> tuple[str, ...]:
        """The capabilities of the images for some chosen ones; those that it cannot compile for are left out.

        Machine code for 9.0 and newer is for one architecture alone. Beside it `+PTX` stands for Tile IR, which serves
        later ones: `10.0+PTX` is made as `10.0a` and `10.0+PTX`.
        """
        images = []
        for value in chosen:
            bare = value.removesuffix("+PTX")
            if capability.is_older(bare, self.minimum):
                continue
            specific = not capability.is_older(bare, _ARCHITECTURE_SPECIFIC)
            images += [f"{bare}a"] if specific else []
            images += [value] if not specific or value != bare else []
        return capability.in_order(images)


DeviceCompiler = Cutile | Nvptx | CudaOxide


class _CutileData(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    minimum: str
    cuda: str
    toolchain: str
    libclang: str


class _Data(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    cutile: _CutileData
    nvptx: nvptx_toolchain.Requirements
    cuda_oxide: oxide_toolchain.Requirements


def find(
    settings: Settings, data: Path, locked: Mapping[str, Locked], dsls: Collection[Dsl]
) -> dict[Dsl, DeviceCompiler | str]:
    """The compiler of each device language that kernels use, or why there is none. Nothing is fetched.

    Raises:
        ToolchainError: the data cannot be used.
    """
    if not dsls:
        return {}
    known = read(data, _Data)
    return {dsl: _find(dsl, known, settings, locked) for dsl in sorted(dsls)}


def _find(dsl: Dsl, known: _Data, settings: Settings, locked: Mapping[str, Locked]) -> DeviceCompiler | str:
    match dsl:
        case Dsl.CUTILE:
            return _cutile(known.cutile, settings, locked)
        case Dsl.NVPTX:
            return nvptx_toolchain.find(settings, known.nvptx)
        case Dsl.CUDA_OXIDE:
            return oxide_toolchain.find(settings, known.cuda_oxide)


def _cutile(data: _CutileData, settings: Settings, locked: Mapping[str, Locked]) -> Cutile | str:
    tools, libclang = locked.get(data.toolchain), locked.get(data.libclang)
    if tools is None or libclang is None:
        return "cutile's assembler, tileiras, and libclang cannot be had from the Python index for this machine"
    version, nvcc = tools.version("nvidia-cuda-tileiras"), tools.version("nvidia-cuda-nvcc")
    if version is None or version != nvcc:
        return (
            f"toolchains/lock.toml: {data.toolchain} has tileiras {version} and the ptxas of nvcc {nvcc}, "
            "which work together in one version only; lock the same one of both"
        )
    return Cutile(
        version=version,
        root=tools.folder(settings.cache),
        libclang=libclang.folder(settings.cache) / "clang" / "native",
        locked=(tools, libclang),
        minimum=data.minimum,
        cuda=Version.parse(data.cuda),
    )
