"""Constants: what a literal of the text means as an element of its type."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tile_ir.numbers import from_bits, round_to
from tests.tile_ir.program import Operation
from tests.tile_ir.types import Array, Element, Tile


def scalar(operation: Operation, element: Element, literal: Any) -> Array:
    """One number: decimal, `inf`, `true`, or the bits in hexadecimal, as tileirdisasm prints some floats."""
    if literal in ("true", "false") and element.bits == 1:
        literal = int(literal == "true")
    if isinstance(literal, str) and literal.startswith("0x"):
        return from_bits(element, np.asarray(int(literal, 16)))
    if isinstance(literal, bool) or not isinstance(literal, int | float):
        raise operation.fail(f"no {element}: {literal!r}")
    if element.is_float:
        held = round_to(element, np.asarray(float(literal)))
        if np.isfinite(literal) and not np.isfinite(held):
            raise operation.fail(f"{literal} is too large for {element}")
        return held
    # The bits of unsigned numbers may be printed without a sign.
    low, high = (0, 1) if element.bits == 1 else (-(1 << (element.bits - 1)), (1 << element.bits) - 1)
    if not isinstance(literal, int) or not low <= literal <= high:
        raise operation.fail(f"no {element}: {literal}")
    return from_bits(element, np.asarray(literal % (1 << element.bits), dtype=np.uint64))


def dense(operation: Operation, tile: Tile, literals: tuple[Any, ...]) -> Array:
    """A tile of constants: one number for all, or nested lists; one number for a list also fills that list."""
    if not isinstance(tile.element, Element):
        raise operation.fail(f"no constants of {tile}")
    value = np.empty(tile.shape, dtype=tile.element.held)
    _fill(operation, tile.element, value, literals[0] if len(literals) == 1 else list(literals))
    value.setflags(write=False)
    return value


def _fill(operation: Operation, element: Element, value: Array, literal: Any) -> None:
    if not isinstance(literal, list):
        value[...] = scalar(operation, element, literal)
        return
    if value.ndim == 0 or len(literal) != value.shape[0]:
        raise operation.fail(f"a list of {len(literal)} for the shape {value.shape}")
    for index, part in enumerate(literal):
        _fill(operation, element, value[index, ...], part)
