"""How accesses to memory, and the views for them, are written."""

from __future__ import annotations

from collections.abc import Callable

from tests.tile_ir import rules
from tests.tile_ir.program import Operation
from tests.tile_ir.reader import listed, read_attribute
from tests.tile_ir.scope import Reader, checked, value, with_attributes

_ORDERINGS = {"load": ("weak", "relaxed", "acquire"), "store": ("weak", "relaxed", "release")}
_SCOPES = ("tl_blk", "device", "sys")


def _ordering(reader: Reader, operation: Operation) -> None:
    """Which order other blocks see the access in; blocks run one after the other here, so any order holds."""
    cursor = reader.cursor
    if cursor.here.text not in _ORDERINGS[operation.name.split("_")[0]]:
        cursor.fail("a memory ordering")
    cursor.take("word")
    if cursor.here.text in _SCOPES:
        cursor.take("word")


def _token(reader: Reader, operation: Operation) -> Operation:
    """An optional token, and hints, which change no result."""
    cursor = reader.cursor
    if cursor.accept("token"):
        cursor.expect("=")
        operation = checked(reader.use(operation, value(cursor)), rules.ends_with_token)
    if cursor.accept("optimization_hints"):
        cursor.expect("=")
        read_attribute(cursor)
    return operation


def _load_view(reader: Reader, operation: Operation) -> Operation:
    _ordering(reader, operation)
    operation = reader.operands(operation, 1)
    operation = reader.use(operation, *listed(reader.cursor, "[", "]", value))
    operation = with_attributes(operation, view=0, indices=range(1, len(operation.operands)))
    operation = reader.modified(_token(reader, operation))
    operation = reader.typed(operation, 0, *operation.attributes["indices"][:1], results=2)
    return checked(operation, rules.view_access)


def _store_view(reader: Reader, operation: Operation) -> Operation:
    _ordering(reader, operation)
    operation = reader.operands(operation, 2)
    operation = reader.use(operation, *listed(reader.cursor, "[", "]", value))
    operation = with_attributes(operation, view=1, indices=range(2, len(operation.operands)))
    operation = reader.modified(_token(reader, operation))
    operation = reader.typed(operation, 0, 1, *operation.attributes["indices"][:1], results=1)
    return checked(operation, rules.view_access)


def _load_pointers(reader: Reader, operation: Operation) -> Operation:
    """`pointers, mask, padding`, of which the last two may be absent."""
    _ordering(reader, operation)
    operation = reader.all_operands(operation)
    count = len(operation.operands)
    operation = with_attributes(operation, mask=1 if count > 1 else None, padding=2 if count > 2 else None)
    operation = reader.typed(reader.modified(_token(reader, operation)), *range(count), results=2)
    return checked(operation, rules.pointer_access)


def _store_pointers(reader: Reader, operation: Operation) -> Operation:
    """`pointers, values, mask`, of which the last may be absent."""
    _ordering(reader, operation)
    operation = reader.all_operands(operation)
    count = len(operation.operands)
    operation = with_attributes(operation, mask=2 if count > 2 else None, padding=None)
    operation = reader.typed(reader.modified(_token(reader, operation)), *range(count), results=1)
    return checked(operation, rules.pointer_access)


def _tensor_view(reader: Reader, operation: Operation) -> Operation:
    """Extents and strides, in elements, are values where the result's type has a question mark."""
    cursor = reader.cursor
    operation = reader.operands(operation, 1)
    written: dict[str, list[int | str]] = {}
    for name in ("shape", "strides"):
        cursor.expect(",")
        reader.named(name)
        cursor.expect("[")
        written[name] = []
        while not cursor.accept("]"):
            if written[name]:
                cursor.expect(",")
            known = cursor.here.kind == "number"
            written[name].append(cursor.integer() if known else value(cursor))
    dynamic = [name for part in written.values() for name in part if isinstance(name, str)]
    operation = reader.modified(with_attributes(reader.use(operation, *dynamic), **written))
    return checked(reader.typed(operation, *((1,) if dynamic else ()), results=1), rules.tensor)


FORMS: dict[str, Callable[[Reader, Operation], Operation]] = {
    "load_ptr_tko": _load_pointers,
    "load_view_tko": _load_view,
    "make_tensor_view": _tensor_view,
    "store_ptr_tko": _store_pointers,
    "store_view_tko": _store_view,
}
