"""A parsed program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.tile_ir.errors import ProgramError
from tests.tile_ir.types import Tile, Type


@dataclass(frozen=True)
class Region:
    """The body of an entry, a loop, a branch or a reduction."""

    arguments: tuple[tuple[str, Type], ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Operation:
    """One operation; values go by the names of the text."""

    name: str
    line: int
    operands: tuple[str, ...]
    operand_types: tuple[Type, ...]
    results: tuple[str, ...]
    result_types: tuple[Type, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()

    def fail(self, message: str) -> ProgramError:
        """An error about this operation, to raise."""
        return ProgramError(self.line, f"{self.name}: {message}")

    def tile(self, index: int) -> Tile:
        """The type of an operand that must be a tile."""
        found = self.operand_types[index]
        if not isinstance(found, Tile):
            raise self.fail(f"operand {index} is a {found}, and no tile")
        return found

    @property
    def result_tile(self) -> Tile:
        """The type of the first result, which must be a tile."""
        found = self.result_types[0]
        if not isinstance(found, Tile):
            raise self.fail(f"the result is a {found}, and no tile")
        return found


@dataclass(frozen=True)
class Entry:
    """A kernel: what is launched."""

    symbol: str
    body: Region


@dataclass(frozen=True)
class Program:
    """A module."""

    entries: dict[str, Entry]
