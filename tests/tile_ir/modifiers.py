"""Rounding modes, flags and attribute dictionaries, which change what an operation computes."""

from __future__ import annotations

from typing import Any

from tests.tile_ir.errors import ProgramError
from tests.tile_ir.lexer import Cursor
from tests.tile_ir.reader import read_dictionary

COMPARISONS = (
    "equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal",
)  # fmt: skip
# In the order of their numbers, which attribute dictionaries show (`rounding_mode_name` in cutile-ir).
ROUNDINGS = (
    "nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero",
)  # fmt: skip
_DIRECTED = ("nearest_even", "zero", "negative_inf", "positive_inf")
# What each operation may have; the first is what it has where nothing is said.
_ROUNDINGS = {
    **dict.fromkeys(("addf", "subf", "mulf", "fma", "ftof", "itof"), _DIRECTED),
    "divf": ("nearest_even", "approx", "full"),
    "sqrt": ("nearest_even", "approx"),
    "exp": ("nearest_even", "approx", "full"),
    "tanh": ("nearest_even", "approx", "full"),
    "divi": ("zero", "negative_inf", "positive_inf"),
    "ftoi": ("nearest_int_to_zero",),
}
# By the names of tileirdisasm; cutile-ir prints the short ones.
_OVERFLOWS = {"no_signed_wrap": "nsw", "no_unsigned_wrap": "nuw", "no_wrap": "nw"}
# Hints change no result; maxf and minf do not round, though cutile-compiler gives them a mode (the bytecode has none).
_MEANINGLESS = {"optimization_hints": None, "rounding_mode": ("maxf", "minf")}


def read_modifiers(cursor: Cursor, name: str, allowed: frozenset[str]) -> dict[str, Any]:
    """Modifiers by the words of signatures.py, in any order, with their defaults where the text is silent."""
    found: dict[str, Any] = {}
    while not cursor.sees(":"):
        line = cursor.line
        more = _dictionary(cursor, name) if cursor.sees("{") else _word(cursor)
        unknown = more.keys() - allowed
        if unknown:
            raise ProgramError(line, f"{name} has no {unknown.pop()}")
        found |= more
    _defaults(cursor, name, allowed, found)
    return found


def _word(cursor: Cursor) -> dict[str, Any]:
    word = cursor.take("word")
    if word in {"signed", "unsigned"}:
        return {"signedness": word}
    if word in {"flush_to_zero", "propagate_nan"}:
        return {word: True}
    if word in {"overflow", "rounding"}:
        closing = cursor.accept("<")
        value = cursor.take("word")
        if closing:
            cursor.expect(">")
        return {word: _OVERFLOWS.get(value, value)}
    raise ProgramError(cursor.line, f"unknown modifier {word!r}")


def _dictionary(cursor: Cursor, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    line = cursor.line
    for key, value in read_dictionary(cursor).items():
        of = _MEANINGLESS.get(key, ())
        if of is None or name in of:
            continue
        if key in {"rounding", "rounding_mode"} and isinstance(value, int) and 0 <= value < len(ROUNDINGS):
            found["rounding"] = ROUNDINGS[value]
        elif key in {"flush_to_zero", "propagate_nan"} and value == "true":
            found[key] = True
        elif key == "overflow" and value == 0:
            continue
        else:
            raise ProgramError(line, f"{name}: unknown attribute {key} = {value}")
    return found


def _defaults(cursor: Cursor, name: str, allowed: frozenset[str], found: dict[str, Any]) -> None:
    """Fill in what is not said, and refuse a value that the operation cannot have."""
    if "rounding" in allowed:
        modes = _ROUNDINGS[name]
        if found.setdefault("rounding", modes[0]) not in modes:
            raise ProgramError(cursor.line, f"{name} does not round {found['rounding']!r}; known are {modes}")
    if "signedness" in allowed and "signedness" not in found:
        raise ProgramError(cursor.line, f"{name} says neither signed nor unsigned")
    if "overflow" in allowed and found.setdefault("overflow", None) not in (None, *_OVERFLOWS.values()):
        raise ProgramError(cursor.line, f"unknown overflow {found['overflow']!r}")
    for flag in ("flush_to_zero", "propagate_nan"):
        if flag in allowed:
            found.setdefault(flag, False)
