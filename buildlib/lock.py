"""What is fetched, to the byte: packages of the Python index (toolchains/lock.toml), and tags of git repositories."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from buildlib.data import read
from buildlib.variant import Platform

# Part of the name of every provisioned folder; raised when what provision.py makes of the packages changes.
_LAYOUT = 1


class Wheel(msgspec.Struct, frozen=True, kw_only=True):
    """One package for one platform; `size` in bytes, `python` the `X.Y` that it is for, where it is for one.

    `index` names the extra index that has it, None where the main one does.
    """

    name: str
    version: str
    sha256: str
    size: int
    python: str | None = None
    index: str | None = None


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """Some folders of a git repository at a tag, which must be this commit; about `size` bytes are fetched."""

    url: str
    tag: str
    commit: str
    size: int
    folders: tuple[str, ...]


class Locked(msgspec.Struct, frozen=True, kw_only=True):
    """All that one toolchain, `id`, is made of on one platform: packages, or a tag.

    `instead` is what a user can do where it cannot be fetched.
    """

    id: str
    wheels: tuple[Wheel, ...] = ()
    git: Tag | None = None
    instead: str = ""

    @property
    def size(self) -> int:
        """The bytes to fetch."""
        return self.git.size if self.git else sum(wheel.size for wheel in self.wheels)

    @property
    def room(self) -> int:
        """The bytes that it takes for a moment, fetched and unpacked.

        Compilers and torch take up to four times what is fetched, and headers alone ten times, but of little.
        """
        return self.size * 4 + 30_000_000

    @property
    def contents(self) -> str:
        """What it is, for people."""
        if self.git:
            return f"{self.git.url} {self.git.tag}"
        return ", ".join(f"{wheel.name} {wheel.version}" for wheel in self.wheels)

    @property
    def indexes(self) -> tuple[str, ...]:
        """The names of the extra indexes that it comes from."""
        return tuple(sorted({wheel.index for wheel in self.wheels if wheel.index}))

    def version(self, package: str) -> str | None:
        """The version of one of the packages."""
        return next((wheel.version for wheel in self.wheels if wheel.name == package), None)

    def folder(self, cache: Path) -> Path:
        """Where the toolchain is, or will be: another folder for each content."""
        git = [(self.git.commit, self.git.folders)] if self.git else []
        content = repr((_LAYOUT, [(wheel.name, wheel.sha256) for wheel in self.wheels], *git))
        return cache / "toolchains" / f"{self.id}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


class File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sha256: str
    size: int


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One package of lock.toml, with its file for each platform that has one."""

    toolchain: str
    name: str
    version: str
    python: str | None = None
    index: str | None = None
    x86_64_linux: File | None = msgspec.field(name="x86_64-linux", default=None)
    aarch64_linux: File | None = msgspec.field(name="aarch64-linux", default=None)

    def file(self, platform: Platform | None) -> File | None:
        """The file for a platform, None where there is none."""
        by_platform = {Platform.X86_64_LINUX: self.x86_64_linux, Platform.AARCH64_LINUX: self.aarch64_linux}
        return by_platform.get(platform) if platform else None


class _Lock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    wheel: tuple[Entry, ...] = ()


def entries(path: Path) -> tuple[Entry, ...]:
    """All that lock.toml says.

    Raises:
        ToolchainError: the file is missing, or is not what it should be.
    """
    return read(path, _Lock).wheel


def load(path: Path, platform: Platform | None) -> dict[str, Locked]:
    """The toolchains that can be provisioned on a platform, by id; one that lacks a package there is not among them.

    Raises:
        ToolchainError: the file is missing, or is not what it should be.
    """
    found = [(entry, entry.file(platform)) for entry in entries(path)]
    lacking = {entry.toolchain for entry, file in found if file is None}
    wheels: dict[str, list[Wheel]] = {}
    for entry, file in found:
        if file is not None and entry.toolchain not in lacking:
            wheels.setdefault(entry.toolchain, []).append(
                Wheel(
                    name=entry.name,
                    version=entry.version,
                    sha256=file.sha256,
                    size=file.size,
                    python=entry.python,
                    index=entry.index,
                )
            )
    return {name: Locked(id=name, wheels=tuple(group)) for name, group in wheels.items()}
