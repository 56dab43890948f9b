"""The CUDA toolkits that this machine has or can have: toolchains/cuda.toml, the machine, and what is locked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from buildlib import environment, process
from buildlib.data import read
from buildlib.environment import Settings
from buildlib.lock import Locked
from buildlib.variant import Version

# Where NVIDIA's installers put a toolkit.
_INSTALLED = Path("/usr/local")
_RELEASE = re.compile(r"release (\d+\.\d+), V([\d.]+)")


class Cuda(msgspec.Struct, frozen=True, kw_only=True):
    """A CUDA toolkit: its compiler's full version, and its root, which holds bin/nvcc.

    `locked` is what it is provisioned from, None for one that the machine has. `below` are the first releases of gcc
    and of clang that its compiler refuses. `cuobjdump` is what the program of that name is provisioned from, None where
    the toolkit's own will do.
    """

    version: Version
    nvcc: str
    root: Path
    locked: Locked | None = None
    below: dict[str, str] = {}
    cuobjdump: Locked | None = None

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
    problem = f"no CUDA {version} toolkit on this machine, and none can be had from the Python index"
    for root, named_after in _roots(version, settings, installed):
        reported = _remembered(settings, root / "bin" / "nvcc")
        if reported is not None and reported[0] == version:
            whole = (root / "bin" / "cuobjdump").is_file()
            inspector = None if whole else locked.get("cuobjdump")
            return Cuda(version=version, nvcc=reported[1], root=root, below=toolkit.below, cuobjdump=inspector)
        if named_after:
            # A variant would be named after a CUDA that it was not made with.
            said = f"reports CUDA {reported[0]}" if reported else "does not say which CUDA it is of"
            problem = f"{root}/bin/nvcc {said}"
    wheels = locked.get(f"cuda-{version}")
    if wheels is not None and (nvcc := wheels.version("nvidia-cuda-nvcc")):
        return Cuda(
            version=version,
            nvcc=nvcc,
            root=wheels.folder(settings.cache),
            locked=wheels,
            below=toolkit.below,
            cuobjdump=locked.get("cuobjdump"),
        )
    return f"{problem}; install CUDA {version} and set CUDA_HOME to it"


def _roots(version: Version, settings: Settings, installed: Path) -> Iterator[tuple[Path, bool]]:
    """Where a toolkit of a version may be, each with whether the place promises the version."""
    if settings.cuda_home and (settings.cuda_home / "bin" / "nvcc").is_file():
        yield settings.cuda_home, False
    usual = installed / f"cuda-{version}"
    if (usual / "bin" / "nvcc").is_file():
        yield usual, True


def _remembered(settings: Settings, nvcc: Path) -> tuple[Version, str] | None:
    """`release`, asked once for each content of the file."""
    stat = nvcc.stat()
    key = hashlib.sha256(repr((str(nvcc.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ino)).encode())
    record = settings.cache / "probes" / f"nvcc-{key.hexdigest()[:16]}.json"
    try:
        return msgspec.json.decode(record.read_bytes(), type=tuple[Version, str])
    except (OSError, msgspec.DecodeError):
        pass  # Not asked yet.
    reported = release(settings, nvcc)
    if reported is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_bytes(msgspec.json.encode(reported))
    return reported
