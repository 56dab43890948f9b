"""How the operations are written that signatures.py does not describe: comparisons, constants, reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tile_ir import rules
from tests.tile_ir.errors import ProgramError
from tests.tile_ir.lexer import Cursor
from tests.tile_ir.literals import dense, scalar
from tests.tile_ir.modifiers import COMPARISONS
from tests.tile_ir.program import Operation
from tests.tile_ir.reader import listed, read_attribute, read_string
from tests.tile_ir.scope import Reader, checked, value, with_attributes
from tests.tile_ir.types import I1, Element


def _assert(reader: Reader, operation: Operation) -> Operation:
    operation = reader.operands(operation, 1)
    reader.cursor.expect(",")
    operation = with_attributes(operation, message=read_string(reader.cursor))
    operation = reader.typed(reader.modified(operation), 0)
    if operation.tile(0).element != I1:
        raise operation.fail(f"the condition is a {operation.tile(0)}")
    return operation


def _assume(reader: Reader, operation: Operation) -> Operation:
    cursor = reader.cursor
    line, predicate = cursor.line, cursor.take("word")
    cursor.expect("<")
    numbers: tuple[int | None, ...]
    if predicate == "bounded":
        low = _bound(cursor)
        cursor.expect(",")
        numbers = (low, _bound(cursor))
    elif predicate == "div_by":
        numbers = (cursor.integer(),)
        if not cursor.sees(">"):
            cursor.fail("'>': a divisor of some elements alone is not known here")
    elif predicate == "same_elements":
        numbers = listed(cursor, "[", "]", Cursor.integer)
    else:
        raise ProgramError(line, f"unknown predicate {predicate!r}")
    cursor.expect(">")
    cursor.expect(",")
    operation = with_attributes(operation, predicate=predicate, numbers=numbers)
    operation = reader.modified(reader.operands(operation, 1))
    cursor.expect(":")
    return checked(reader.as_operand(operation), rules.assume)


def _bound(cursor: Cursor) -> int | None:
    return None if cursor.accept("?") else cursor.integer()


def _cat(reader: Reader, operation: Operation) -> Operation:
    operation = reader.operands(operation, 2)
    reader.named("dim")
    operation = reader.modified(with_attributes(operation, dim=reader.cursor.integer()))
    return checked(reader.typed(operation, 0, 1, results=1), rules.cat)


def _predicate(reader: Reader, operation: Operation) -> Operation:
    line, predicate = reader.cursor.line, reader.cursor.take("word")
    if predicate not in COMPARISONS:
        raise ProgramError(line, f"unknown predicate {predicate!r}")
    return with_attributes(operation, predicate=predicate)


def _compare_floats(reader: Reader, operation: Operation) -> Operation:
    operation = _predicate(reader, operation)
    operation = with_attributes(operation, ordered=reader.either("ordered", "unordered"))
    operation = reader.modified(reader.operands(operation, 2))
    return checked(reader.typed(operation, 0, results=1), rules.compare)


def _compare_integers(reader: Reader, operation: Operation) -> Operation:
    operation = reader.operands(_predicate(reader, operation), 2)
    reader.cursor.expect(",")
    operation = with_attributes(operation, signed=reader.either("signed", "unsigned"))
    return checked(reader.typed(reader.modified(operation), 0, results=1), rules.compare)


def _constant(reader: Reader, operation: Operation) -> Operation:
    cursor = reader.cursor
    cursor.expect("<")
    element = cursor.take("word")
    cursor.expect(":")
    literals = [read_attribute(cursor)]
    while cursor.accept(","):
        literals.append(read_attribute(cursor))
    cursor.expect(">")
    operation = reader.typed(operation, results=1)
    if element != str(operation.result_tile.element):
        raise operation.fail(f"{element} is not the element of a {operation.result_tile}")
    return with_attributes(operation, value=dense(operation, operation.result_tile, tuple(literals)))


def _extract(reader: Reader, operation: Operation) -> Operation:
    operation = reader.operands(operation, 1)
    operation = reader.use(operation, *listed(reader.cursor, "[", "]", value))
    return checked(reader.typed(reader.modified(operation), 0, results=1), rules.extract)


def _join_tokens(reader: Reader, operation: Operation) -> Operation:
    operation = reader.typed(reader.modified(reader.all_operands(operation)), results=1)
    return checked(operation, rules.join)


def _permute(reader: Reader, operation: Operation) -> Operation:
    operation = reader.operands(operation, 1)
    operation = with_attributes(operation, permutation=listed(reader.cursor, "[", "]", Cursor.integer))
    return checked(reader.typed(reader.modified(operation), 0, results=1), rules.permute)


def _fold(reader: Reader, operation: Operation) -> Operation:
    operation = reader.all_operands(operation)
    reader.named("dim")
    operation = with_attributes(operation, dim=reader.cursor.integer())
    if operation.name == "scan":
        reader.named("reverse")
        operation = with_attributes(operation, reverse=reader.either("true", "false"))
    reader.named("identities")
    literals = listed(reader.cursor, "[", "]", _identity)
    count = len(operation.operands)
    operation = reader.typed(operation, *range(count), results=count)
    if len(literals) != count:
        raise operation.fail(f"{len(literals)} identities for {count} operands")
    elements = [operation.tile(index).element for index in range(count)]
    if not all(isinstance(element, Element) for element in elements):
        raise operation.fail("folds numbers alone")
    identities = tuple(
        scalar(operation, element, literal)
        for element, literal in zip(elements, literals, strict=True)
        if isinstance(element, Element)
    )
    operation = with_attributes(operation, identities=identities)
    return checked(reader.with_region(operation, (), labelled=True), rules.folds)


def _identity(cursor: Cursor) -> Any:
    literal = read_attribute(cursor)
    if cursor.accept(":"):
        cursor.take("word")
    return literal


FORMS: dict[str, Callable[[Reader, Operation], Operation]] = {
    "assert": _assert,
    "assume": _assume,
    "cat": _cat,
    "cmpf": _compare_floats,
    "cmpi": _compare_integers,
    "constant": _constant,
    "extract": _extract,
    "join_tokens": _join_tokens,
    "permute": _permute,
    "reduce": _fold,
    "scan": _fold,
}
