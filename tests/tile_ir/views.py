"""Views of memory, and the accesses through them and through pointers.

Source: the documentation of cutile (`core`, sections types and views; `partition`, `load_view_raw`). A tile at the edge
of a tensor is loaded with the view's padding outside, or any value where the view has none; what a store has outside
is dropped. A load wholly outside is all padding, if there is padding. A load without, or a store, wholly outside is
undefined (`PartitionMut::store_unchecked`), so it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.tile_ir.errors import ExecutionError
from tests.tile_ir.memory import Memory, Token
from tests.tile_ir.numbers import unspecified
from tests.tile_ir.program import Operation
from tests.tile_ir.types import PADDINGS, Array, Element, PartitionView, Pointer


@dataclass(frozen=True)
class Tensor:
    """A tensor view: an address, and extents and strides in elements."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Partition:
    """A partition view of a tensor view."""

    kind: PartitionView
    tensor: Tensor

    def count(self, axis: int) -> int:
        """How many tiles there are along an axis of the tiles."""
        return -(-self.tensor.shape[self.kind.dim_map[axis]] // self.kind.tile[axis])


def make_tensor(operation: Operation, arguments: list[Array]) -> Tensor:
    """The view that `make_tensor_view` makes; what is not known in the text stands in the arguments, in order."""
    dynamic = iter(arguments[1:])

    def known(written: list[int | str]) -> tuple[int, ...]:
        return tuple(part if isinstance(part, int) else int(next(dynamic)) for part in written)

    shape, strides = known(operation.attributes["shape"]), known(operation.attributes["strides"])
    if min(shape, default=0) < 0 or min(strides, default=0) < 0:
        raise ExecutionError(f"a tensor of shape {shape} with strides {strides}")
    return Tensor(int(arguments[0]), shape, strides)


@dataclass(frozen=True)
class _Window:
    """The part of a tile that is inside its tensor: its slices, and the addresses of its elements."""

    inside: tuple[slice, ...]
    addresses: Array


def _window(view: Partition, index: list[int]) -> _Window:
    kind, size = view.kind, view.kind.tensor.element.stored.itemsize
    addresses = np.asarray(view.tensor.base, dtype=np.int64)
    inside = []
    for axis, (extent, at) in enumerate(zip(kind.tile, index, strict=True)):
        dim = kind.dim_map[axis]
        first = at * extent
        low = min(max(-first, 0), extent)
        high = max(min(view.tensor.shape[dim] - first, extent), low)
        inside.append(slice(low, high))
        places = (first + np.arange(low, high, dtype=np.int64)) * (view.tensor.strides[dim] * size)
        addresses = addresses[..., np.newaxis] + places
    return _Window(tuple(inside), addresses)


def load_view(memory: Memory, view: Partition, index: list[int], after: Token) -> Array:
    """The tile at an index, counted in tiles."""
    window, element, padding = _window(view, index), view.kind.tensor.element, view.kind.padding
    if padding is None and not window.addresses.size:
        raise ExecutionError(f"loads tile {index}, all of which is outside of {view.tensor}, without padding")
    inside = memory.load(element, window.addresses, after)
    if inside.shape == view.kind.tile:
        return inside
    tile = np.full(view.kind.tile, unspecified(element), dtype=element.held)
    if padding is not None:
        if not element.is_float and padding != "zero":
            raise ExecutionError(f"pads {element} with {padding}")
        tile[...] = PADDINGS[padding]
    tile[window.inside] = inside
    return tile


def store_view(memory: Memory, view: Partition, index: list[int], tile: Array, after: Token) -> Token:
    """Write the tile at an index, counted in tiles, as far as it is inside."""
    window = _window(view, index)
    if not window.addresses.size:
        raise ExecutionError(f"stores tile {index}, all of which is outside of {view.tensor}")
    return memory.store(view.kind.tensor.element, window.addresses, tile[window.inside], after)


def load_pointers(memory: Memory, operation: Operation, arguments: list[Array], after: Token) -> Array:
    """The elements that a tile of pointers points to; where a mask says no, the padding, or any value."""
    element = _pointee(operation)
    mask, padding = operation.attributes["mask"], operation.attributes["padding"]
    if mask is None:
        return memory.load(element, arguments[0], after)
    tile = np.full(arguments[0].shape, unspecified(element), dtype=element.held)
    if padding is not None:
        tile[...] = arguments[padding]
    tile[arguments[mask]] = memory.load(element, arguments[0][arguments[mask]], after)
    return tile


def store_pointers(memory: Memory, operation: Operation, arguments: list[Array], after: Token) -> Token:
    """Write elements to where a tile of pointers points, unless a mask says no."""
    mask = operation.attributes["mask"]
    chosen = ... if mask is None else arguments[mask]
    pointers, values = (np.atleast_1d(argument[chosen]) for argument in arguments[:2])
    return memory.store(_pointee(operation), pointers, values, after)


def _pointee(operation: Operation) -> Element:
    pointers = operation.tile(0).element
    assert isinstance(pointers, Pointer)
    return pointers.pointee
