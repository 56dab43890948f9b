"""The types that a value in build.toml can have: each reads a TOML value, or notes what is wrong with it.

What is accepted is what the `kernels` package's own parser accepts, but for the differences that the differential test
lists. `read` returns None exactly if it noted a problem.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Protocol, cast

import msgspec

from buildlib.config.locate import KeyPath
from buildlib.config.problems import Reading, did_you_mean, excerpt, listing
from buildlib.variant import Backend, Version

_MAX_VERSION_PART = 2**64 - 1
_MAX_INTEGER = 2**63 - 1

_GIT_SCHEMES = ("https", "http", "git", "ssh", "git+ssh", "git+https", "git+http")
_HOST = r"[-A-Za-z0-9_.]+"
GIT_URL = re.compile(
    rf"(?:(?i:{'|'.join(map(re.escape, _GIT_SCHEMES))})://(?:[^\s/?#@]+@)?{_HOST}(?P<port>:[0-9]*)?(?:[/?#]\S*)?"
    rf"|[^\s:/?#@]*@{_HOST}:[^\s/]\S*)"
)
VERSION = re.compile(r"\+?([0-9]+)\.\+?([0-9]+)")
KERNEL_NAME = re.compile(r"[a-z][-a-z0-9]*[a-z0-9]")


class Type(Protocol):
    """The type of a value."""

    @property
    def example(self) -> str:
        """A right value, as TOML."""

    def read(self, value: object, path: KeyPath, reading: Reading) -> object | None:
        """What a value means to the model, or None, and a problem noted, where it is not of the type."""


class Text(msgspec.Struct, frozen=True):
    """Any string."""

    example: str = '"text"'

    def read(self, value: object, path: KeyPath, reading: Reading) -> str | None:
        """The string itself."""
        if isinstance(value, str):
            return value
        mismatch(value, path, reading, "a string", self.example)
        return None


class SourcePath(msgspec.Struct, frozen=True):
    """A path, relative to the kernel's folder. Whether it exists is not looked at here."""

    example: str = '"csrc/relu.cpp"'

    def read(self, value: object, path: KeyPath, reading: Reading) -> str | None:
        """The path without `.` parts, doubled slashes and a slash at the end, so that each file has one spelling."""
        if not isinstance(value, str):
            mismatch(value, path, reading, "a path", self.example)
            return None
        return normal_path(value)


def normal_path(text: str) -> str:
    """The one spelling of a path: sources are laid out by it, so `a/../b` and `b` must be the same file."""
    return posixpath.normpath(text) if text else ""


class KernelName(msgspec.Struct, frozen=True):
    """The kernel's name, from which the Python package's name and the operators' namespace follow."""

    example: str = '"flash-attn"'

    def read(self, value: object, path: KeyPath, reading: Reading) -> str | None:
        """The name itself."""
        if not isinstance(value, str):
            mismatch(value, path, reading, "a name", self.example)
            return None
        if KERNEL_NAME.fullmatch(value):
            return value
        reading.at_key(
            path,
            f"{excerpt(value)} is not a kernel name",
            "use two or more of a-z, 0-9 and '-', a letter first and a letter or a digit last, as in 'flash-attn'",
        )
        return None


class GitUrl(msgspec.Struct, frozen=True):
    """Where a Git repository is."""

    example: str = '"https://example.org/project.git"'

    def read(self, value: object, path: KeyPath, reading: Reading) -> str | None:
        """The URL itself."""
        if not isinstance(value, str):
            mismatch(value, path, reading, "a Git URL", self.example)
            return None
        match = GIT_URL.fullmatch(value)
        if match and int((match["port"] or ":0")[1:] or 0) < 2**16:
            return value
        reading.at_key(
            path,
            f"{excerpt(value)} is not a Git URL",
            f"write <scheme>://<host>/<path> with one of {listing(_GIT_SCHEMES)}, or user@host:path",
        )
        return None


class Natural(msgspec.Struct, frozen=True):
    """An integer from 0."""

    example: str = "1"

    def read(self, value: object, path: KeyPath, reading: Reading) -> int | None:
        """The integer itself."""
        if not isinstance(value, int) or isinstance(value, bool):
            mismatch(value, path, reading, "an integer", self.example)
            return None
        if 0 <= value <= _MAX_INTEGER:
            return value
        reading.at_key(path, f"{value} is out of range", f"write an integer from 0 to {_MAX_INTEGER}")
        return None


