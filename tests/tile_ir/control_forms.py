"""How loops, branches and what ends them are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.tile_ir import rules
from tests.tile_ir.lexer import Cursor
from tests.tile_ir.program import Operation, Region
from tests.tile_ir.reader import listed, read_type
from tests.tile_ir.scope import TERMINATORS, Reader, checked, value
from tests.tile_ir.types import Type


def _terminator(reader: Reader, operation: Operation) -> Operation:
    if operation.name == "return" or reader.cursor.here.kind != "value":
        return operation
    operation = reader.all_operands(operation)
    return reader.typed(operation, *range(len(operation.operands)))


def _carried(reader: Reader, operation: Operation) -> tuple[Operation, tuple[str, ...]]:
    """`iter_values(%inner = %outer, ...)`, which may be absent: the outer values as operands, and the inner names."""

    def pair(cursor: Cursor) -> tuple[str, str]:
        inner = value(cursor)
        cursor.expect("=")
        return inner, value(cursor)

    if not reader.cursor.accept("iter_values"):
        return operation, ()
    pairs = listed(reader.cursor, "(", ")", pair)
    return reader.use(operation, *(outer for _, outer in pairs)), tuple(inner for inner, _ in pairs)


def _for(reader: Reader, operation: Operation) -> Operation:
    """Operands are the first number, the limit, the step, and the values that the loop carries."""
    cursor = reader.cursor
    counter = value(cursor)
    cursor.expect("in")
    cursor.expect("(")
    operation = reader.operands(operation, 1)
    cursor.expect("to")
    operation = reader.operands(operation, 1)
    cursor.expect(",")
    cursor.expect("step")
    operation = reader.operands(operation, 1)
    cursor.expect(")")
    operation = reader.typed(operation, 0)
    operation, names = _carried(reader, operation)
    kinds = operation.operand_types[3:]
    if cursor.accept("->"):
        operation = replace(operation, result_types=listed(cursor, "(", ")", read_type))
    arguments = ((counter, operation.operand_types[0]), *zip(names, kinds, strict=True))
    operation = reader.with_region(operation, arguments)
    _ends(operation, operation.regions[0], {"continue": kinds})
    return checked(operation, rules.counted_loop)


def _loop(reader: Reader, operation: Operation) -> Operation:
    """`iter_values(...) : types of these -> types of results`; operands are the values that the loop carries."""
    cursor = reader.cursor
    operation, names = _carried(reader, operation)
    kinds = operation.operand_types
    if cursor.accept(":"):
        for index in range(len(names)):
            if index:
                cursor.expect(",")
            reader.confirm(operation, index)
        if not names or cursor.accept("->"):
            results = [read_type(cursor)]
            while cursor.accept(","):
                results.append(read_type(cursor))
            operation = replace(operation, result_types=tuple(results))
    operation = reader.with_region(operation, tuple(zip(names, kinds, strict=True)))
    _ends(operation, operation.regions[0], {"continue": kinds, "break": operation.result_types})
    return operation


def _if(reader: Reader, operation: Operation) -> Operation:
    operation = reader.operands(operation, 1)
    if reader.cursor.accept("->"):
        operation = replace(operation, result_types=listed(reader.cursor, "(", ")", read_type))
    operation = reader.with_region(operation, ())
    if reader.cursor.accept("else"):
        operation = reader.with_region(operation, ())
    for region in operation.regions:
        last = region.operations[-1] if region.operations else None
        if last is not None and last.name == "yield":
            _passes_on(last, operation.result_types)
        elif operation.result_types and (last is None or last.name not in TERMINATORS):
            raise operation.fail("a branch does not yield the results")
    return checked(operation, rules.branch)


def _passes_on(operation: Operation, expected: tuple[Type, ...]) -> None:
    """That what ends a region passes on values of these types."""
    if operation.operand_types != expected:
        found, wanted = (", ".join(map(str, kinds)) or "nothing" for kinds in (operation.operand_types, expected))
        raise operation.fail(f"passes on {found}, and not {wanted}")


def _ends(operation: Operation, region: Region, ends: dict[str, tuple[Type, ...]]) -> None:
    """That a loop's body ends as it may, and that what leaves it, here or in a branch inside, has the right types."""
    last = region.operations[-1] if region.operations else None
    if last is None or last.name not in TERMINATORS:
        raise operation.fail(f"the body does not end in {' or '.join(ends)}")
    for inner in leaving(region):
        if inner.name not in (*ends, "return"):
            raise inner.fail(f"does not end a {operation.name}")
        _passes_on(inner, ends.get(inner.name, ()))


def leaving(region: Region) -> list[Operation]:
    """What may end a region early or late, in branches inside it too."""
    found = []
    for operation in region.operations:
        if operation.name in TERMINATORS:
            found.append(operation)
        elif operation.name == "if":
            found += [inner for part in operation.regions for inner in leaving(part) if inner.name != "yield"]
    return found


FORMS: dict[str, Callable[[Reader, Operation], Operation]] = {
    **dict.fromkeys(TERMINATORS, _terminator),
    "for": _for,
    "if": _if,
    "loop": _loop,
}
