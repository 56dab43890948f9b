"""What a published artifact may ask of the machine that it is loaded on: toolchains/checks.toml and platforms.toml."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from buildlib import data
from buildlib.errors import ToolchainError
from buildlib.toolchain import Portability
from buildlib.variant import Backend, Platform


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    pass


class Needed(_Section, frozen=True, kw_only=True):
    """The shared libraries that an artifact may name, as shell patterns."""

    system: tuple[str, ...]
    framework: dict[str, tuple[str, ...]]
    backend: dict[Backend, tuple[str, ...]]


class Imports(_Section, frozen=True, kw_only=True):
    """The top-level Python modules that every user of the client, a framework or a backend has."""

    client: tuple[str, ...]
    framework: dict[str, tuple[str, ...]]
    backend: dict[Backend, tuple[str, ...]]


class Instructions(_Section, frozen=True, kw_only=True):
    """A set of instructions beyond a platform's baseline.

    Regular expressions: `found` for a disassembly, `option` and `source` for what asks for them.
    """

    platform: Platform
    name: str
    found: str
    option: str
    source: str


class _ChecksFile(_Section, frozen=True, kw_only=True):
    needed: Needed
    imports: Imports
    instructions: tuple[Instructions, ...]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The symbol versions, libraries and modules that are allowed, and the instructions that need asking for."""

    platforms: dict[Platform, Portability]
    needed: Needed
    imports: Imports
    instructions: tuple[Instructions, ...]


# The files that a policy is read from.
FILES = ("checks.toml", "platforms.toml")


def load(folder: Path) -> Policy:
    """Read the policy from the folder toolchains/.

    Raises:
        ToolchainError: a file cannot be read or does not say what it must.
    """
    path = folder / FILES[0]
    checks = data.read(path, _ChecksFile)
    try:
        for instructions in checks.instructions:
            for pattern in (instructions.found, instructions.option, instructions.source):
                re.compile(pattern)
    except re.error as error:
        raise ToolchainError(f"{path}: {error}; restore it from version control") from None
    platforms = data.read(folder / FILES[1], dict[Platform, Portability])
    return Policy(platforms=platforms, needed=checks.needed, imports=checks.imports, instructions=checks.instructions)
