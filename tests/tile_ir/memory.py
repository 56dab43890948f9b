"""The memory that a program reads and writes: numpy arrays at addresses.

Everything runs in order here, but not on a GPU; so the memory also refuses what only this order makes right: a block
that reads or writes what another block of the same launch has written, or what it has written itself by a store that
no token puts before, and a store whose lanes meet.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from tests.tile_ir.errors import ExecutionError
from tests.tile_ir.numbers import loaded, storable
from tests.tile_ir.types import Array, Element

# As cudaMalloc aligns; a gap between allocations makes an overrun of one no access to the next.
_ALIGNMENT = 256
_GAP = 1 << 20


@dataclass(frozen=True)
class Token:
    """The stores, by number, that come before what this token is given to."""

    stores: frozenset[int] = frozenset()


@dataclass
class Buffer:
    """Bytes at an address, and for each byte the store of this launch, counted from 1, that wrote it last."""

    name: str
    start: int
    data: Array  # uint8, of rank 1
    stored: Array | None = None

    @property
    def end(self) -> int:
        return self.start + self.data.size

    def __str__(self) -> str:
        return f"{self.name} ({self.data.size} bytes at {self.start:#x})"


class Memory:
    """Buffers by address. An array that numpy may not write to is one that the program may not write to."""

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._next = 0x7F00_0000_0000
        self._stores = 0
        self._before = 0  # how many stores there were before this block

    def allocate(self, array: Array, name: str) -> int:
        """Give an array, which must be contiguous, an address of this memory's choice."""
        address = self._next
        self.map(address, array, name)
        self._next += -(-(array.nbytes + _GAP) // _ALIGNMENT) * _ALIGNMENT
        return address

    def map(self, address: int, array: Array, name: str) -> None:
        """Put an array, which must be contiguous, at an address: that of a tensor, say, in a host's arguments."""
        if not array.flags.c_contiguous:
            raise ValueError(f"{name} is not contiguous")
        data = array.reshape(-1).view(np.uint8)
        buffer = Buffer(name, address, data)
        at = bisect_right([other.start for other in self._buffers], address)
        for other in self._buffers[max(at - 1, 0) : at + 1]:
            if other.start < buffer.end and buffer.start < other.end:
                raise ValueError(f"{buffer} overlaps {other}")
        self._buffers.insert(at, buffer)

    def launch(self) -> None:
        """Begin a launch: what earlier ones wrote may be read by every block."""
        self._stores = self._before = 0
        for buffer in self._buffers:
            buffer.stored = None

    def next_block(self) -> None:
        """Begin a block."""
        self._before = self._stores

    def load(self, element: Element, addresses: Array, after: Token) -> Array:
        """The elements at these addresses, an int64 array; all are accessed."""
        result = np.empty(addresses.shape, dtype=element.held)
        for buffer, lanes in self._parts(element, addresses, "reads"):
            places = (addresses[lanes] - buffer.start) // element.stored.itemsize
            if buffer.stored is not None:
                self._ordered(buffer.stored[addresses[lanes] - buffer.start], after, buffer, "reads")
            result[lanes] = loaded(element, _typed(buffer, element)[places])
        return result

    def store(self, element: Element, addresses: Array, values: Array, after: Token) -> Token:
        """Write elements to these addresses, which must all differ; the token puts this store before what it is for."""
        self._stores += 1
        for buffer, lanes in self._parts(element, addresses, "writes"):
            if not buffer.data.flags.writeable:
                raise ExecutionError(f"writes to {buffer}, which may only be read")
            first = addresses[lanes] - buffer.start
            stored = np.zeros(buffer.data.size, dtype=np.int32) if buffer.stored is None else buffer.stored
            self._ordered(stored[first], after, buffer, "writes")
            for byte in range(element.stored.itemsize):
                stored[first + byte] = self._stores
            buffer.stored = stored
            places = first // element.stored.itemsize
            if np.unique(places).size != places.size:
                raise ExecutionError(f"two lanes of one store write to the same place in {buffer}")
            _typed(buffer, element)[places] = storable(element, values[lanes])
        return Token(after.stores | {self._stores})

    def _ordered(self, stores: Array, after: Token, buffer: Buffer, verb: str) -> None:
        """Refuse an access to what these stores, 0 for none, have written, unless they come before it."""
        for store in np.unique(stores[stores != 0]):
            if store <= self._before:
                raise ExecutionError(f"{verb} what another block of this launch has written in {buffer}")
            if int(store) not in after.stores:
                raise ExecutionError(
                    f"{verb} what this block has written in {buffer}, and no token says in which order"
                )

    def _parts(self, element: Element, addresses: Array, verb: str) -> list[tuple[Buffer, Array]]:
        """The buffers that addresses are in, each with a mask of its lanes; an error if one is in none."""
        if addresses.size == 0:
            return []
        size = element.stored.itemsize
        misaligned = addresses[addresses % size != 0]
        if misaligned.size:
            raise ExecutionError(f"{verb} a {element} at {misaligned[0]:#x}, which is not aligned to {size} bytes")
        starts = np.array([buffer.start for buffer in self._buffers], dtype=np.int64)
        lanes = np.searchsorted(starts, addresses, side="right") - 1
        parts = []
        for index in np.unique(lanes):
            here = lanes == index
            buffer = self._buffers[index] if index >= 0 else None
            outside = addresses[here] if buffer is None else addresses[here & (addresses + size > buffer.end)]
            if outside.size:
                near = "no buffer is below it" if buffer is None else f"{outside[0] - buffer.end} bytes past {buffer}"
                raise ExecutionError(f"{verb} a {element} at {outside[0]:#x}, out of bounds: {near}")
            assert buffer is not None
            parts.append((buffer, here))
        return parts


def _typed(buffer: Buffer, element: Element) -> Array:
    """The bytes of a buffer as elements; its start is aligned as numpy aligns, so addresses are multiples in it."""
    size = element.stored.itemsize
    if buffer.start % size:
        raise ExecutionError(f"{buffer} does not start at a multiple of {size} bytes")
    return buffer.data[: buffer.data.size // size * size].view(element.stored)
