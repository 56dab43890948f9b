"""Numbers in the precision that a program asks for.

Tiles of f16 and bf16 compute in float32 and round once: a float32 has at least 2·p + 2 bits of either's p, so the
second rounding of a sum, product, quotient or root changes nothing. Everything else is computed in its own type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tile_ir.types import Array, Element

# The smallest normal float32; flush_to_zero, which exists for f32 alone, flushes what is smaller.
_SMALLEST = np.float32(2.0**-126)
# Of bf16: 8 bits of precision, which float32 has in its upper half.
_BF16_TIE = np.uint32(0x7FFF)


def round_to(element: Element, values: Array, mode: str = "nearest_even") -> Array:
    """float16, float32 or float64 values rounded once to an element type, as it is held."""
    rounded = _nearest(element, values)
    if mode == "nearest_even":
        return rounded
    wide = values.astype(np.float64)
    error = rounded.astype(np.float64) - wide
    towards = {"negative_inf": error > 0, "positive_inf": error < 0, "zero": np.abs(rounded) > np.abs(wide)}[mode]
    limit = {"negative_inf": -np.inf, "positive_inf": np.inf, "zero": 0.0}[mode]
    moved: Array = np.where(towards, _next(element, rounded, limit), rounded).astype(element.held)
    return moved


def _nearest(element: Element, values: Array) -> Array:
    if element.name != "bf16":
        with np.errstate(over="ignore"):
            return values.astype(element.held)
    if values.dtype == np.float64:
        # float32 on the way would round twice: make its lowest bit say that there was a rest.
        values = round_to_odd(values)
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + _BF16_TIE + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32)).astype(np.float32)


def round_to_odd(values: Array) -> Array:
    """float64 → float32 by truncation, with the lowest bit set where something was cut off."""
    narrow = values.astype(np.float32)
    beyond = np.abs(narrow.astype(np.float64)) > np.abs(values)
    cut = np.where(beyond, np.nextafter(narrow, np.float32(0)), narrow)
    inexact = (cut.astype(np.float64) != values) & np.isfinite(values)
    odd: Array = (cut.view(np.uint32) | inexact.astype(np.uint32)).view(np.float32)
    return odd


def _next(element: Element, values: Array, limit: float) -> Array:
    """The neighbours of values, towards a limit, in an element's precision."""
    if element.name != "bf16":
        return np.asarray(np.nextafter(values, element.held.type(limit)))
    outwards = ((values > 0) == (limit > 0)) & (limit != 0)
    step = np.where(outwards, np.int64(1 << 16), np.int64(-(1 << 16)))
    moved = (values.view(np.uint32).astype(np.int64) + step).astype(np.uint32).view(np.float32)
    tiny = np.float32(np.copysign(2.0**-133, limit))  # the smallest bf16 above, or below, zero
    return np.where(values == 0, tiny, moved)


def flush(values: Array) -> Array:
    """Denormal float32 values become zeros of their sign."""
    return np.where(np.abs(values) < _SMALLEST, np.copysign(np.float32(0), values), values)


def from_bits(element: Element, bits: Array) -> Array:
    """Unsigned integers, whose low bits are those of elements, → elements as they are held."""
    if element.bits == 1:
        return (bits & 1).astype(np.bool_)
    stored = bits.astype(np.dtype(f"u{element.bits // 8}")).view(element.stored)
    return loaded(element, stored)


def to_bits(element: Element, values: Array) -> Array:
    """Elements as they are held → their bits, as unsigned integers of their size."""
    stored = storable(element, values)
    return stored if element.bits == 1 else stored.view(np.dtype(f"u{element.bits // 8}"))


def loaded(element: Element, stored: Array) -> Array:
    """Elements as memory has them → as tiles hold them."""
    if element.name == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(element.held)


def storable(element: Element, values: Array) -> Array:
    """Elements as tiles hold them → as memory has them."""
    if element.name == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(element.stored)


def unsigned(values: Array) -> Array:
    """The same bits as unsigned numbers."""
    if values.dtype == np.bool_:
        return values.astype(np.uint8)
    return values.view(np.dtype(f"u{values.dtype.itemsize}"))


def signed(values: Array) -> Array:
    """The same bits as signed numbers; the one bit of an i1 is its sign."""
    return -values.astype(np.int8) if values.dtype == np.bool_ else values


def unspecified(element: Element) -> Any:
    """A value that shows in results, for where Tile IR says that any value may be."""
    if element.is_float:
        return element.held.type(np.nan)
    return True if element.bits == 1 else np.iinfo(element.held).min + 0x55
