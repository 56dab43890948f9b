"""Programs of one operation, run on values that a test chooses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.tile_ir.lexer import Cursor
from tests.tile_ir.machine import run
from tests.tile_ir.memory import Memory
from tests.tile_ir.reader import read_tile
from tests.tile_ir.types import Array, Element, Tile


def tile_of(text: str) -> Tile:
    """The type that a text says."""
    return read_tile(Cursor(text))


def bf16(values: npt.ArrayLike) -> Array:
    """Numbers that bf16 can hold → its bits: the upper half of float32's."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype(np.uint16)


def _stored(kind: Tile, values: Any) -> Array:
    assert isinstance(kind.element, Element)
    if kind.element.name == "bf16":
        return bf16(values).reshape(-1)
    return np.array(values, dtype=kind.element.stored).reshape(-1)


def _values(kind: Tile, stored: Array) -> Array:
    assert isinstance(kind.element, Element)
    if kind.element.name == "bf16":
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.reshape(kind.shape)


def _access(name: str, kind: Tile) -> tuple[str, str]:
    """Operations that make `%name_at`, pointers to all elements of a flat tile, and the type of that tile."""
    flat, pointers = f"tile<{kind.count}x{kind.element}>", f"tile<{kind.count}xptr<{kind.element}>>"
    scalar, one = f"tile<ptr<{kind.element}>>", f"tile<1xptr<{kind.element}>>"
    return (
        f"""
        %{name}_one = reshape %{name}_base : {scalar} -> {one}
        %{name}_all = broadcast %{name}_one : {one} -> {pointers}
        %{name}_lane = iota : tile<{kind.count}xi32>
        %{name}_at = offset %{name}_all, %{name}_lane : {pointers}, tile<{kind.count}xi32> -> {pointers}
        """,
        flat,
    )


def compute(body: str, result: str, **inputs: tuple[str, Any]) -> Array:
    """What `%r` is, of type `result`, after operations on inputs, each by its name, with its type and values."""
    memory, text, arguments, parameters = Memory(), "", list[int](), list[str]()
    for name, (written, values) in inputs.items():
        kind = tile_of(written)
        pointers, flat = _access(name, kind)
        text += f"""{pointers}
        %{name}_flat, %{name}_token = load_ptr_tko weak %{name}_at : {flat.replace(str(kind.element), f"ptr<{kind.element}>")} -> {flat}, token
        %{name} = reshape %{name}_flat : {flat} -> {kind}
        """  # noqa: E501
        parameters.append(f"%{name}_base: tile<ptr<{kind.element}>>")
        arguments.append(memory.allocate(_stored(kind, values), name))
    kind = tile_of(result)
    pointers, flat = _access("r", kind)
    text += f"""{body}{pointers}
        %r_flat = reshape %r : {kind} -> {flat}
        %r_token = store_ptr_tko weak %r_at, %r_flat : {flat.replace(str(kind.element), f"ptr<{kind.element}>")}, {flat} -> token
        return
    """  # noqa: E501
    assert isinstance(kind.element, Element)
    stored = np.zeros(kind.count, dtype=kind.element.stored)
    parameters.append(f"%r_base: tile<ptr<{kind.element}>>")
    arguments.append(memory.allocate(stored, "r"))
    run(f"entry @small({', '.join(parameters)}) {{{text}}}", "small", (1, 1, 1), arguments, memory)
    return _values(kind, stored)
