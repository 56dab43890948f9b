"""PTX, as compilers write it: which entries it has, and what each takes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_ENTRY = re.compile(r"^\s*(?:\.visible\s+)?\.entry\s+([\w$.]+)\s*(?:\(([^)]*)\))?", re.MULTILINE)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z])(\d+)(\s+\.ptr\b)?[^,\[]*(\[\d+\])?")
_EXTERN = re.compile(
    r"^\s*\.extern\s+(?:\.func\s*(?:\([^)]*\)\s*)?|\.global\b[^;\[]*?\s)([\w$.]+)\s*[(\[;]", re.MULTILINE
)
# What a driver or ptxas itself brings.
_BUILT_IN = frozenset({"vprintf", "malloc", "free", "__assertfail"})


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, and the kinds of its parameters in order: `pointer`, `f32`, `f64`, or `b8` to `b64`.

    PTX does not say of a whole number whether it has a sign. A kind is None where a parameter is no scalar.
    """

    symbol: str
    parameters: tuple[str | None, ...]


def entries(text: str) -> tuple[Entry, ...]:
    """The entries, in the order of their names."""
    found = (
        Entry(symbol=symbol, parameters=tuple(_kinds(parameters or ""))) for symbol, parameters in _ENTRY.findall(text)
    )
    return tuple(sorted(found, key=lambda entry: entry.symbol))


def undefined(text: str) -> tuple[str, ...]:
    """The functions and variables that it uses and that nothing defines."""
    return tuple(sorted(set(_EXTERN.findall(text)) - _BUILT_IN))


def _kinds(parameters: str) -> Iterator[str | None]:
    for letter, bits, pointer, length in _PARAMETER.findall(parameters):
        if length:
            yield None
        elif pointer:
            yield "pointer"
        else:
            yield f"{'f' if letter == 'f' else 'b'}{bits}"
