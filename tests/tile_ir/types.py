"""The types of Tile IR that the interpreter knows, and how numpy holds their values.

Source: the type printer of the crate cutile-ir (`format_type`). A bf16 tile is held in float32, since numpy has no
bf16; every value in it is one that bf16 can hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Element:
    """A number type: what a tile is made of."""

    name: str
    bits: int
    is_float: bool
    held: np.dtype[Any]  # in tiles
    stored: np.dtype[Any]  # in memory

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Pointer:
    """An address of elements; held as int64, in bytes."""

    pointee: Element

    def __str__(self) -> str:
        return f"ptr<{self.pointee}>"

    @property
    def bits(self) -> int:
        return 64

    @property
    def held(self) -> np.dtype[Any]:
        return np.dtype(np.int64)


@dataclass(frozen=True)
class Tile:
    """An array of a fixed shape; a scalar is a tile of rank 0."""

    shape: tuple[int, ...]
    element: Element | Pointer

    def __str__(self) -> str:
        return f"tile<{''.join(f'{extent}x' for extent in self.shape)}{self.element}>"

    @property
    def count(self) -> int:
        """How many elements it has."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class TensorView:
    """A strided tensor in memory; None stands for an extent or stride known only at run time. Strides in elements."""

    element: Element
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]

    def __str__(self) -> str:
        shape = "".join(f"{'?' if extent is None else extent}x" for extent in self.shape)
        strides = ",".join("?" if stride is None else str(stride) for stride in self.strides)
        return f"tensor_view<{shape}{self.element}, strides=[{strides}]>"


@dataclass(frozen=True)
class PartitionView:
    """A tensor view cut into tiles. Axis i of a tile lies along axis dim_map[i] of the tensor."""

    tile: tuple[int, ...]
    padding: str | None
    tensor: TensorView
    dim_map: tuple[int, ...]

    def __str__(self) -> str:
        padding = "" if self.padding is None else f", padding_value = {self.padding}"
        identity = self.dim_map == tuple(range(len(self.tile)))
        dims = "" if identity else f", dim_map=[{','.join(map(str, self.dim_map))}]"
        return f"partition_view<tile=({'x'.join(map(str, self.tile))}){padding}, {self.tensor}{dims}>"


@dataclass(frozen=True)
class Token:
    """The order of accesses to memory."""

    def __str__(self) -> str:
        return "token"


Type = Tile | TensorView | PartitionView | Token

_NUMBERS = (
    ("i1", 1, False, np.bool_, np.uint8),
    ("i8", 8, False, np.int8, np.int8),
    ("i16", 16, False, np.int16, np.int16),
    ("i32", 32, False, np.int32, np.int32),
    ("i64", 64, False, np.int64, np.int64),
    ("f16", 16, True, np.float16, np.float16),
    ("bf16", 16, True, np.float32, np.uint16),
    ("f32", 32, True, np.float32, np.float32),
    ("f64", 64, True, np.float64, np.float64),
)
ELEMENTS = {
    name: Element(name, bits, is_float, np.dtype(held), np.dtype(stored))
    for name, bits, is_float, held, stored in _NUMBERS
}
I1 = ELEMENTS["i1"]
PADDINGS = {"zero": 0.0, "neg_zero": -0.0, "nan": float("nan"), "pos_inf": float("inf"), "neg_inf": float("-inf")}
