"""Accesses to memory: views and their edges, masks, and what no access may do."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tile_ir.errors import ExecutionError
from tests.tile_ir.machine import run
from tests.tile_ir.memory import Memory, Token
from tests.tile_ir.types import ELEMENTS, Array

F32 = ELEMENTS["f32"]
NONE = Token()
VIEW = "tensor_view<?x?xf32, strides=[?,1]>"
WHOLE = "tensor_view<4x4xf32, strides=[4,1]>"


def _copy(source: Array, index: tuple[int, int], padding: str, dim_map: str = "") -> Array:
    """The 2 x 4 tile at an index of a view of `source`, loaded, and stored to a tensor that it fills."""
    view = f"partition_view<tile=(2x4){padding}, {VIEW}{dim_map}>"
    target = "partition_view<tile=(2x4), tensor_view<2x4xf32, strides=[4,1]>>"
    text = f"""
    cuda_tile.module @module {{
      entry @copy_entry(%out: tile<ptr<f32>>, %in: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>, %s: tile<i32>) {{
        %i = constant <i32: {index[0]}> : tile<i32>
        %j = constant <i32: {index[1]}> : tile<i32>
        %zero = constant <i32: 0> : tile<i32>
        %t = make_token : token
        %v = make_tensor_view %in, shape = [%n, %m], strides = [%s, 1] : tile<i32> -> {VIEW}
        %p = make_partition_view %v : {view}
        %a, %u = load_view_tko weak %p[%i, %j] token = %t : {view}, tile<i32> -> tile<2x4xf32>, token
        %w = make_tensor_view %out, shape = [2, 4], strides = [4, 1] : tensor_view<2x4xf32, strides=[4,1]>
        %q = make_partition_view %w : {target}
        %x = store_view_tko weak %a, %q[%zero, %zero] token = %u : tile<2x4xf32>, {target}, tile<i32> -> token
        return
      }}
    }}"""
    out, memory = np.zeros((2, 4), dtype=np.float32), Memory()
    pointers = [memory.allocate(out, "out"), memory.allocate(source, "in")]
    run(text, "copy_entry", (1, 1, 1), [*pointers, *source.shape, source.shape[1]], memory)
    return out


def _rows(rows: int, columns: int) -> Array:
    return np.arange(1, rows * columns + 1, dtype=np.float32).reshape(rows, columns)


def test_a_tile_inside() -> None:
    assert _copy(_rows(4, 8), (1, 1), "").tolist() == [[21, 22, 23, 24], [29, 30, 31, 32]]


@pytest.mark.parametrize(
    ("name", "value"), [("zero", 0), ("neg_zero", -0.0), ("nan", np.nan), ("pos_inf", np.inf), ("neg_inf", -np.inf)]
)
def test_a_tile_at_the_edge_is_padded(name: str, value: float) -> None:
    found = _copy(_rows(3, 6), (1, 1), f", padding_value = {name}")
    np.testing.assert_array_equal(found, [[17, 18, value, value], [value] * 4])
    assert np.signbit(found[1, 1]) == np.signbit(value)


@pytest.mark.parametrize("index", [(2, 0), (0, 2), (-1, 0), (0, -1)])
def test_a_tile_outside_is_all_padding(index: tuple[int, int]) -> None:
    assert (_copy(_rows(3, 6), index, ", padding_value = neg_inf") == -np.inf).all()


def test_a_tile_at_the_edge_of_a_view_without_padding_has_any_value_there() -> None:
    np.testing.assert_array_equal(_copy(_rows(3, 6), (1, 1), ""), [[17, 18, np.nan, np.nan], [np.nan] * 4])


def test_a_tile_outside_of_a_view_without_padding_is_undefined() -> None:
    with pytest.raises(ExecutionError, match=r"load_view_tko: loads tile \[2, 0\], all of which is outside of Tensor"):
        _copy(_rows(3, 6), (2, 0), "")


def test_the_axes_of_a_tile_lie_along_those_of_the_tensor_that_the_view_says() -> None:
    """Tile (1, 0) of 2 x 4 along axes 1 and 0: columns 2 and 3 of the rows 0 to 3, of which the tensor has 3."""
    found = _copy(_rows(3, 6), (1, 0), ", padding_value = zero", ", dim_map=[1,0]")
    assert found.tolist() == [[3, 9, 15, 0], [4, 10, 16, 0]]


def test_a_view_beyond_its_buffer_is_out_of_bounds() -> None:
    source = _rows(4, 8)
    memory = Memory()
    address = memory.allocate(source, "in")
    with pytest.raises(ExecutionError, match=r"^reads a f32 at 0x7f0000000080, out of bounds: 0 bytes past in \(128 "):
        memory.load(F32, np.asarray(address + 128), NONE)


STORE = f"""
entry @store(%out: tile<ptr<f32>>, %i: tile<i32>) {{
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <f32: 1.0> : tile<4x2xf32>
  %v = make_tensor_view %out, shape = [3, 3], strides = [3, 1] : tensor_view<3x3xf32, strides=[3,1]>
  %p = make_partition_view %v : partition_view<tile=(4x2), tensor_view<3x3xf32, strides=[3,1]>>
  %n, %m = get_index_space_shape %p : partition_view<tile=(4x2), tensor_view<3x3xf32, strides=[3,1]>> -> tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %right = cmpi equal %m, %two, signed : tile<i32> -> tile<i1>
  assert %right, "three columns are two tiles" : tile<i1>
  %a, %b = get_tensor_shape %v : tensor_view<3x3xf32, strides=[3,1]> -> tile<i32>
  %sum = addi %a, %b : tile<i32>
  %six = constant <i32: 6> : tile<i32>
  %same = cmpi equal %sum, %six, signed : tile<i32> -> tile<i1>
  assert %same, "three rows and three columns" : tile<i1>
  %t = store_view_tko weak %one, %p[%zero, %i] : tile<4x2xf32>, {"partition_view<tile=(4x2), tensor_view<3x3xf32, strides=[3,1]>>"}, tile<i32> -> token
  return
}}
"""  # noqa: E501


def test_what_a_store_has_outside_is_dropped() -> None:
    out, memory = np.zeros((3, 3), dtype=np.float32), Memory()
    address = memory.allocate(out, "out")
    run(STORE, "store", (1, 1, 1), [address, 1], memory)
    assert out.tolist() == [[0, 0, 1]] * 3
    with pytest.raises(ExecutionError, match=r"stores tile \[0, 2\], all of which is outside of Tensor"):
        run(STORE, "store", (1, 1, 1), [address, 2], memory)


def test_a_store_by_two_blocks_to_one_place_is_an_error() -> None:
    memory = Memory()
    address = memory.allocate(np.zeros((3, 3), dtype=np.float32), "out")
    with pytest.raises(ExecutionError, match=r"writes what another block of this launch has written in out \(36 bytes"):
        run(STORE, "store", (2, 1, 1), [address, 1], memory)
    run(STORE, "store", (1, 1, 1), [address, 1], memory)


def test_what_another_block_has_written_may_not_be_read_before_the_next_launch() -> None:
    memory = Memory()
    places = np.asarray(memory.allocate(np.zeros(4, dtype=np.float32), "out")) + np.arange(4) * 4
    memory.launch()
    memory.next_block()
    token = memory.store(F32, places, np.arange(4, dtype=np.float32), NONE)
    assert memory.load(F32, places, token).tolist() == [0, 1, 2, 3]
    memory.next_block()
    with pytest.raises(ExecutionError, match="reads what another block of this launch has written in out"):
        memory.load(F32, places[:1], token)
    memory.launch()
    memory.next_block()
    assert memory.load(F32, places, NONE).tolist() == [0, 1, 2, 3]


def _twice(token: str, second: str) -> None:
    """A store of 1.0, and a second access by the token."""
    text = f"""
    entry @twice(%p: tile<ptr<f32>>) {{
      %one = constant <f32: 1.0> : tile<f32>
      %new = make_token : token
      %stored = store_ptr_tko weak %p, %one : tile<ptr<f32>>, tile<f32> -> token
      %joined = join_tokens %new, %stored : token
      %v, %loaded = load_ptr_tko weak %p token=%joined : tile<ptr<f32>> -> tile<f32>, token
      {second.format(token=token)}
      return
    }}"""
    memory = Memory()
    run(text, "twice", (1, 1, 1), [memory.allocate(np.zeros(1, dtype=np.float32), "out")], memory)


@pytest.mark.parametrize(
    "second",
    [
        "%w, %last = load_ptr_tko weak %p {token} : tile<ptr<f32>> -> tile<f32>, token",
        "%last = store_ptr_tko weak %p, %one {token} : tile<ptr<f32>>, tile<f32> -> token",
    ],
)
def test_accesses_to_one_place_are_ordered_by_tokens(second: str) -> None:
    for token in ("token=%stored", "token=%joined", "token=%loaded"):
        _twice(token, second)
    for token in ("", "token=%new"):
        with pytest.raises(ExecutionError, match=r"what this block has written in out .*, and no token says in which"):
            _twice(token, second)


def test_what_numpy_may_not_write_to_a_program_may_not_either() -> None:
    array, memory = np.zeros(4, dtype=np.float32), Memory()
    array.setflags(write=False)
    address = memory.allocate(array, "weights")
    with pytest.raises(
        ExecutionError, match=r"writes to weights \(16 bytes at 0x7f0000000000\), which may only be read"
    ):
        memory.store(F32, np.asarray([address]), np.ones(1, dtype=np.float32), NONE)


def test_two_lanes_that_write_to_one_place_are_an_error() -> None:
    memory = Memory()
    address = memory.allocate(np.zeros(4, dtype=np.float32), "out")
    with pytest.raises(ExecutionError, match="two lanes of one store write to the same place"):
        memory.store(F32, np.asarray([address, address]), np.ones(2, dtype=np.float32), NONE)


def test_addresses_that_are_not_aligned_or_in_no_buffer() -> None:
    memory = Memory()
    with pytest.raises(ExecutionError, match="reads a f32 at 0x8, out of bounds: no buffer is below it"):
        memory.load(F32, np.asarray([8]), NONE)
    address = memory.allocate(np.zeros(4, dtype=np.float32), "out")
    with pytest.raises(ExecutionError, match="which is not aligned to 4 bytes"):
        memory.load(F32, np.asarray([address + 2]), NONE)
    with pytest.raises(ExecutionError, match=r"writes a f32 at 0x7f0000000010, out of bounds: 0 bytes past out"):
        memory.store(F32, np.asarray([address + 16]), np.ones(1, dtype=np.float32), NONE)


def test_one_access_may_span_buffers() -> None:
    memory = Memory()
    first = memory.allocate(np.asarray([1, 2], dtype=np.float32), "first")
    second = memory.allocate(np.asarray([3], dtype=np.float32), "second")
    assert memory.load(F32, np.asarray([[second, first + 4]]), NONE).tolist() == [[3, 2]]


def test_buffers_at_given_addresses() -> None:
    memory, array = Memory(), np.asarray([1, 2], dtype=np.float32)
    memory.map(0x1000, array, "one")
    assert memory.load(F32, np.asarray(0x1004), NONE) == 2
    with pytest.raises(ValueError, match=r"two \(8 bytes at 0x1004\) overlaps one"):
        memory.map(0x1004, array, "two")
    with pytest.raises(ValueError, match=r"zero \(8 bytes at 0xffc\) overlaps one"):
        memory.map(0xFFC, array, "zero")
    with pytest.raises(ValueError, match="turned is not contiguous"):
        memory.map(0x2000, np.zeros((2, 3), dtype=np.float32).T, "turned")


def test_narrow_numbers_in_memory() -> None:
    memory = Memory()
    address = memory.allocate(np.asarray([0x3FC0, 0xC000], dtype=np.uint16), "bf16")
    loaded = memory.load(ELEMENTS["bf16"], np.asarray([address, address + 2]), NONE)
    assert loaded.dtype == np.dtype(np.float32)
    assert loaded.tolist() == [1.5, -2]
    token = memory.store(ELEMENTS["bf16"], np.asarray([address]), np.asarray([-2], dtype=np.float32), NONE)
    assert memory.load(ELEMENTS["i16"], np.asarray([address]), token).tolist() == [-0x4000]
