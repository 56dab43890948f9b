"""toolchains/deps.toml: the libraries of headers that a component may depend on, and where each is to be had."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from buildlib.data import read
from buildlib.environment import Settings
from buildlib.lock import Locked, Tag

# Where CUTLASS's headers are in a checkout, and in its wheels where the checkout is.
_INCLUDES = ("include", "tools/util/include")
_IN_WHEEL = "cutlass_library/source"
_NUMBER = re.compile(r"^#define CUTLASS_(MAJOR|MINOR|PATCH) (\d+)$", re.MULTILINE)
# Releases of CUTLASS 2 have no header that says their version.
_PROJECT = re.compile(r"^project\(CUTLASS VERSION ([\d.]+)", re.MULTILINE)


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """Headers of a library of one version; `locked` is what they are provisioned from, None where they are there."""

    name: str
    version: str
    includes: tuple[str, ...]
    locked: Locked | None = None


class _Git(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    tag: str
    commit: str
    size: int


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: str = ""
    toolchain: str | None = None
    git: _Git | None = None
    why: str | None = None


def find(settings: Settings, data: Path, locked: Mapping[str, Locked]) -> dict[str, Dependency | str]:
    """What can be had of each known dependency, or the reason why nothing can.

    Raises:
        ToolchainError: deps.toml cannot be used.
    """
    named = _version(settings.cutlass) if settings.cutlass else None
    return {
        name: entry.why or _cutlass(entry, settings, named, locked)
        for name, entry in read(data, dict[str, _Entry]).items()
    }


def _cutlass(entry: _Entry, settings: Settings, named: str | None, locked: Mapping[str, Locked]) -> Dependency | str:
    if settings.cutlass and named == entry.version:
        return _dependency(entry, settings.cutlass)
    instead = f"set CUTLASS_DIR to a checkout of its tag v{entry.version}"
    if wheels := locked.get(entry.toolchain or ""):
        wheels = msgspec.structs.replace(wheels, instead=instead)
        return _dependency(entry, wheels.folder(settings.cache) / _IN_WHEEL, wheels)
    if git := entry.git:
        tag = Tag(url=git.url, tag=git.tag, commit=git.commit, size=git.size, folders=_INCLUDES)
        name = ".".join(entry.version.split(".")[:2])
        tagged = Locked(id=f"cutlass-{name}", git=tag, instead=instead)
        return _dependency(entry, tagged.folder(settings.cache), tagged)
    found = f"; {settings.cutlass} is {f'CUTLASS {named}' if named else 'no CUTLASS'}" if settings.cutlass else ""
    return f"CUTLASS {entry.version} cannot be fetched on this machine{found}; {instead}"


def _dependency(entry: _Entry, root: Path, locked: Locked | None = None) -> Dependency:
    includes = tuple(str(root / folder) for folder in _INCLUDES)
    return Dependency(name="cutlass", version=entry.version, includes=includes, locked=locked)


def _version(root: Path) -> str | None:
    """The version of a checkout of CUTLASS, from its own files: a tag may have been moved, or files edited."""
    numbers = dict(_NUMBER.findall(_text(root / "include/cutlass/version.h")))
    if numbers:
        return ".".join(numbers.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH"))
    project = _PROJECT.search(_text(root / "CMakeLists.txt"))
    return project[1] if project else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
