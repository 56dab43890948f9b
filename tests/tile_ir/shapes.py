"""Operations that make tiles, move their elements about, or multiply them as matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.tile_ir.errors import ExecutionError
from tests.tile_ir.numbers import round_to
from tests.tile_ir.program import Operation
from tests.tile_ir.types import Array, Element, Pointer

Evaluate = Callable[[Operation, list[Array]], Array]


def _product(operation: Operation, arguments: list[Array]) -> Array:
    """`left times right plus accumulator`, summed in float32, or float64 for f64; the order of a sum is not defined."""
    left, right, accumulator = arguments
    element = operation.result_tile.element
    assert isinstance(element, Element)
    wide = np.float64 if element.bits == 64 else np.float32
    total = np.matmul(left.astype(wide), right.astype(wide)) + accumulator.astype(wide)
    return round_to(element, total)


def _offset(operation: Operation, arguments: list[Array]) -> Array:
    """Pointers moved by signed numbers of elements."""
    pointer = operation.tile(0).element
    assert isinstance(pointer, Pointer)
    return arguments[0] + arguments[1].astype(np.int64) * pointer.pointee.stored.itemsize


def _extract(operation: Operation, arguments: list[Array]) -> Array:
    """A part of a tile, which is cut into parts of the result's shape."""
    source, parts = arguments[0], []
    shape = operation.result_tile.shape
    for axis, (index, extent) in enumerate(zip(arguments[1:], shape, strict=True)):
        if not 0 <= index < source.shape[axis] // extent:
            raise ExecutionError(f"axis {axis} has no part {index}")
        parts.append(slice(int(index) * extent, (int(index) + 1) * extent))
    return source[tuple(parts)]


def _assume(operation: Operation, arguments: list[Array]) -> Array:
    """The value, if what the program assumes of it holds."""
    value, numbers = arguments[0], operation.attributes["numbers"]
    predicate = operation.attributes["predicate"]
    if predicate == "bounded":
        low, high = numbers
        holds = (low is None or bool((value >= low).all())) and (high is None or bool((value <= high).all()))
    elif predicate == "div_by":
        holds = bool((value % numbers[0] == 0).all())
    else:
        holds = _alike(value, numbers)
    if not holds:
        raise ExecutionError(f"assumes {predicate}{numbers} of {value.flat[0]} and others, which does not hold")
    return value


def _alike(value: Array, groups: tuple[int, ...]) -> bool:
    """Whether elements are equal within groups of this shape, which tile the axes from their starts."""
    firsts = value
    for axis, group in enumerate(groups):
        firsts = firsts.take(np.arange(value.shape[axis]) // group * group, axis=axis)
    return bool((firsts == value).all())


SHAPES: dict[str, Evaluate] = {
    "assume": _assume,
    "broadcast": lambda operation, arguments: np.broadcast_to(arguments[0], operation.result_tile.shape),
    "cat": lambda operation, arguments: np.concatenate(arguments, axis=operation.attributes["dim"]),
    "extract": _extract,
    "int_to_ptr": lambda _, arguments: arguments[0],
    "iota": lambda operation, _: np.arange(operation.result_tile.count, dtype=operation.result_tile.element.held),
    "mmaf": _product,
    "offset": _offset,
    "permute": lambda operation, arguments: arguments[0].transpose(operation.attributes["permutation"]),
    "ptr_to_int": lambda _, arguments: arguments[0],
    "ptr_to_ptr": lambda _, arguments: arguments[0],
    "reshape": lambda operation, arguments: arguments[0].reshape(operation.result_tile.shape),
}
