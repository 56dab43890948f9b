"""What goes wrong with a program, and what goes wrong when one runs."""

from __future__ import annotations


class TileError(Exception):
    """A Tile IR program that cannot be read, or that does what Tile IR leaves undefined."""


class ProgramError(TileError):
    """The text is no Tile IR program, or uses what this interpreter does not know."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


class ExecutionError(TileError):
    """A running program failed: an assert, an access out of bounds, an assumption that does not hold."""


class TrapError(ExecutionError):
    """An `assert` of the program; on a GPU it would trap."""
