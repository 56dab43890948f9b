"""Control flow, launches and their arguments."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.tile_ir.errors import ExecutionError
from tests.tile_ir.machine import run
from tests.tile_ir.memory import Memory
from tests.tile_ir.types import Array
from tests.unit.tile_ir.small import compute

ADD = "%z = addi %x, %i : tile<i32>"


@pytest.mark.parametrize(("low", "high", "step", "total"), [(0, 4, 1, 6), (1, 8, 3, 12), (3, 3, 1, 0), (5, 2, 1, 0)])
def test_a_counted_loop(low: int, high: int, step: int, total: int) -> None:
    text = f"""
    %zero = constant <i32: 0> : tile<i32>
    %r, %other = for %i in (%a to %b, step %c) : tile<i32> iter_values(%x = %zero, %y = %c) -> (tile<i32>, tile<i32>) {{
      {ADD}
      continue %z, %y : tile<i32>, tile<i32>
    }}"""
    found = compute(text, "tile<i32>", a=("tile<i32>", low), b=("tile<i32>", high), c=("tile<i32>", step))
    assert found == total


def test_a_counted_loop_that_does_not_count() -> None:
    text = """
    %r = for %i in (%a to %a, step %a) : tile<i32> iter_values(%x = %a) -> (tile<i32>) {
      continue %x : tile<i32>
    }"""
    with pytest.raises(ExecutionError, match="a loop's step is 0"):
        compute(text, "tile<i32>", a=("tile<i32>", 0))


LOOP = """
%one = constant <i32: 1> : tile<i32>
%r = cuda_tile.loop iter_values(%x = %a) : tile<i32> -> tile<i32> {
  %large = cmpi greater_than %x, %limit, signed : tile<i32> -> tile<i1>
  if %large {
    break %x : tile<i32>
  }
  %z = addi %x, %x : tile<i32>
  continue %z : tile<i32>
}"""


def test_a_loop_that_is_left_from_a_branch() -> None:
    assert compute(LOOP, "tile<i32>", a=("tile<i32>", 3), limit=("tile<i32>", 20)) == 24


def test_a_loop_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.tile_ir.machine._MOST_ROUNDS", 10)
    with pytest.raises(ExecutionError, match="no end after 10 rounds of a loop"):
        compute(LOOP, "tile<i32>", a=("tile<i32>", 0), limit=("tile<i32>", 20))


@pytest.mark.parametrize(("condition", "expected"), [(1, [3, 4]), (0, [4, 3])])
def test_branches(condition: int, expected: list[int]) -> None:
    text = """
    %x, %y = if %c -> (tile<i32>, tile<i32>) {
      yield %a, %b : tile<i32>, tile<i32>
    } else {
      yield %b, %a : tile<i32>, tile<i32>
    }
    %x1 = reshape %x : tile<i32> -> tile<1xi32>
    %y1 = reshape %y : tile<i32> -> tile<1xi32>
    %r = cat %x1, %y1 dim = 0 : tile<1xi32>, tile<1xi32> -> tile<2xi32>"""
    found = compute(text, "tile<2xi32>", a=("tile<i32>", 3), b=("tile<i32>", 4), c=("tile<i1>", condition))
    assert found.tolist() == expected


MARK = """
entry @mark(%out: tile<ptr<i32>>, %limit: tile<i32>, %scale: tile<f32>, %many: tile<i64>, %half: tile<f16>) {
  %x, %y, %z = get_tile_block_id : tile<i32>
  %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
  %stop = cmpi greater_than_or_equal %x, %limit, signed : tile<i32> -> tile<i1>
  if %stop {
    return
  }
  %zy = muli %z, %ny : tile<i32>
  %row = addi %zy, %y : tile<i32>
  %rowx = muli %row, %nx : tile<i32>
  %at = addi %rowx, %x : tile<i32>
  %p = offset %out, %at : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %s = ftoi %scale signed : tile<f32> -> tile<i32>
  %m = trunci %many : tile<i64> -> tile<i32>
  %h = ftoi %half signed : tile<f16> -> tile<i32>
  %sm = addi %s, %m : tile<i32>
  %smh = addi %sm, %h : tile<i32>
  %value = addi %smh, %at : tile<i32>
  %t = store_ptr_tko weak %p, %value : tile<ptr<i32>>, tile<i32> -> token
  %u = make_token : token
  %v = join_tokens %t, %u : token
  return
}"""


def _marked(arguments: object) -> Array:
    out, memory = np.full((2, 3, 4), -1, dtype=np.int32), Memory()
    address = memory.allocate(out, "out")
    run(MARK, "mark", (4, 3, 2), arguments(address), memory)  # type: ignore[operator]
    return out


def test_a_grid_of_blocks_and_a_return_from_a_branch() -> None:
    expected = np.arange(24).reshape(2, 3, 4) + 1000
    expected[:, :, 3] = -1
    numbers = _marked(lambda address: [address, 3, 100.0, 1 << 32 | 800, 100.5])
    assert (numbers == expected).all()
    # i32 and f32 after the pointer, i64 at the next multiple of 8, f16 right behind it.
    packed = _marked(lambda address: struct.pack("<Qifqe", address, 3, 100.0, 1 << 32 | 800, 100.5))
    assert (packed == expected).all()
    parts = _marked(
        lambda address: [struct.pack("<Q", address), 3, struct.pack("<f", 100), 800, struct.pack("<e", 100)]
    )
    assert (parts == expected).all()


@pytest.mark.parametrize(
    ("symbol", "grid", "arguments", "message"),
    [
        ("mork", (1, 1, 1), [], "no entry 'mork'; there are mark"),
        ("mark", (1, 0, 1), [], r"a grid of \(1, 0, 1\)"),
        ("mark", (1, 1, 1), [1], "mark has 5 parameters, and not 1"),
        ("mark", (1, 1, 1), b"12345678", "the parameters of mark take 26 bytes, and not 8"),
        ("mark", (1, 1, 1), [b"1", 1, 1, 1, 1], r"a ptr<i32> takes 8 bytes, and not 1"),
        ("mark", (1, 1, 1), [0, 1 << 31, 1, 1, 1], "2147483648 is no i32"),
        ("mark", (1, 1, 1), [0, 1.5, 1, 1, 1], r"1.5 is no i32"),
    ],
)
def test_launches_that_do_not_fit(symbol: str, grid: tuple[int, int, int], arguments: list[int], message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        run(MARK, symbol, grid, arguments, Memory())