class VersionText(msgspec.Struct, frozen=True):
    """A version with exactly two numbers, as a string: `"12.8"`."""

    example: str = '"12.8"'

    def read(self, value: object, path: KeyPath, reading: Reading) -> Version | None:
        """The version; spaces around it, leading zeros and a plus are ignored."""
        if not isinstance(value, str):
            example = f'"{value}"' if isinstance(value, float) else self.example
            mismatch(value, path, reading, "a version, as a string,", example)
            return None
        match = VERSION.fullmatch(value.strip())
        if match and max(numbers := (int(match[1]), int(match[2]))) <= _MAX_VERSION_PART:
            return Version(*numbers)
        reading.at_key(path, f"{excerpt(value)} is not a version", 'write two numbers with a dot, as in "12.8"')
        return None


class Choice(msgspec.Struct, frozen=True):
    """One of a few strings; `make` turns it into the model's type."""

    kind: str
    options: tuple[str, ...]
    make: Callable[[str], str] = str

    @property
    def example(self) -> str:
        """A right value, as TOML."""
        return f'"{self.options[0]}"'

    def read(self, value: object, path: KeyPath, reading: Reading) -> str | None:
        """The chosen string."""
        if not isinstance(value, str):
            mismatch(value, path, reading, f"a {self.kind}", self.example)
            return None
        if value in self.options:
            return self.make(value)
        reading.at_key(
            path,
            f"{excerpt(value)} is not a {self.kind}",
            f"{did_you_mean(value, self.options)}choose from {listing(self.options)}",
        )
        return None


BACKEND = Choice("backend", tuple(backend.value for backend in Backend), Backend)


class ListOf(msgspec.Struct, frozen=True):
    """A list of values of one type. With `once`, a repeated value counts once."""

    item: Type
    once: bool = True

    @property
    def example(self) -> str:
        """A right value, as TOML."""
        return f"[{self.item.example}]"

    def read(self, value: object, path: KeyPath, reading: Reading) -> tuple[object, ...] | None:
        """The items in their order, without those that are wrong."""
        if not isinstance(value, list):
            example = f'["{value}"]' if isinstance(value, str) else self.example
            mismatch(value, path, reading, "a list", example)
            return None
        read = (self.item.read(item, (*path, index), reading) for index, item in enumerate(value))
        items = [item for item in read if item is not None]
        return tuple(dict.fromkeys(items) if self.once else items)


class PerBackend(msgspec.Struct, frozen=True):
    """A version for all declared backends, or one for each backend named in a table."""

    example: str = '"2.10"'

    def read(self, value: object, path: KeyPath, reading: Reading) -> Version | dict[Backend, Version] | None:
        """The version, or the versions by backend."""
        version = VersionText()
        if not isinstance(value, dict):
            if isinstance(value, str):
                return version.read(value, path, reading)
            mismatch(value, path, reading, "a version, or a table of versions by backend,", self.example)
            return None
        versions: dict[Backend, Version] = {}
        for name, text in value.items():
            at = (*path, name)
            backend = BACKEND.read(name, at, reading)
            read = version.read(text, at, reading)
            if backend is not None and read is not None:
                versions[Backend(backend)] = read
        return versions


def mismatch(value: object, path: KeyPath, reading: Reading, expected: str, example: str) -> None:
    """Note that a value has the wrong type."""
    reading.at_key(path, f"{expected} is expected, not {described(value)}", f"write it as {example}")


_KINDS = {list: "a list", dict: "a table", bool: "the boolean", int: "the integer", float: "the number"}


def described(value: object) -> str:
    """A TOML value in words."""
    if isinstance(value, str):
        return f"the string {excerpt(value)}"
    kind = _KINDS.get(type(value), "a date or a time")
    return f"{kind} {str(value).lower()}" if isinstance(value, int | float) else kind


def as_table(value: object) -> dict[str, object] | None:
    """A TOML value as a table, if it is one."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else None
