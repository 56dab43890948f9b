"""Runs an entry of a program, block by block, on a memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.tile_ir.arguments import unpack
from tests.tile_ir.elementwise import ELEMENTWISE
from tests.tile_ir.errors import ExecutionError, TrapError
from tests.tile_ir.memory import Memory, Token
from tests.tile_ir.parser import parse
from tests.tile_ir.program import Entry, Operation, Program, Region
from tests.tile_ir.shapes import SHAPES
from tests.tile_ir.types import Array, PartitionView, Tile, Type
from tests.tile_ir.views import (
    Partition,
    Tensor,
    load_pointers,
    load_view,
    make_tensor,
    store_pointers,
    store_view,
)

# Of a `loop`, which may have no end.
_MOST_ROUNDS = 1_000_000

Values = dict[str, Any]


def run(
    program: str | Program,
    symbol: str,
    grid: tuple[int, int, int],
    arguments: bytes | Sequence[int | float | bytes],
    memory: Memory,
) -> None:
    """Launch an entry on a grid of tile blocks.

    `arguments` are those of the launch: the bytes of all, each at its natural alignment (pointers of 8 bytes), or one
    number, or its bytes, for each.
    """
    parsed = parse(program) if isinstance(program, str) else program
    if symbol not in parsed.entries:
        raise ExecutionError(f"no entry {symbol!r}; there are {', '.join(sorted(parsed.entries))}")
    if min(grid) < 1:
        raise ExecutionError(f"a grid of {grid}: an extent is 1 at least")
    entry = parsed.entries[symbol]
    values = unpack(entry, arguments)
    memory.launch()
    with np.errstate(all="ignore"):
        for z, y, x in itertools.product(*(range(extent) for extent in reversed(grid))):
            memory.next_block()
            _Block(entry, grid, (x, y, z), memory).run(values)


@dataclass(frozen=True)
class _Left:
    """How a region was left: by which word, and with which values."""

    name: str
    values: list[Any] = field(default_factory=list)


class _Block:
    """One tile block."""

    def __init__(self, entry: Entry, grid: tuple[int, int, int], index: tuple[int, int, int], memory: Memory) -> None:
        self._entry = entry
        self._grid = grid
        self._index = index
        self._memory = memory
        self._values: Values = {}
        self._effects: dict[str, Callable[[Operation, list[Any]], list[Any]]] = {
            "assert": self._assert,
            "constant": lambda operation, _: [operation.attributes["value"]],
            "get_index_space_shape": self._index_space,
            "get_num_tile_blocks": lambda *_: [np.asarray(extent, dtype=np.int32) for extent in self._grid],
            "get_tensor_shape": self._tensor_shape,
            "get_tile_block_id": lambda *_: [np.asarray(at, dtype=np.int32) for at in self._index],
            "join_tokens": lambda _, values: [_joined(values)],
            "load_ptr_tko": self._load_pointers,
            "load_view_tko": self._load_view,
            "make_partition_view": self._partition,
            "make_tensor_view": lambda operation, values: [make_tensor(operation, values)],
            "make_token": lambda *_: [Token()],
            "reduce": self._reduce,
            "scan": self._scan,
            "store_ptr_tko": self._store_pointers,
            "store_view_tko": self._store_view,
        }
        self._control: dict[str, Callable[[Operation, list[Any]], _Left | list[Any]]] = {
            "for": self._for,
            "if": self._if,
            "loop": self._loop,
        }

    def run(self, arguments: list[Array]) -> None:
        """From the first operation to the return."""
        left = self._region(self._entry.body, arguments)
        assert left.name == "return"

    def _region(self, region: Region, arguments: Sequence[Any]) -> _Left:
        for (name, _), value in zip(region.arguments, arguments, strict=True):
            self._values[name] = value
        for operation in region.operations:
            left = self._step(operation)
            if left is not None:
                return left
        return _Left("yield")

    def _step(self, operation: Operation) -> _Left | None:
        values = [self._values[name] for name in operation.operands]
        if operation.name in {"break", "continue", "return", "yield"}:
            return _Left(operation.name, values)
        control = self._control.get(operation.name)
        if control is not None:
            results = control(operation, values)
            if isinstance(results, _Left):
                return results
        else:
            results = self._compute(operation, values)
        for name, kind, result in zip(operation.results, operation.result_types, results, strict=True):
            self._values[name] = _held(operation, kind, result)
        return None

    def _compute(self, operation: Operation, values: list[Any]) -> list[Any]:
        try:
            effect = self._effects.get(operation.name)
            return _pure(operation, values) if effect is None else effect(operation, values)
        except ExecutionError as error:
            place = f"{self._entry.symbol}, block {self._index}, line {operation.line}, {operation.name}"
            raise type(error)(f"{place}: {error}") from error

    def _for(self, operation: Operation, values: list[Any]) -> _Left | list[Any]:
        """Signed numbers from the first up to the limit, which is left out."""
        first, limit, step, *carried = values
        if step <= 0:
            raise ExecutionError(f"line {operation.line}: a loop's step is {step}")
        for number in range(int(first), int(limit), int(step)):
            left = self._region(operation.regions[0], [np.asarray(number, dtype=first.dtype), *carried])
            if left.name == "return":
                return left
            carried = left.values
        return carried

    def _loop(self, operation: Operation, carried: list[Any]) -> _Left | list[Any]:
        for _ in range(_MOST_ROUNDS):
            left = self._region(operation.regions[0], carried)
            if left.name == "return":
                return left
            if left.name == "break":
                return left.values
            carried = left.values
        raise ExecutionError(f"line {operation.line}: no end after {_MOST_ROUNDS} rounds of a loop")

    def _if(self, operation: Operation, values: list[Any]) -> _Left | list[Any]:
        branch = 0 if values[0] else 1
        if branch == len(operation.regions):
            return []
        left = self._region(operation.regions[branch], [])
        return left.values if left.name == "yield" else left

    def _assert(self, operation: Operation, values: list[Any]) -> list[Any]:
        if not values[0].all():
            raise TrapError(operation.attributes["message"])
        return []

    def _partition(self, operation: Operation, values: list[Any]) -> list[Any]:
        kind = operation.result_types[0]
        assert isinstance(kind, PartitionView)
        return [Partition(kind, values[0])]

    def _tensor_shape(self, operation: Operation, values: list[Any]) -> list[Any]:
        tensor: Tensor = values[0]
        return _numbers(operation, tensor.shape)

    def _index_space(self, operation: Operation, values: list[Any]) -> list[Any]:
        view: Partition = values[0]
        return _numbers(operation, [view.count(axis) for axis in range(len(view.kind.tile))])

    def _load_view(self, operation: Operation, values: list[Any]) -> list[Any]:
        after = _after(values)
        return [load_view(self._memory, values[0], _indices(operation, values), after), after]

    def _store_view(self, operation: Operation, values: list[Any]) -> list[Any]:
        return [store_view(self._memory, values[1], _indices(operation, values), values[0], _after(values))]

    def _load_pointers(self, operation: Operation, values: list[Any]) -> list[Any]:
        after = _after(values)
        return [load_pointers(self._memory, operation, values, after), after]

    def _store_pointers(self, operation: Operation, values: list[Any]) -> list[Any]:
        return [store_pointers(self._memory, operation, values, _after(values))]

    def _combine(self, operation: Operation, left: list[Array], right: list[Array]) -> list[Array]:
        """A reduction's region, on all elements of two lists of arrays at once."""
        region = operation.regions[0]
        arguments = [part for pair in zip(left, right, strict=True) for part in pair]
        values = dict(zip((name for name, _ in region.arguments), arguments, strict=True))
        for inner in region.operations:
            found = [values[name] if name in values else self._values[name] for name in inner.operands]
            if inner.name == "yield":
                return found
            if inner.name not in ELEMENTWISE and inner.name != "constant":
                raise ExecutionError(f"line {inner.line}: {inner.name} in the region of a {operation.name}")
            results = self._compute(inner, found)
            values.update(zip(inner.results, results, strict=True))
        raise ExecutionError(f"line {operation.line}: a region without yield")

    def _reduce(self, operation: Operation, values: list[Any]) -> list[Any]:
        """Halves are combined with halves, and the identities with what is left: the order of Tile IR is open."""
        parts = [np.moveaxis(value, operation.attributes["dim"], 0) for value in values]
        while (count := parts[0].shape[0]) > 1:
            half = count // 2
            parts = self._combine(operation, [part[:half] for part in parts], [part[half:] for part in parts])
        identities = [np.asarray(identity) for identity in operation.attributes["identities"]]
        return self._combine(operation, [part[0] for part in parts], identities)

    def _scan(self, operation: Operation, values: list[Any]) -> list[Any]:
        """Each element is combined with all before it, or after it in reverse, itself included."""
        dim = operation.attributes["dim"]
        parts = [np.moveaxis(value, dim, 0) for value in values]
        count = parts[0].shape[0]
        order = range(count - 1, -1, -1) if operation.attributes["reverse"] else range(count)
        results = [np.empty_like(part) for part in parts]
        before = [np.asarray(identity) for identity in operation.attributes["identities"]]
        for index in order:
            before = self._combine(operation, [part[index] for part in parts], before)
            for result, value in zip(results, before, strict=True):
                result[index] = value
        return [np.moveaxis(result, 0, dim) for result in results]


