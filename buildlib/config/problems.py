"""Problems of one build.toml, collected while it is read, and the one error that reports them all."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec

from buildlib.config.locate import KeyPath, Lines
from buildlib.errors import ConfigError

# The longest piece of a file that a message repeats, in characters.
_EXCERPT = 60

Names: TypeAlias = Iterable[str]


class Problem(msgspec.Struct, frozen=True):
    """One mistake: the place as keys, the place in words, what is wrong there and what to do."""

    path: KeyPath
    where: str
    what: str
    todo: str


class Reading(msgspec.Struct):
    """The state of reading one document: the edition that it is read as, and the problems met so far."""

    edition: int
    problems: list[Problem] = msgspec.field(default_factory=list)

    def at_key(self, path: KeyPath, what: str, todo: str) -> None:
        """Note a problem with the key or the list item at `path`."""
        self.problems.append(Problem(path, key_words(path), what, todo))

    def at_table(self, path: KeyPath, what: str, todo: str) -> None:
        """Note a problem with the table at `path`, such as a key that is missing there."""
        self.problems.append(Problem(path, table_words(path), what, todo))


def error(file: Path, text: str, problems: Iterable[Problem]) -> ConfigError:
    """One error with a line for each problem, in the order of the file."""
    lines = Lines(text)
    located = sorted(((lines.near(problem.path), problem) for problem in problems), key=lambda pair: pair[0])
    return ConfigError("\n".join(_line(file, number, problem) for number, problem in located))


def _line(file: Path, number: int, problem: Problem) -> str:
    where = f"{problem.where}: " if problem.where else ""
    return f"{file}:{number}: {where}{problem.what}; {problem.todo}"


def table_words(path: KeyPath) -> str:
    """A table as its header shows it, `[kernel.relu]`; a table in a list as the item that it is."""
    if any(isinstance(part, int) for part in path):
        return key_words(path)
    return f"[{'.'.join(_part(str(part)) for part in path)}]" if path else ""


def key_words(path: KeyPath) -> str:
    """A key with its table, `[general] key 'kernel-depends' item 2, key 'version'`; items are counted from 1."""
    split = next((i for i, part in enumerate(path) if isinstance(part, int)), len(path))
    table, key, rest = path[: split - 1], path[split - 1], path[split:]
    words = f"key {key!r}"
    for part in rest:
        words += f" item {part + 1}" if isinstance(part, int) else f", key {part!r}"
    return f"{table_words(table)} {words}" if table else words


def _part(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else repr(name)


def excerpt(value: str) -> str:
    """A string of the file in quotes, shortened, with nothing unprintable in it."""
    return repr(value if len(value) <= _EXCERPT else value[: _EXCERPT - 1] + "…")


def closest(name: str, known: Names) -> str | None:
    """The known name that was most likely meant."""
    names = list(known)
    folded = name.lower()
    return folded if folded in names else next(iter(difflib.get_close_matches(name, names, n=1)), None)


def did_you_mean(name: str, known: Names) -> str:
    """`did you mean 'backends'? `, or nothing where no known name is close."""
    close = closest(name, known)
    return f"did you mean {close!r}? " if close else ""


def listing(names: Names) -> str:
    """Names in a row, `a, b, c`."""
    return ", ".join(names)
