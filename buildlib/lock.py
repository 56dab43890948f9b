"""toolchains/lock.toml: the packages of the Python index that toolchains are made of, to the byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from buildlib.data import read
from buildlib.variant import Platform

# Part of the name of every provisioned folder; raised when what provision.py makes of the packages changes.
_LAYOUT = 1


class Wheel(msgspec.Struct, frozen=True, kw_only=True):
    """One package for one platform; `size` in bytes, `python` the `X.Y` that it is for, where it is for one."""

    name: str
    version: str
    sha256: str
    size: int
    python: str | None = None


class Locked(msgspec.Struct, frozen=True, kw_only=True):
    """All packages of one toolchain, `id`, on one platform."""

    id: str
    wheels: tuple[Wheel, ...]

    @property
    def size(self) -> int:
        """The bytes to fetch."""
        return sum(wheel.size for wheel in self.wheels)

    def version(self, package: str) -> str | None:
        """The version of one of the packages."""
        return next((wheel.version for wheel in self.wheels if wheel.name == package), None)

    def folder(self, cache: Path) -> Path:
        """Where the toolchain is, or will be: another folder for each content."""
        content = repr((_LAYOUT, [(wheel.name, wheel.sha256) for wheel in self.wheels]))
        return cache / "toolchains" / f"{self.id}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sha256: str
    size: int


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    toolchain: str
    name: str
    version: str
    python: str | None = None
    x86_64_linux: _File | None = msgspec.field(name="x86_64-linux", default=None)
    aarch64_linux: _File | None = msgspec.field(name="aarch64-linux", default=None)


class _Lock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    wheel: tuple[_Entry, ...] = ()


def load(path: Path, platform: Platform | None) -> dict[str, Locked]:
    """The toolchains that can be provisioned on a platform, by id; one that lacks a package there is not among them.

    Raises:
        ToolchainError: the file is missing, or is not what it should be.
    """
    entries = read(path, _Lock).wheel
    files = {
        Platform.X86_64_LINUX: [entry.x86_64_linux for entry in entries],
        Platform.AARCH64_LINUX: [entry.aarch64_linux for entry in entries],
    }
    found = files.get(platform, []) if platform else []
    lacking = {entry.toolchain for entry, file in zip(entries, found, strict=False) if file is None}
    wheels: dict[str, list[Wheel]] = {}
    for entry, file in zip(entries, found, strict=False):
        if file is not None and entry.toolchain not in lacking:
            wheels.setdefault(entry.toolchain, []).append(
                Wheel(
                    name=entry.name,
                    version=entry.version,
                    sha256=file.sha256,
                    size=file.size,
                    python=entry.python,
                )
            )
    return {name: Locked(id=name, wheels=tuple(group)) for name, group in wheels.items()}
