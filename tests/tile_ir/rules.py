"""What the types of an operation's operands and results must be; a rule raises where they are not."""

from __future__ import annotations

from collections.abc import Callable

from tests.tile_ir.program import Operation
from tests.tile_ir.types import ELEMENTS, I1, Element, PartitionView, Pointer, TensorView, Tile, Token

Rule = Callable[[Operation], None]


def _require(operation: Operation, holds: bool, message: str) -> None:  # noqa: FBT001 - a condition
    if not holds:
        raise operation.fail(message)


def _kind(tile: Tile) -> str:
    if isinstance(tile.element, Pointer):
        return "pointer"
    if tile.element == I1:
        return "i1"
    return "float" if tile.element.is_float else "integer"


def _same(operation: Operation, *kinds: str) -> None:
    result = operation.result_tile
    for index, found in enumerate(operation.operand_types):
        _require(operation, found == result, f"operand {index} is a {found}, but the result is a {result}")
    _require(operation, _kind(result) in kinds, f"there is none on a {result}")


def same_float(operation: Operation) -> None:
    _same(operation, "float")


def same_integer(operation: Operation) -> None:
    _same(operation, "integer")


def same_bits(operation: Operation) -> None:
    _same(operation, "integer", "i1")


def iota(operation: Operation) -> None:
    result = operation.result_tile
    _require(operation, _kind(result) == "integer" and len(result.shape) == 1, f"no {result} counts up")
    assert isinstance(result.element, Element)
    _require(operation, result.shape[0] <= 1 << (result.element.bits - 1), f"{result} cannot hold its last number")


def token(operation: Operation) -> None:
    _require(operation, operation.result_types == (Token(),), f"makes no {operation.result_types[0]}")


def join(operation: Operation) -> None:
    token(operation)
    _require(operation, set(operation.operand_types) == {Token()}, "joins tokens alone")


def ends_with_token(operation: Operation) -> None:
    _require(operation, operation.operand_types[-1] == Token(), f"{operation.operands[-1]} is no token")


def assume(operation: Operation) -> None:
    found, numbers = operation.tile(0), operation.attributes["numbers"]
    _require(operation, _kind(found) != "float", f"nothing is assumed of a {found}")
    if operation.attributes["predicate"] == "same_elements":
        _require(operation, len(numbers) == len(found.shape), f"{found} has {len(found.shape)} axes")
        _require(operation, all(group > 0 for group in numbers), "a group has one element at least")
    if operation.attributes["predicate"] == "div_by":
        _require(operation, numbers[0] > 0, "a divisor is positive")


def counted_loop(operation: Operation) -> None:
    scalars(operation, range(3))
    _require(operation, len(set(operation.operand_types[:3])) == 1, "counts in one type")
    carried = operation.operand_types[3:]
    _require(operation, operation.result_types == carried, "the results are of the types that the loop carries")


def branch(operation: Operation) -> None:
    _require(operation, operation.tile(0) == Tile((), I1), f"the condition is a {operation.tile(0)}")
    complete = len(operation.regions) == 2 or not operation.result_types
    _require(operation, complete, "has results, and no else")


def _converts(operation: Operation, source: str, result: str) -> tuple[Element, Element]:
    """That the kinds are these and the shapes equal; an i1 is an integer here."""
    before, after = operation.tile(0), operation.result_tile
    kinds = tuple("integer" if kind == "i1" else kind for kind in (_kind(before), _kind(after)))
    _require(operation, kinds == (source, result), f"does not convert a {before} to a {after}")
    _require(operation, before.shape == after.shape, f"does not change a shape, as from {before} to {after}")
    assert isinstance(before.element, Element)
    assert isinstance(after.element, Element)
    return before.element, after.element


def exti(operation: Operation) -> None:
    before, after = _converts(operation, "integer", "integer")
    _require(operation, before.bits < after.bits, f"does not widen {before} to {after}")


def trunci(operation: Operation) -> None:
    before, after = _converts(operation, "integer", "integer")
    _require(operation, before.bits > after.bits, f"does not narrow {before} to {after}")


def ftof(operation: Operation) -> None:
    before, after = _converts(operation, "float", "float")
    _require(operation, before != after, f"does not convert {before} to itself")


def ftoi(operation: Operation) -> None:
    _converts(operation, "float", "integer")


def itof(operation: Operation) -> None:
    _converts(operation, "integer", "float")


def bitcast(operation: Operation) -> None:
    before, after = operation.tile(0), operation.result_tile
    numbers = isinstance(before.element, Element) and isinstance(after.element, Element)
    _require(operation, numbers and before.element.bits == after.element.bits, f"not from {before} to {after}")
    _require(operation, before.shape == after.shape, f"does not change a shape, as from {before} to {after}")


def int_to_ptr(operation: Operation) -> None:
    before, after = operation.tile(0), operation.result_tile
    matches = before.element == ELEMENTS["i64"] and isinstance(after.element, Pointer) and before.shape == after.shape
    _require(operation, matches, f"not from {before} to {after}")


