"""Cargo.lock: which of its packages decide about one kernel, and what a change of it would mean."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

import msgspec

from buildlib.errors import ConfigError
from buildlib.rust.manifest import parse


class Package(msgspec.Struct, frozen=True, order=True):
    """A package as Cargo.lock pins it; `source` is empty for one of the workspace's own."""

    name: str
    version: str
    source: str = ""
    checksum: str = ""
    dependencies: tuple[str, ...] = ()

    @property
    def pin(self) -> str:
        return f"{self.name} {self.version}"


class Lock:
    """The packages of a Cargo.lock."""

    def __init__(self, packages: Iterable[Package]) -> None:
        self.packages = tuple(packages)
        self._by_name: dict[str, list[Package]] = {}
        for package in self.packages:
            self._by_name.setdefault(package.name, []).append(package)

    @classmethod
    def parse(cls, content: bytes, shown: str) -> Lock:
        """Read the content of a Cargo.lock.

        Raises:
            ConfigError: it is not one.
        """
        document = parse(content, shown)
        try:
            return cls(msgspec.convert(document.get("package", []), list[Package]))
        except msgspec.ValidationError as error:
            raise ConfigError(f"{shown}: {error}; restore it from version control") from None

    def reach(self, names: Iterable[str]) -> set[Package]:
        """The packages of these names, of each version, and all that they depend on."""
        waiting = [package for name in names for package in self._by_name.get(name, ())]
        reached = set[Package]()
        while waiting:
            package = waiting.pop()
            if package not in reached:
                reached.add(package)
                waiting += (found for text in package.dependencies for found in self._named(text))
        return reached

    def digest(self, names: Iterable[str]) -> str:
        """A digest of what is pinned of all that packages of these names are built with."""
        pinned = sorted((p.name, p.version, p.source, p.checksum) for p in self.reach(names) if p.source)
        return hashlib.sha256(json.dumps(pinned).encode()).hexdigest()

    def missing_from(self, other: Lock) -> set[Package]:
        """The packages from elsewhere that another lock does not pin as this one does."""
        theirs = {(p.name, p.version, p.source) for p in other.packages}
        return {p for p in self.packages if p.source and (p.name, p.version, p.source) not in theirs}

    def _named(self, text: str) -> list[Package]:
        """The packages that an entry under `dependencies` means: `name`, `name version` or `name version (source)`."""
        name, _, version = text.partition(" ")
        version = version.partition(" ")[0]
        return [p for p in self._by_name.get(name, ()) if not version or p.version == version]


def changes(before: Lock, after: Lock) -> list[str]:
    """What an update did, a line for each package from elsewhere: `half 2.7.1 -> 2.8.0`, `added …`, `removed …`."""
    old, new = _versions(before), _versions(after)
    lines = []
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name, set[str]()), new.get(name, set[str]())
        gone, come = ", ".join(sorted(was - now)), ", ".join(sorted(now - was))
        if gone and come:
            lines.append(f"{name} {gone} -> {come}")
        elif gone or come:
            lines.append(f"{'added' if come else 'removed'} {name} {gone or come}")
    return lines


def _versions(lock: Lock) -> Mapping[str, set[str]]:
    versions: dict[str, set[str]] = {}
    for package in lock.packages:
        if package.source:
            versions.setdefault(package.name, set()).add(package.version)
    return versions