def _pure(operation: Operation, values: list[Any]) -> list[Any]:
    evaluate = ELEMENTWISE.get(operation.name) or SHAPES.get(operation.name)
    if evaluate is None:
        raise ExecutionError("is read, but not known to the machine")
    return [evaluate(operation, values)]


def _held(operation: Operation, kind: Type, result: Any) -> Any:
    """A result as it is held; it must be what the type says, or the interpreter is wrong."""
    if not isinstance(kind, Tile):
        return result
    array = np.asarray(result)
    if array.dtype != kind.element.held or array.shape != kind.shape:
        raise TypeError(f"line {operation.line}: {operation.name} made {array.dtype} {array.shape} for a {kind}")
    return array


def _joined(tokens: Sequence[Token]) -> Token:
    return Token(frozenset().union(*(token.stores for token in tokens)))


def _after(values: Sequence[Any]) -> Token:
    """The token that an access is given, always last."""
    return values[-1] if isinstance(values[-1], Token) else Token()


def _indices(operation: Operation, values: list[Any]) -> list[int]:
    return [int(values[index]) for index in operation.attributes["indices"]]


def _numbers(operation: Operation, numbers: Sequence[int]) -> list[Array]:
    return [np.asarray(number, dtype=operation.result_tile.element.held) for number in numbers]
