"""The arguments of a launch: the values that an entry's parameters have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.tile_ir.errors import ExecutionError
from tests.tile_ir.numbers import loaded
from tests.tile_ir.program import Entry
from tests.tile_ir.types import Array, Element, Pointer, Tile


def unpack(entry: Entry, arguments: bytes | Sequence[int | float | bytes]) -> list[Array]:
    """Arguments as tiles; bytes hold one after the other, each at a multiple of its size."""
    kinds = [_scalar(entry, index) for index in range(len(entry.body.arguments))]
    if isinstance(arguments, bytes):
        arguments = _split(entry, kinds, arguments)
    if len(arguments) != len(kinds):
        raise ExecutionError(f"{entry.symbol} has {len(kinds)} parameters, and not {len(arguments)}")
    return [_value(kind, argument) for kind, argument in zip(kinds, arguments, strict=True)]


def _scalar(entry: Entry, index: int) -> Element | Pointer:
    name, kind = entry.body.arguments[index]
    if not isinstance(kind, Tile) or kind.shape:
        raise ExecutionError(f"{entry.symbol}: parameter {name} is a {kind}, and neither a pointer nor a number")
    return kind.element


def _size(kind: Element | Pointer) -> int:
    return kind.held.itemsize if isinstance(kind, Pointer) else kind.stored.itemsize


def _split(entry: Entry, kinds: list[Element | Pointer], packed: bytes) -> list[bytes]:
    parts, at = [], 0
    for kind in kinds:
        at = -(-at // _size(kind)) * _size(kind)
        parts.append(packed[at : at + _size(kind)])
        at += _size(kind)
    if at != len(packed):
        raise ExecutionError(f"the parameters of {entry.symbol} take {at} bytes, and not {len(packed)}")
    return parts


def _value(kind: Element | Pointer, argument: float | bytes) -> Array:
    if isinstance(argument, bytes):
        if len(argument) != _size(kind):
            raise ExecutionError(f"a {kind} takes {_size(kind)} bytes, and not {len(argument)}")
        stored = np.frombuffer(argument, dtype=kind.held if isinstance(kind, Pointer) else kind.stored)[0]
        return np.asarray(stored if isinstance(kind, Pointer) else loaded(kind, np.asarray(stored)))
    value = np.asarray(argument).astype(kind.held)
    whole = isinstance(kind, Pointer) or not kind.is_float
    if whole and value != argument:
        raise ExecutionError(f"{argument} is no {kind}")
    return value
