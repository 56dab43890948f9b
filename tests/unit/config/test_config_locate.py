"""Every key of a TOML text has its line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from buildlib.config.locate import KeyPath, Lines

TEXT = '''\
# [not.a.table]
top = "#"  # key = 1
[a]
"quoted key" = 1
'literal' = [ # one
  1, [2,
  3], # ]
  """
  "quotes" and \\" and [brackets]
  """, \'\'\'
  x = 1\'\'\', "]",
]
b.c."d\\u0065" = 1.5
b.f = { g = "}", h = [ { i = 1 },
  { i = 2 } ] }
when = 2026-01-02 03:04:05
[x.y]
[x]
z = -1e+5
[[list]]
n = 1
[[list]]
[list.inner]
n = 2
[[list.deep]]
n = 3
["last"]
'''

EXPECTED: dict[KeyPath, int] = {
    ("top",): 2,
    ("a",): 3,
    ("a", "quoted key"): 4,
    ("a", "literal"): 5,
    ("a", "literal", 0): 6,
    ("a", "literal", 1): 6,
    ("a", "literal", 1, 0): 6,
    ("a", "literal", 1, 1): 7,
    ("a", "literal", 2): 8,
    ("a", "literal", 3): 10,
    ("a", "literal", 4): 11,
    ("a", "b"): 13,
    ("a", "b", "c"): 13,
    ("a", "b", "c", "de"): 13,
    ("a", "b", "f"): 14,
    ("a", "b", "f", "g"): 14,
    ("a", "b", "f", "h"): 14,
    ("a", "b", "f", "h", 0): 14,
    ("a", "b", "f", "h", 0, "i"): 14,
    ("a", "b", "f", "h", 1): 15,
    ("a", "b", "f", "h", 1, "i"): 15,
    ("a", "when"): 16,
    ("x", "y"): 17,
    ("x",): 18,
    ("x", "z"): 19,
    ("list",): 20,
    ("list", 0): 20,
    ("list", 0, "n"): 21,
    ("list", 1): 22,
    ("list", 1, "inner"): 23,
    ("list", 1, "inner", "n"): 24,
    ("list", 1, "deep"): 25,
    ("list", 1, "deep", 0): 25,
    ("list", 1, "deep", 0, "n"): 26,
    ("last",): 27,
}


def _paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from _paths(child, (*path, key))


def test_every_path_has_its_line() -> None:
    document = tomllib.loads(TEXT)
    assert set(_paths(document)) == set(EXPECTED)
    lines = Lines(TEXT)
    assert {path: lines.exact(path) for path in EXPECTED} == EXPECTED


def test_line_of_what_is_not_there_is_that_of_the_table() -> None:
    lines = Lines(TEXT)
    assert lines.exact(("a", "none")) is None
    assert lines.near(("a", "none", 3)) == 3
    assert lines.near(("none", "none")) == 1


def test_line_ends() -> None:
    assert Lines("a = 1\r\nb = 2\r\n").exact(("b",)) == 2
    assert Lines("").near(("a",)) == 1


def test_corpus_has_a_line_for_every_path(corpus: list[Path]) -> None:
    for file in corpus:
        text = file.read_text(encoding="utf-8")
        lines, rows = Lines(text), text.split("\n")
        for path in _paths(tomllib.loads(text)):
            line = lines.exact(path)
            assert line is not None
            if isinstance(path[-1], str):
                assert path[-1] in rows[line - 1]
