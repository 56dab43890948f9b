"""What the user's words on the command line name. Pure."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Collection, Iterable

from buildlib.errors import SelectionError

_WILDCARDS = frozenset("*?[")
# The stages whose tasks are `<stage>:<kernel>:<variant>`.
_OF_ROWS = frozenset({"build", "check", "test"})


def select(patterns: Iterable[str], names: Collection[str]) -> list[str]:
    """The names that the patterns select, in the order of the patterns and then of the names, each once.

    Raises:
        SelectionError: a pattern selects nothing; the message has the names that are closest to it.
    """
    selected: dict[str, None] = {}
    for pattern in patterns:
        found = [pattern] if pattern in names else [name for name in names if _matches(pattern, name)]
        if not found:
            raise SelectionError(_nothing(pattern, names))
        selected |= dict.fromkeys(found)
    return list(selected)


def narrow(selected: Iterable[str], rows: Collection[tuple[str, str]], names: Collection[str]) -> list[str]:
    """Of the selected tasks, those of the rows alone; a row is its kernel and its own name.

    Tasks that are no kernel's stay as they are, if they are named; `test` alone does not stand for the builder's own.
    """
    narrowed: dict[str, None] = {}
    for name in selected:
        stage, _, rest = name.partition(":")
        if stage not in _OF_ROWS or (rest and not any(rest in row for row in rows) and f"build:{rest}" not in names):
            narrowed[name] = None
            continue
        for kernel, row in rows:
            if rest in {"", kernel, row}:
                # What cannot be planned has one task, which says why, whatever was to be done with it.
                narrowed[f"{stage}:{row}" if f"{stage}:{row}" in names else f"build:{row}"] = None
    return [name for name in narrowed if name in names]


def _matches(pattern: str, name: str) -> bool:
    return not _WILDCARDS.isdisjoint(pattern) and fnmatch.fnmatchcase(name, pattern)


def _nothing(pattern: str, names: Collection[str]) -> str:
    bare = pattern.strip("*")
    # `doit relu` is meant as `doit build:relu`, and a short word is close to no long name.
    ending = [name for name in names if name.endswith(f":{bare}")]
    close = ending or difflib.get_close_matches(bare, names, n=3, cutoff=0.6)
    close = close or [name for name in names if bare and bare in name]
    advice = f"did you mean {', '.join(close[:3])}?" if close else "'doit list --all' shows all names"
    return f"{pattern}: selects nothing; {advice}"
