"""How rows are split for machines that build side by side."""

from __future__ import annotations

import random
from typing import Any

import pytest

from buildlib import shards
from buildlib.config.model import Torch
from buildlib.rows import Row, Status
from buildlib.shards import Shard, Shards
from buildlib.variant import Backend, Version

from .factories import compiled, cpu, kernel, noarch, spec, tvm_ffi


def _row(name: str, toolchain: str = "gcc", **more: Any) -> Row:
    fields: dict[str, Any] = {"backend": "cpu", "framework": "torch", "reason": None, "digest": "d"}
    return Row(
        **{
            "kernel": name,
            "variant": "torch-cpu",
            "status": Status.BUILD,
            "parts": {"toolchain": toolchain},
            **fields,
            **more,
        }
    )


def _named(*rows: Row, **costs: float) -> dict[str, float]:
    return {row.name: costs.get(row.kernel, 1.0) for row in rows}


def _shards(rows: list[Row], count: int, **costs: float) -> list[set[str]]:
    split = shards.split(rows, _named(*rows, **costs), count)
    numbers = sorted({row.shard for row in split if row.shard is not None})
    assert numbers == list(range(1, len(numbers) + 1))
    return [{row.kernel for row in split if row.shard == number} for number in numbers]


def test_no_rows_no_shards() -> None:
    assert shards.split([], {}, 3) == []
    assert shards.summary([]) == Shards(include=())


def test_more_shards_than_rows() -> None:
    assert _shards([_row("a"), _row("b")], 9) == [{"a"}, {"b"}]


def test_one_shard_has_all() -> None:
    assert _shards([_row("a"), _row("b"), _row("c")], 1) == [{"a", "b", "c"}]


def test_an_expensive_row_stands_alone() -> None:
    assert _shards([_row("a"), _row("b"), _row("c"), _row("d")], 2, a=30.0) == [{"a"}, {"b", "c", "d"}]


def test_rows_of_one_toolchain_stay_together() -> None:
    rows = [_row("a", "gcc"), _row("b", "nvcc"), _row("c", "gcc"), _row("d", "nvcc")]
    assert _shards(rows, 2) == [{"a", "c"}, {"b", "d"}]


def test_what_cannot_be_planned_is_in_a_shard_and_what_is_gone_is_in_none() -> None:
    rows = [
        _row("a"),
        _row("b", variant=None, backend=None, status=Status.ERROR, parts={}),
        _row("c", status=Status.DELETED, parts={}),
        _row("d", status=Status.SKIP, parts={}),
    ]
    assert {row.kernel: row.shard for row in shards.split(rows, {}, 1)} == {"a": 1, "b": 1, "c": None, "d": None}


@pytest.mark.parametrize("seed", range(20))
def test_each_row_is_in_one_shard_and_no_order_changes_which(seed: int) -> None:
    chance = random.Random(seed)
    rows = [_row(f"k{number}", chance.choice(["gcc", "nvcc", "rustc"])) for number in range(chance.randint(1, 60))]
    costs = {row.name: chance.uniform(0.1, 50) for row in rows}
    count = chance.randint(1, 12)
    split = shards.split(rows, costs, count)
    assert sorted(row.name for row in split) == sorted(row.name for row in rows)
    assert {row.shard for row in split} <= set(range(1, count + 1))
    shuffled = chance.sample(rows, len(rows))
    assert shards.split(shuffled, costs, count) == split
    # The line is cut where no shard costs more than the mean and one more row.
    loads = [shard.cost for shard in shards.summary(split).include]
    assert max(loads) <= sum(costs.values()) / count + max(costs.values()) + 0.1


def test_summary_counts_rows_and_adds_costs() -> None:
    rows = [_row("a"), _row("b"), _row("c", status=Status.DELETED)]
    split = shards.split(rows, _named(*rows, a=2.0, b=3.25), 1)
    assert shards.summary(split) == Shards(include=(Shard(shard=1, rows=2, cost=5.2),))


def test_a_build_costs_what_it_took_before() -> None:
    made = spec(kernel())
    assert shards.estimate(made, {made.name: 100.0}) > shards.estimate(made, {made.name: 50.0}) > 50.0


def test_full_torch_costs_most_and_a_package_alone_least() -> None:
    stable = kernel(Torch(src=("torch-ext/binding.cpp",), stable_abi={Backend.CPU: Version(2, 11)}))
    costs = [shards.estimate(each, {}) for each in (spec(kernel()), spec(stable), spec(tvm_ffi()), spec(noarch()))]
    full, abi, ffi, package = costs
    assert full > ffi > package
    assert full > abi > package


def test_sources_count_and_headers_do_not() -> None:
    few = compiled(kernel(None, cpu("a.cpp", "a.h", "b.hpp")))
    many = compiled(kernel(None, cpu("a.cpp", "b.cpp", "c.cc")))
    assert shards.estimate(many, {}) - shards.estimate(few, {}) == 2 * (shards.estimate(few, {}) - 2.0) / 2
