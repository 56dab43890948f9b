"""toolchains/deps.toml: the libraries of headers that a component may depend on, and where each is to be had."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from buildlib.data import read
from buildlib.environment import Settings
from buildlib.lock import Locked

# Where CUTLASS's headers are in a checkout, and in its wheels where the checkout is.
_INCLUDES = ("include", "tools/util/include")
_IN_WHEEL = "cutlass_library/source"
_NUMBER = re.compile(r"^#define CUTLASS_(MAJOR|MINOR|PATCH) (\d+)$", re.MULTILINE)


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """Headers of a library of one version; `locked` is what they are provisioned from, None where they are there."""

    name: str
    version: str
    includes: tuple[str, ...]
    locked: Locked | None = None


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: str = ""
    toolchain: str | None = None
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
    if wheels := locked.get(entry.toolchain or ""):
        return _dependency(entry, wheels.folder(settings.cache) / _IN_WHEEL, wheels)
    found = f"; {settings.cutlass} is {f'CUTLASS {named}' if named else 'no CUTLASS'}" if settings.cutlass else ""
    return (
        f"CUTLASS {entry.version} is not in the Python index{found}; set CUTLASS_DIR to a checkout of its tag "
        f"v{entry.version}"
    )


def _dependency(entry: _Entry, root: Path, wheels: Locked | None = None) -> Dependency:
    includes = tuple(str(root / folder) for folder in _INCLUDES)
    return Dependency(name="cutlass", version=entry.version, includes=includes, locked=wheels)


def _version(root: Path) -> str | None:
    """The version of a checkout of CUTLASS, from its own header: a tag may have been moved, or files edited."""
    try:
        numbers = dict(_NUMBER.findall((root / "include/cutlass/version.h").read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return None
    return ".".join(numbers.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH"))