def ptr_to_int(operation: Operation) -> None:
    before, after = operation.tile(0), operation.result_tile
    matches = after.element == ELEMENTS["i64"] and isinstance(before.element, Pointer) and before.shape == after.shape
    _require(operation, matches, f"not from {before} to {after}")


def ptr_to_ptr(operation: Operation) -> None:
    before, after = operation.tile(0), operation.result_tile
    pointers = isinstance(before.element, Pointer) and isinstance(after.element, Pointer)
    _require(operation, pointers and before.shape == after.shape, f"not from {before} to {after}")


def broadcast(operation: Operation) -> None:
    before, after = operation.tile(0), operation.result_tile
    _require(operation, before.element == after.element, f"does not change the element, as from {before} to {after}")
    fits = len(before.shape) == len(after.shape) and all(
        old in (1, new) for old, new in zip(before.shape, after.shape, strict=True)
    )
    _require(operation, fits, f"only extents of 1 grow, and the rank stays: not from {before} to {after}")


def reshape(operation: Operation) -> None:
    before, after = operation.tile(0), operation.result_tile
    _require(operation, before.element == after.element, f"does not change the element, as from {before} to {after}")
    _require(operation, before.count == after.count, f"{before} and {after} hold different numbers of elements")


def offset(operation: Operation) -> None:
    pointers, offsets = operation.tile(0), operation.tile(1)
    _require(operation, _kind(pointers) == "pointer", f"a {pointers} has no pointers")
    _require(operation, _kind(offsets) == "integer", f"no offsets in a {offsets}")
    _require(operation, pointers.shape == offsets.shape, f"{pointers} and {offsets} differ in shape")
    _require(operation, pointers == operation.result_tile, f"no {operation.result_tile} from a {pointers}")


def select(operation: Operation) -> None:
    condition, result = operation.tile(0), operation.result_tile
    _require(operation, _kind(condition) == "i1", f"the condition is a {condition}")
    _require(operation, condition.shape == result.shape, f"{condition} and {result} differ in shape")
    for index in (1, 2):
        _require(operation, operation.tile(index) == result, f"operand {index} is no {result}")


def compare(operation: Operation) -> None:
    left, right, result = operation.tile(0), operation.tile(1), operation.result_tile
    _require(operation, left == right, f"{left} and {right} are not compared")
    _require(operation, result == Tile(left.shape, I1), f"the result of comparing a {left} is no {result}")
    kinds = {"float"} if operation.name == "cmpf" else {"integer", "i1"}
    _require(operation, _kind(left) in kinds, f"there is none on a {left}")


def mmaf(operation: Operation) -> None:
    left, right, result = operation.tile(0), operation.tile(1), operation.result_tile
    _require(operation, left.element == right.element, f"{left} and {right} differ in element")
    pairs = {("f16", "f16"), ("f16", "f32"), ("bf16", "f32"), ("f32", "f32"), ("f64", "f64")}
    pair = (str(left.element), str(result.element))
    _require(operation, pair in pairs, f"no accumulation of {pair[0]} in {pair[1]}")
    ranks = {len(tile.shape) for tile in (left, right, result)}
    _require(operation, ranks in ({2}, {3}), f"no product of {left} and {right} in {result}")
    batches = {tile.shape[:-2] for tile in (left, right, result)}
    shape = (*left.shape[:-1], right.shape[-1])
    fits = len(batches) == 1 and left.shape[-1] == right.shape[-2] and shape == result.shape
    _require(operation, fits, f"{left} times {right} is no {result}")
    _require(operation, operation.tile(2) == result, f"the accumulator is no {result}")


def permute(operation: Operation) -> None:
    before, after, order = operation.tile(0), operation.result_tile, operation.attributes["permutation"]
    _require(operation, sorted(order) == list(range(len(before.shape))), f"{order} is no order of {before}'s axes")
    expected = Tile(tuple(before.shape[axis] for axis in order), before.element)
    _require(operation, after == expected, f"the result is a {expected}, and no {after}")


def cat(operation: Operation) -> None:
    left, right, result = operation.tile(0), operation.tile(1), operation.result_tile
    dim = operation.attributes["dim"]
    _require(operation, 0 <= dim < len(result.shape), f"{result} has no axis {dim}")
    fits = left.element == right.element == result.element and len(left.shape) == len(right.shape)
    _require(operation, fits, f"{left} and {right} are not joined to a {result}")
    shape = [*left.shape]
    shape[dim] += right.shape[dim]
    others = [extents[:dim] + extents[dim + 1 :] for extents in (left.shape, right.shape)]
    _require(operation, tuple(shape) == result.shape and others[0] == others[1], f"no {result} of {left}, {right}")


