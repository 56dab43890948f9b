"""Splitting rows for machines that build side by side. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from buildlib.config.model import Component, CppCuda, RustCpu, RustCuda, TorchNoarch
from buildlib.inputs import is_compiled
from buildlib.plan import BuildSpec
from buildlib.rows import Row, Status
from buildlib.variant import TorchStableAbiVariant, TvmFfiVariant

# CPU seconds to compile one C++ source, and one CUDA source for one capability, by how much of the framework's headers
# it includes. Measured with gcc 12 and nvcc 13; only their proportions matter.
_FULL_TORCH, _FULL_TORCH_CUDA = 29.0, 125.0
_STABLE_ABI, _STABLE_ABI_CUDA = 2.0, 13.0
_TVM_FFI, _TVM_FFI_CUDA = 3.0, 14.0
_CRATE = 20.0
# What a row costs beside its compilers: configuring, linking, checking.
_EVERY_ROW = 2.0
# A row that cannot be planned has a task too, the one that says why.
_BUILT = frozenset({Status.BUILD, Status.ERROR})
# Halvings of the interval that the capacity of a shard is searched in: to a millionth of it.
_HALVINGS = 20


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a CI matrix: the number of a shard, how many rows it has, and what they cost in seconds."""

    shard: int
    rows: int
    cost: float


class Shards(msgspec.Struct, frozen=True, kw_only=True):
    """What a CI matrix takes."""

    include: tuple[Shard, ...]


def estimate(spec: BuildSpec, seconds: Mapping[str, float]) -> float:
    """The cost of a row in seconds: what it took before, else sources × capabilities × the weight of their headers."""
    if spec.name in seconds:
        return round(seconds[spec.name] + _EVERY_ROW, 2)
    if spec.toolchain is None:
        return _EVERY_ROW
    cpp, cuda = _weights(spec)
    framework = spec.kernel.framework
    own = () if isinstance(framework, TorchNoarch) else framework.src
    total = _EVERY_ROW + cpp * _units(own, ".cu", holds=False)
    for component in spec.components:
        if isinstance(component, RustCpu | RustCuda):
            total += _CRATE
        else:
            total += cpp * _units(component.src, ".cu", holds=False)
            total += cuda * _units(component.src, ".cu", holds=True) * _capabilities(component)
    return round(total, 2)


def split(rows: Iterable[Row], costs: Mapping[str, float], count: int) -> list[Row]:
    """The rows, those that are to be built with their shards, from 1 to at most `count`, none of which is empty.

    Rows are put in a line, those of one toolchain beside each other, and the line is cut where the most expensive piece
    is cheapest. So a shard sets up few toolchains, and the same rows and costs give the same shards.
    """
    given = list(rows)
    line = sorted(
        (row for row in given if row.status in _BUILT), key=lambda row: (row.parts.get("toolchain", ""), row.name)
    )
    rest = [row for row in given if row.status not in _BUILT]
    prices = [costs.get(row.name, _EVERY_ROW) for row in line]
    if not line:
        return rest
    low, high = max(prices), sum(prices)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if max(_cut(prices, middle)) <= count else (middle, high)
    cut = zip(line, _cut(prices, high), prices, strict=True)
    return [*(msgspec.structs.replace(row, shard=shard, cost=price) for row, shard, price in cut), *rest]


def summary(rows: Sequence[Row]) -> Shards:
    """What a CI matrix takes of rows that were split."""
    costs: dict[int, list[float]] = {}
    for row in rows:
        if row.shard is not None:
            costs.setdefault(row.shard, []).append(row.cost or 0.0)
    return Shards(
        include=tuple(
            Shard(shard=shard, rows=len(each), cost=round(sum(each), 1)) for shard, each in sorted(costs.items())
        )
    )


def _cut(prices: Sequence[float], capacity: float) -> list[int]:
    """The shard of each price, in a line that is cut wherever a shard would cost more than `capacity`."""
    return list(_cuts(prices, capacity))


def _cuts(prices: Sequence[float], capacity: float) -> Iterator[int]:
    shard, filled = 1, 0.0
    for price in prices:
        if filled and filled + price > capacity:
            shard, filled = shard + 1, 0.0
        filled += price
        yield shard


def _weights(spec: BuildSpec) -> tuple[float, float]:
    match spec.variant:
        case TvmFfiVariant():
            return _TVM_FFI, _TVM_FFI_CUDA
        case TorchStableAbiVariant():
            return _STABLE_ABI, _STABLE_ABI_CUDA
        case _:
            return _FULL_TORCH, _FULL_TORCH_CUDA


def _units(paths: Iterable[str], suffix: str, *, holds: bool) -> int:
    """How many of the paths are compiled, and have the suffix, or have it not."""
    return sum(is_compiled(path) and path.endswith(suffix) is holds for path in dict.fromkeys(paths))


def _capabilities(component: Component) -> int:
    return max(1, len(component.cuda_capabilities)) if isinstance(component, CppCuda) else 1
