"""Tokens of Tile IR text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from tests.tile_ir.errors import ProgramError

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<value>%[\w.$-]+(?:\#\d+)?)
  | (?P<symbol>@[\w.$-]+)
  | (?P<label>\^\w+)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|inf|nan)(?![\w?.]))
  | (?P<word>[A-Za-z_?\d][\w?.$]*)
  | (?P<mark>->|[(){}\[\]<>,:=\#-])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Lexeme:
    """A token of the text; `kind` is a group's name above."""

    kind: str
    text: str
    line: int


def split(text: str) -> list[Lexeme]:
    """The tokens of a program, without spaces and comments; the last is of kind `end`."""
    found: list[Lexeme] = []
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ProgramError(line, f"unexpected character {text[at]!r}")
        kind = str(match.lastgroup)
        if kind != "space":
            found.append(Lexeme(kind, match.group(), line))
        line += match.group().count("\n")
        at = match.end()
    return [*found, Lexeme("end", "the end of the text", line)]


class Cursor:
    """A place in the tokens of a program."""

    def __init__(self, text: str) -> None:
        self._lexemes = split(text)
        self._at = 0

    @property
    def here(self) -> Lexeme:
        """The token that is read next."""
        return self._lexemes[self._at]

    @property
    def line(self) -> int:
        """The line of the token that is read next."""
        return self.here.line

    def fail(self, expected: str) -> NoReturn:
        raise ProgramError(self.line, f"expected {expected}, found {self.here.text!r}")

    def sees(self, text: str) -> bool:
        """Whether the next token is this text, and no string."""
        return self.here.text == text and self.here.kind != "string"

    def accept(self, text: str) -> bool:
        """Skip the next token if it is this one."""
        found = self.sees(text)
        self._at += found
        return found

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(repr(text))

    def take(self, kind: str) -> str:
        """The text of the next token, which must be of this kind."""
        if self.here.kind != kind:
            self.fail(f"a {kind}")
        text = self.here.text
        self._at += 1
        return text

    def integer(self) -> int:
        text = self.take("number")
        try:
            return int(text, 0)
        except ValueError:
            raise ProgramError(self.line, f"expected a whole number, found {text!r}") from None