def extract(operation: Operation) -> None:
    before, after = operation.tile(0), operation.result_tile
    fits = before.element == after.element and len(before.shape) == len(after.shape)
    _require(operation, fits, f"no {after} in a {before}")
    divides = all(whole % part == 0 for whole, part in zip(before.shape, after.shape, strict=True))
    _require(operation, divides, f"{before} is not cut evenly into {after}")
    _require(operation, len(operation.operands) == 1 + len(after.shape), "one index for each axis")
    scalars(operation, range(1, len(operation.operands)))


def scalars(operation: Operation, indices: range) -> None:
    """That these operands are whole numbers."""
    for index in indices:
        found = operation.tile(index)
        _require(operation, found.shape == () and _kind(found) == "integer", f"operand {index} is a {found}")


def folds(operation: Operation) -> None:
    """The rule of `reduce` and `scan`."""
    dim, count = operation.attributes["dim"], len(operation.operands)
    sources = [operation.tile(index) for index in range(count)]
    _require(operation, 0 <= dim < len(sources[0].shape), f"{sources[0]} has no axis {dim}")
    _require(operation, len({tile.shape for tile in sources}) == 1, "the operands differ in shape")
    _require(operation, len(operation.attributes["identities"]) == count, "one identity for each operand")
    shape = sources[0].shape if operation.name == "scan" else sources[0].shape[:dim] + sources[0].shape[dim + 1 :]
    expected = tuple(Tile(shape, tile.element) for tile in sources)
    _require(operation, operation.result_types == expected, f"the results are {', '.join(map(str, expected))}")
    arguments = tuple(kind for _, kind in operation.regions[0].arguments)
    pairs = tuple(Tile((), tile.element) for tile in sources for _ in range(2))
    _require(operation, arguments == pairs, "the region takes two scalars for each operand")
    last = operation.regions[0].operations[-1:]
    yields = bool(last) and last[0].name == "yield" and last[0].operand_types == pairs[::2]
    _require(operation, yields, "the region yields one scalar for each operand")


def block_numbers(operation: Operation) -> None:
    _require(operation, len(operation.results) == 3, "has three results")
    _require(operation, str(operation.result_tile) == "tile<i32>", f"{operation.result_tile} is no i32")


def view_shape(operation: Operation) -> None:
    view = operation.operand_types[0]
    expected = TensorView if operation.name == "get_tensor_shape" else PartitionView
    if not isinstance(view, expected):
        raise operation.fail(f"a {view} has none")
    rank = len(view.shape) if isinstance(view, TensorView) else len(view.tile)
    _require(operation, len(operation.results) == rank, f"has {rank} results")
    _require(operation, _kind(operation.result_tile) == "integer", "the results are whole numbers")


def partition(operation: Operation) -> None:
    source, result = operation.operand_types[0], operation.result_types[0]
    matches = isinstance(result, PartitionView) and result.tensor == source
    _require(operation, matches, f"no {result} of a {source}")


def tensor(operation: Operation) -> None:
    base, result = operation.tile(0), operation.result_types[0]
    if not isinstance(result, TensorView):
        raise operation.fail(f"makes no {result}")
    points = base == Tile((), Pointer(result.element))
    _require(operation, points, f"the base of a {result} is no {base}")
    scalars(operation, range(1, len(operation.operands)))


def view_access(operation: Operation) -> None:
    """The rule of `load_view_tko` and `store_view_tko`: operands are tile (of a store), view, indices, token."""
    attributes = operation.attributes
    view = operation.operand_types[attributes["view"]]
    if not isinstance(view, PartitionView):
        raise operation.fail(f"a {view} is not accessed by tiles")
    indices = attributes["indices"]
    scalars(operation, indices)
    _require(operation, len(indices) == len(view.tile), f"{len(view.tile)} indices for a {view}")
    tile = Tile(view.tile, view.tensor.element)
    moved = operation.result_types[0] if operation.name == "load_view_tko" else operation.operand_types[0]
    _require(operation, moved == tile, f"moves a {tile}, and no {moved}")
    _require(operation, operation.result_types[-1] == Token(), "the last result is a token")


def pointer_access(operation: Operation) -> None:
    """The rule of `load_ptr_tko` and `store_ptr_tko`."""
    pointers = operation.tile(0)
    if not isinstance(pointers.element, Pointer):
        raise operation.fail(f"a {pointers} has no pointers")
    moved = operation.result_tile if operation.name == "load_ptr_tko" else operation.tile(1)
    tile = Tile(pointers.shape, pointers.element.pointee)
    _require(operation, moved == tile, f"moves a {tile}, and no {moved}")
    mask, padding = operation.attributes["mask"], operation.attributes["padding"]
    if mask is not None:
        found = operation.tile(mask)
        _require(operation, found == Tile(pointers.shape, I1), f"the mask is a {found}")
    if padding is not None:
        found = operation.tile(padding)
        _require(operation, found == tile, f"the padding is a {found}")
    _require(operation, operation.result_types[-1] == Token(), "the last result is a token")
