"""From a key path to its line in a TOML text.

Parsers of TOML drop the positions, and few files have mistakes, so the lines are looked up only when one is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

# Keys and, within lists, indices from 0: `("kernel", "relu", "src", 3)`.
KeyPath: TypeAlias = tuple[str | int, ...]

# A multi-line string may end in up to two quotes of its own, right before the three that close it.
_TOKEN = re.compile(
    r"""
      (?P<string> \"{3}(?:[^\\]|\\.)*?\"{3,5} | '{3}.*?'{3,5} | "(?:[^"\\\n]|\\.)*" | '[^'\n]*' )
    | (?P<newline> \n )
    | (?P<skip> \#[^\n]* | [ \t\r]+ )
    | (?P<mark> [][{}=,.] )
    | (?P<bare> [^][{}=,."'\#\s]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


class Lines:
    """The line, from 1, of every key and list item of a valid TOML text."""

    def __init__(self, text: str) -> None:
        self._lines: dict[KeyPath, int] = {(): 1}
        # How many tables each `[[list]]` has had so far.
        self._counts: dict[KeyPath, int] = {}
        self._tokens = list(_tokens(text))
        self._next = 0
        self._document()

    def exact(self, path: KeyPath) -> int | None:
        """The line of just this key, table or item, or None where the text has none."""
        return self._lines.get(path)

    def near(self, path: KeyPath) -> int:
        """The line of a key path, or of the nearest table around it that the text has."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _document(self) -> None:
        table: KeyPath = ()
        while (token := self._peek()).kind != "end":
            if token.kind == "newline":
                self._take()
            elif token.text == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> KeyPath:
        line = self._take().line
        in_list = self._peek().text == "["
        if in_list:
            self._take()
        path: KeyPath = ()
        for part in self._dotted_key():
            path = self._newest((*path, part))
        if in_list:
            path = path[:-1] if isinstance(path[-1], int) else path
            self._counts[path] = self._counts.get(path, 0) + 1
            self._lines.setdefault(path, line)
            path = (*path, self._counts[path] - 1)
            self._take()
        self._take()
        self._lines[path] = line
        self._note_parents(path, line)
        return path

    def _newest(self, path: KeyPath) -> KeyPath:
        """In a header, the name of a list of tables stands for its last table."""
        count = self._counts.get(path)
        return path if count is None else (*path, count - 1)

    def _note_parents(self, path: KeyPath, line: int) -> None:
        for length in range(1, len(path)):
            self._lines.setdefault(path[:length], line)

    def _pair(self, table: KeyPath) -> None:
        line = self._peek().line
        path = (*table, *self._dotted_key())
        self._take()
        self._lines[path] = line
        self._note_parents(path, line)
        self._value(path)

    def _dotted_key(self) -> list[str]:
        parts = [_name(self._take())]
        while self._peek().text == ".":
            self._take()
            parts.append(_name(self._take()))
        return parts

    def _value(self, path: KeyPath) -> None:
        token = self._peek()
        if token.text == "[":
            self._list(path)
        elif token.text == "{":
            self._inline_table(path)
        elif token.kind == "string":
            self._take()
        else:
            while self._peek().kind == "bare" or self._peek().text == ".":
                self._take()

    def _list(self, path: KeyPath) -> None:
        self._take()
        index = 0
        while (token := self._peek()).text != "]":
            if token.kind == "newline" or token.text == ",":
                self._take()
                continue
            self._lines[*path, index] = token.line
            self._value((*path, index))
            index += 1
        self._take()

    def _inline_table(self, path: KeyPath) -> None:
        self._take()
        while (token := self._peek()).text != "}":
            if token.kind == "newline" or token.text == ",":
                self._take()
            else:
                self._pair(path)
        self._take()


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind != "skip":
            yield _Token(kind, match[0], line)
        if kind in {"string", "newline"}:
            line += match[0].count("\n")
    yield _Token("end", "", line)


def _name(token: _Token) -> str:
    """What a token says as a part of a key."""
    if token.kind != "string":
        return token.text
    if token.text.startswith("'"):
        return token.text[1:-1]
    return _ESCAPE.sub(_unescaped, token.text[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if code[0] in "uU" and len(code) > 1 else _ESCAPES.get(code, code)
