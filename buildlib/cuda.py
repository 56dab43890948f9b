"""The CUDA toolkits that this machine has or can have: toolchains/cuda.toml, the machine, and what is locked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from buildlib import environment, process
from buildlib.data import read
from buildlib.environment import Settings
from buildlib.lock import Locked
from buildlib.probes import remembered
from buildlib.variant import Version

# Where NVIDIA's installers put a toolkit.
_INSTALLED = Path("/usr/local")
_NAME = re.compile(r"cuda-(\d+\.\d+)")
_RELEASE = re.compile(r"release (\d+\.\d+), V([\d.]+)")


class Cuda(msgspec.Struct, frozen=True, kw_only=True):
    """A CUDA toolkit: its compiler's full version, and its root, which holds bin/nvcc.

    `locked` is what it is provisioned from, None for one that the machine has. `below` are the first releases of gcc
    and of clang that its compiler refuses. `cuobjdump` is what the program of that name is provisioned from, None where
    the toolkit's own will do. `has_libraries` says that the headers of CUDA's libraries, such as cuBLAS, are in it.
    `note` tells of a toolkit on the machine that seems to be of the version, and that was not taken.
    """

    version: Version
    nvcc: str
    root: Path
    locked: Locked | None = None
    below: dict[str, str] = {}
    cuobjdump: Locked | None = None
    has_libraries: bool = False
    note: str = ""

    @property
    def identity(self) -> str:
        # Not where it is, nor where it came from: the same release makes the same code.
        return f"nvcc {self.nvcc}"

    def refuses(self, family: str, version: str) -> str | None:
        """Why it does not work with a host compiler, or None."""
        first = self.below.get(family)
        if first is None or Version.parse(version) < Version.parse(first):
            return None
        return f"CUDA {self.version} refuses {family} {version}; set CXX to one older than {family} {first}"


class _Toolkit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    below: dict[str, str] = {}


def find(
    settings: Settings, data: Path, locked: Mapping[str, Locked], *, installed: Path = _INSTALLED
) -> dict[Version, Cuda | str]:
    """For each version in cuda.toml a toolkit, or the reason why there is none.

    Nothing is fetched, and a program is asked for its version once for each content of its file.

    Raises:
        ToolchainError: cuda.toml cannot be used.
    """
    toolkits = read(data, dict[str, _Toolkit])
    return {
        version: _find(version, toolkits[text], settings, locked, installed)
        for text in toolkits
        for version in (Version.parse(text),)
    }


def release(settings: Settings, nvcc: Path) -> tuple[Version, str] | None:
    """The version of CUDA and of the compiler that nvcc reports; None where it does not answer as nvcc does."""
    said = process.output([str(nvcc), "--version"], env=environment.child(settings))
    match = _RELEASE.search(said or "")
    return (Version.parse(match[1]), match[2]) if match else None


def _find(
    version: Version, toolkit: _Toolkit, settings: Settings, locked: Mapping[str, Locked], installed: Path
) -> Cuda | str:
    problems = []
    for root, promised in _roots(version, settings, installed):
        nvcc = root / "bin" / "nvcc"
        if not nvcc.is_file():
            problems.append(f"CUDA_HOME is {root}, which has no bin/nvcc")
            continue
        reported = _reported(settings, nvcc)
        if promised is not None and (reported is None or reported[0] != promised):
            # The rest of such a folder is of another version than its compiler, and so would be what is made with both.
            if version in {promised, reported[0] if reported else None}:
                said = f"reports CUDA {reported[0]}" if reported else "does not say which CUDA it is of"
                problems.append(f"{nvcc} {said}, not {promised} as the name of its folder")
        elif reported is not None and reported[0] == version:
            return Cuda(
                version=version,
                nvcc=reported[1],
                root=root,
                below=toolkit.below,
                cuobjdump=None if (root / "bin" / "cuobjdump").is_file() else locked.get("cuobjdump"),
                has_libraries=(root / "include" / "cublas_v2.h").is_file(),
            )
    problem, remedy = "; ".join(problems), f"install CUDA {version} and set CUDA_HOME to it"
    wheels = locked.get(f"cuda-{version}")
    if wheels is not None and (nvcc_version := wheels.version("nvidia-cuda-nvcc")):
        return Cuda(
            version=version,
            nvcc=nvcc_version,
            root=wheels.folder(settings.cache),
            locked=wheels,
            below=toolkit.below,
            cuobjdump=locked.get("cuobjdump"),
            note=f"{problem}; {remedy}, or go on with the one of the Python index, as now" if problem else "",
        )
    missing = f"no CUDA {version} toolkit on this machine, and none can be had from the Python index"
    return f"{problem or missing}; {remedy}"


def _roots(version: Version, settings: Settings, installed: Path) -> Iterator[tuple[Path, Version | None]]:
    """Where a toolkit of a version may be, each with the version that the place promises."""
    if settings.cuda_home:
        named = _NAME.fullmatch(settings.cuda_home.resolve().name)
        yield settings.cuda_home, Version.parse(named[1]) if named else None
    usual = installed / f"cuda-{version}"
    if (usual / "bin" / "nvcc").is_file():
        yield usual, version


def _reported(settings: Settings, nvcc: Path) -> tuple[Version, str] | None:
    return remembered(settings, "nvcc", nvcc, tuple[Version, str], lambda: release(settings, nvcc))
