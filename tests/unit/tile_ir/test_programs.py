"""Compiled programs, as the emitter prints them, against float64: products, attention, gathers, rows.

The texts in programs/ come from device code in Rust that this repository's tools were tried with; two of
them are there as tileirdisasm prints them too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tile_ir.errors import ExecutionError, TrapError
from tests.tile_ir.machine import run
from tests.tile_ir.memory import Memory
from tests.tile_ir.parser import parse
from tests.tile_ir.types import Array
from tests.unit.tile_ir.small import bf16

PROGRAMS = Path(__file__).parent / "programs"


def _text(name: str) -> str:
    return (PROGRAMS / f"{name}.mlir").read_text()


def _normal(seed: int, *shape: int) -> Array:
    values: Array = np.random.default_rng(seed).standard_normal(shape)
    return values


@pytest.mark.parametrize(("m", "n", "k"), [(16, 32, 8), (33, 40, 13), (1, 1, 1)])
def test_gemm(m: int, n: int, k: int) -> None:
    """Tiles of 16 x 32 x 8, so that all three extents have edges."""
    left, right = _normal(1, m, k).astype(np.float16), _normal(2, k, n).astype(np.float16)
    out, memory = np.full((m, n), np.nan, dtype=np.float32), Memory()
    left.setflags(write=False)
    right.setflags(write=False)
    pointers = [memory.allocate(array, name) for array, name in ((out, "out"), (left, "left"), (right, "right"))]
    run(_text("gemm"), "gemm_entry", (-(-m // 16), -(-n // 32), 1), [*pointers, m, n, k], memory)
    np.testing.assert_allclose(out, left.astype(np.float64) @ right.astype(np.float64), atol=1e-5)


def test_gemm_on_a_grid_that_is_too_large_traps() -> None:
    memory, numbers = Memory(), np.zeros(8 * 32, dtype=np.float32)
    pointers = [memory.allocate(numbers.copy(), name) for name in "abc"]
    with pytest.raises(TrapError, match=r"gemm_entry, block \(1, 0, 0\), line \d+, assert: partition access out of"):
        run(_text("gemm"), "gemm_entry", (2, 1, 1), [*pointers, 8, 32, 8], memory)


def _attention(query: Array, key: Array, value: Array) -> Array:
    """Causal attention in float64, aligned at the last query and key; all of shape batch, length, heads, dim."""
    groups = query.shape[2] // key.shape[2]
    query, key, value = (array.astype(np.float64) for array in (query, key, value))
    key, value = key.repeat(groups, axis=2), value.repeat(groups, axis=2)
    scores = np.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(query.shape[3])
    rows, columns = np.arange(query.shape[1])[:, None], np.arange(key.shape[1])
    scores = np.where(columns <= rows + key.shape[1] - query.shape[1], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Array = np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(axis=-1, keepdims=True), value)
    return result


@pytest.mark.parametrize("text", ["attention", "attention.disassembled"])
@pytest.mark.parametrize(("queries", "keys"), [(40, 57), (16, 16), (1, 33)])
def test_attention(text: str, queries: int, keys: int) -> None:
    """Tiles of 16 queries by 16 keys; head dim 32; 4 heads of queries over 2 of keys."""
    batch, heads, key_heads, dim = 2, 4, 2, 32
    query = _normal(1, batch, queries, heads, dim).astype(np.float16)
    key, value = (_normal(seed, batch, keys, key_heads, dim).astype(np.float16) for seed in (2, 3))
    out, lse, memory = np.full_like(query, np.nan), np.zeros(1, dtype=np.float32), Memory()
    named: dict[str, Array] = {"out": out, "lse": lse, "query": query, "key": key, "value": value}
    pointers = [memory.allocate(array, name) for name, array in named.items()]
    sizes = [batch, queries, keys, heads, key_heads]
    strides = [heads * dim, dim, key_heads * dim, dim, queries * heads * dim, keys * key_heads * dim]
    scale = float(np.log2(np.e) / np.sqrt(dim))
    run(
        parse(_text(text)), "fwd_entry", (-(-queries // 16), heads, batch), [*pointers, *sizes, *strides, scale], memory
    )
    np.testing.assert_allclose(out, _attention(query, key, value), atol=2e-3, rtol=2.5e-2)


def _gathered(source: Array, alpha: float) -> Array:
    """What gather.mlir computes for a block of 16, before it narrows it to bf16."""
    with np.errstate(divide="ignore"):
        value = np.tanh(source * alpha) + np.exp(source) - np.log(np.abs(source) + alpha)
    value = value * alpha + value
    value = value + np.sqrt(np.abs(value)) + 1 / np.sqrt(alpha)
    total = value + np.log2(alpha) + np.floor(value) + np.ceil(value) + np.sin(value) + np.cos(value) + value
    whole = np.trunc(total)
    picked = np.where(total > alpha, total + 1, np.abs(whole) + whole)
    sums: Array = np.cumsum(picked)
    return sums


def test_gather() -> None:
    """Loads and stores by pointers, in a loop of blocks of 16, by two tile blocks; bf16."""
    count, alpha = 80, 0.75
    source = np.round(_normal(4, count) * 16) / 16
    stored, out, memory = bf16(source), np.zeros(count, dtype=np.uint16), Memory()
    pointers = [memory.allocate(out, "out"), memory.allocate(stored, "source")]
    run(_text("gather"), "gather_entry", (2, 1, 1), [*pointers, count, alpha], memory)
    found = (out.astype(np.uint32) << 16).view(np.float32)
    sums = np.concatenate([_gathered(part, alpha) for part in source.reshape(-1, 16)])
    # Three roundings to bf16: of the sum, of its product, and of both together.
    assert (np.abs(found - sums * (source + 1)) <= 2.0**-8 * np.abs(sums) * (2 * np.abs(source) + 2)).all()


def test_gather_leaves_alone_what_the_mask_leaves_out() -> None:
    stored, out, memory = bf16(np.zeros(5)), np.full(5, 7, dtype=np.uint16), Memory()
    pointers = [memory.allocate(out, "out"), memory.allocate(stored, "source")]
    run(_text("gather"), "gather_entry", (1, 1, 1), [*pointers, 3, 0.75], memory)
    assert (out[:3] != 7).all()
    assert out[3:].tolist() == [7, 7]


@pytest.mark.parametrize(("rows", "columns"), [(8, 16), (13, 40), (1, 8)])
def test_rows(rows: int, columns: int) -> None:
    """The maximum of each row, through a view padded with -inf, and a sum and minimum through a turned view."""
    source = -np.abs(_normal(5, rows, columns)).astype(np.float16) - np.float16(1)
    out, memory = np.full(rows, np.nan, dtype=np.float32), Memory()
    pointers = [memory.allocate(out, "out"), memory.allocate(source, "source")]
    run(_text("rows"), "rows_entry", (-(-rows // 8), 1, 1), [*pointers, rows, columns], memory)
    wide = source.astype(np.float64)
    head = np.pad(wide[:, :16], ((0, 0), (0, max(16 - columns, 0))))  # the turned view pads with zeros
    np.testing.assert_allclose(out, wide.max(axis=1) + head.sum(axis=1) * head.min(axis=1), rtol=1e-5)


def test_rows_of_a_width_that_the_program_rules_out() -> None:
    memory = Memory()
    pointers = [memory.allocate(np.zeros(9, dtype=kind), str(kind)) for kind in (np.float32, np.float16)]
    with pytest.raises(ExecutionError, match=r"assume: assumes div_by\(8,\) of 9"):
        run(_text("rows"), "rows_entry", (1, 1, 1), [*pointers, 1, 9], memory)


@pytest.mark.parametrize("text", ["padded", "padded.disassembled"])
def test_padded(text: str) -> None:
    """A masked load with padding 1.5, doubled three times in a loop that breaks, times a part of a joined tile."""
    source, out, memory = np.arange(1, 4, dtype=np.float32), np.zeros(16, dtype=np.float32), Memory()
    pointers = [memory.allocate(out, "out"), memory.allocate(source, "source")]
    run(_text(text), "padded_entry", (1, 1, 1), [*pointers, 3], memory)
    assert out.tolist() == [16, 32, 48, *[24] * 13]
    with pytest.raises(TrapError, match='assert: no "rows"'):
        run(_text(text), "padded_entry", (1, 1, 1), [*pointers, 0], memory)
