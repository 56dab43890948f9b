"""Types and attributes of Tile IR text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from tests.tile_ir.errors import ProgramError
from tests.tile_ir.lexer import Cursor
from tests.tile_ir.types import ELEMENTS, PADDINGS, Element, PartitionView, Pointer, TensorView, Tile, Token, Type

T = TypeVar("T")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


def listed(cursor: Cursor, opening: str, closing: str, read: Callable[[Cursor], T]) -> tuple[T, ...]:
    """What stands between two marks, separated by commas."""
    cursor.expect(opening)
    found: list[T] = []
    while not cursor.accept(closing):
        if found:
            cursor.expect(",")
        found.append(read(cursor))
    return tuple(found)


def read_type(cursor: Cursor) -> Type:
    """A type in the short form, without `!cuda_tile.`."""
    line = cursor.line
    name = cursor.take("word")
    if name == "token":
        return Token()
    if name == "tile":
        cursor.expect("<")
        shape, element = _shaped(cursor)
        cursor.expect(">")
        return Tile(tuple(_static(line, extent) for extent in shape), element)
    if name == "tensor_view":
        return _tensor_view(cursor)
    if name == "partition_view":
        return _partition_view(cursor)
    raise ProgramError(line, f"unknown type {name!r}")


def read_tile(cursor: Cursor) -> Tile:
    """A tile type."""
    line = cursor.line
    found = read_type(cursor)
    if not isinstance(found, Tile):
        raise ProgramError(line, f"expected a tile type, found {found}")
    return found


def _static(line: int, extent: int | None) -> int:
    if extent is None or extent < 1 or extent & (extent - 1):
        raise ProgramError(line, f"a tile's extent is a power of two, and not {extent}")
    return extent


def _element(line: int, name: str) -> Element:
    if name not in ELEMENTS:
        raise ProgramError(line, f"unknown element type {name!r}")
    return ELEMENTS[name]


def _shaped(cursor: Cursor) -> tuple[tuple[int | None, ...], Element | Pointer]:
    """`128x64xf32`, `?x?xf16`, `64xptr<f16>`, `f32`."""
    line = cursor.line
    *extents, name = cursor.take("word").split("x")
    shape = tuple(None if extent == "?" else int(extent) for extent in extents)
    if name != "ptr":
        return shape, _element(line, name)
    cursor.expect("<")
    pointee = _element(line, cursor.take("word"))
    if cursor.sees(","):
        raise ProgramError(line, "pointers with attributes are not known here")
    cursor.expect(">")
    return shape, Pointer(pointee)


def _extent(cursor: Cursor) -> int | None:
    return None if cursor.accept("?") else cursor.integer()


def _tensor_view(cursor: Cursor) -> TensorView:
    line = cursor.line
    cursor.expect("<")
    shape, element = _shaped(cursor)
    cursor.expect(",")
    cursor.expect("strides")
    cursor.expect("=")
    strides = listed(cursor, "[", "]", _extent)
    cursor.expect(">")
    if isinstance(element, Pointer):
        raise ProgramError(line, "a tensor view has no pointers as elements")
    if len(strides) != len(shape):
        raise ProgramError(line, f"{len(shape)} extents, but {len(strides)} strides")
    return TensorView(element, shape, strides)


def _partition_view(cursor: Cursor) -> PartitionView:
    line = cursor.line
    for mark in ("<", "tile", "=", "("):
        cursor.expect(mark)
    text = cursor.take(cursor.here.kind) if cursor.here.kind in {"word", "number"} else cursor.fail("a tile's shape")
    tile = tuple(_static(line, int(extent)) for extent in text.split("x"))
    cursor.expect(")")
    cursor.expect(",")
    padding = None
    if cursor.accept("padding_value"):
        cursor.expect("=")
        padding = cursor.take(cursor.here.kind)  # `nan` is a number elsewhere
        if padding not in PADDINGS:
            raise ProgramError(line, f"unknown padding value {padding!r}")
        cursor.expect(",")
    cursor.expect("tensor_view")
    tensor = _tensor_view(cursor)
    dim_map = tuple(range(len(tile)))
    if cursor.accept(","):
        cursor.expect("dim_map")
        cursor.expect("=")
        dim_map = listed(cursor, "[", "]", Cursor.integer)
    cursor.expect(">")
    if sorted(dim_map) != list(range(len(tensor.shape))) or len(dim_map) != len(tile):
        raise ProgramError(line, f"a tile of shape {tile} does not fit a tensor of rank {len(tensor.shape)}")
    return PartitionView(tile, padding, tensor, dim_map)


def read_string(cursor: Cursor) -> str:
    """A string. MLIR escapes a character by two hexadecimal digits, Rust by a letter, or a number in braces."""

    def meant(match: re.Match[str]) -> str:
        code = match.group(1)
        if code.startswith("u{"):
            return chr(int(code[2:-1], 16))
        return chr(int(code, 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    return re.sub(r"\\(u\{[0-9a-f]+\}|[0-9A-F]{2}|.)", meant, cursor.take("string")[1:-1])


def read_attribute(cursor: Cursor) -> Any:
    """The value of an attribute: a number, string, word, list or dictionary; of `#name<...>` only the name."""
    kind = cursor.here.kind
    if kind == "number":
        return number(cursor)
    if kind == "string":
        return read_string(cursor)
    if kind == "word":
        return cursor.take("word")
    if cursor.sees("["):
        return list(listed(cursor, "[", "]", read_attribute))
    if cursor.sees("{"):
        return read_dictionary(cursor)
    cursor.accept("#")
    name = cursor.take("word") if cursor.here.kind == "word" else ""
    _skip_angles(cursor)
    return name


def _skip_angles(cursor: Cursor) -> None:
    cursor.expect("<")
    depth = 1
    while depth:
        depth += cursor.sees("<") - cursor.sees(">")
        if cursor.here.kind == "end":
            cursor.fail("'>'")
        cursor.take(cursor.here.kind)


def read_dictionary(cursor: Cursor) -> dict[str, Any]:
    """`{name = value, ...}`; a name alone stands for true."""

    def entry(inner: Cursor) -> tuple[str, Any]:
        name = inner.take("word")
        return name, read_attribute(inner) if inner.accept("=") else "true"

    return dict(listed(cursor, "{", "}", entry))


def number(cursor: Cursor) -> int | float | str:
    """A number as Python reads it; bits in hexadecimal stay a string, since their type says what they mean."""
    text = cursor.take("number")
    if text.startswith("0x"):
        return text
    try:
        return int(text)
    except ValueError:
        return float(text)
