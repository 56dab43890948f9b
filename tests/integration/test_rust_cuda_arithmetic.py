"""The arithmetic of tile programs, really run: what the built host code launches, on the Tile IR of the built images.

A stand-in for the driver records the launches, an interpreter runs them block by block in numpy, and the results match
PyTorch in float64.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from tests.integration.conftest import ROOT, Yard, needs_cargo, new_yard
from tests.integration.cuda.built import Built
from tests.integration.cuda.driver import Driver
from tests.integration.cuda.replay import Call, Replay, replay

pytestmark = needs_cargo

_VARIANT = "tvm-ffi01-cu130-x86_64-linux"
_CAPABILITIES = ("8.0", "9.0", "10.0", "12.0")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver.build(tmp_path_factory.mktemp("driver") / "driver")


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Yard:
    """A checkout for kernels of this repository."""
    made = new_yard(tmp_path_factory.mktemp("arithmetic") / "yard", cache)
    shutil.copytree(ROOT / "kernels" / "_rust", made.root / "kernels" / "_rust")
    shutil.copy(ROOT / "Cargo.lock", made.root)
    return made


def _built(yard: Yard, kernel: str) -> Built:
    """Build a kernel; the test is skipped where its toolchain cannot be had."""
    shutil.copytree(ROOT / "kernels" / kernel, yard.root / "kernels" / kernel)
    result = yard.doit(f"build:{kernel}:{_VARIANT}")
    if "skipped" in result.out:
        pytest.skip(result.out)
    assert result.status == 0, result.out
    return Built.of(yard, kernel)


# --- silu-and-mul-rs ---


def _view(rows: int, width: int, *, stride: int, offset: int, dtype: torch.dtype) -> torch.Tensor:
    """A matrix of random numbers with gaps between its rows, of which the rows are contiguous."""
    memory = torch.randn(offset + rows * stride, generator=torch.Generator().manual_seed(width)).to(dtype)
    return memory.as_strided((rows, width), (stride, 1), offset)


@dataclass(frozen=True)
class _Silu:
    """A call of silu_and_mul; `out` is one half of x (0 or 1) or, if None, a tensor of its own."""

    dtype: torch.dtype
    rows: int
    size: int
    gap: int = 0
    offset: int = 0
    out: int | None = None

    def __str__(self) -> str:
        where = "" if self.out is None else f"-half{self.out}"
        return f"{self.dtype}-{self.rows}x{self.size}-gap{self.gap}-offset{self.offset}{where}".removeprefix("torch.")

    def call(self) -> Call:
        width = 2 * self.size
        x = _view(self.rows, width, stride=width + self.gap, offset=self.offset, dtype=self.dtype)
        if self.out is None:
            out = _view(self.rows, self.size, stride=self.size + self.gap, offset=self.offset, dtype=self.dtype)
        else:
            out = x[:, self.out * self.size :][:, : self.size]
        return Call("silu_and_mul", (out, x), written=(0,))


_SILU = [
    *(_Silu(dtype, 3, size) for dtype in _DTYPES for size in (1, 7, 8, 33, 64, 1024, 2049, 4104)),
    *(_Silu(dtype, 5, 40, gap=8, offset=16) for dtype in _DTYPES),
    *(_Silu(dtype, 5, 40, gap=3, offset=1) for dtype in _DTYPES),
    *(_Silu(torch.float16, 4, 2056, gap=8, out=half) for half in (0, 1)),
    _Silu(torch.bfloat16, 1, 5, gap=2, out=1),
]


@pytest.fixture(scope="module")
def silu(yard: Yard) -> Built:
    return _built(yard, "silu-and-mul-rs")


@pytest.fixture(scope="module")
def silu_replays(silu: Built, driver: Driver) -> dict[_Silu, Replay]:
    calls = [case.call() for case in _SILU]
    return dict(zip(_SILU, replay(driver, silu.library, silu.machine("9.0"), calls), strict=True))


def _silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.double().tensor_split(2, dim=-1)
    return gate * torch.sigmoid(gate) * up


@pytest.mark.parametrize("case", _SILU, ids=str)
def test_silu_and_mul(silu: Built, silu_replays: dict[_Silu, Replay], case: _Silu) -> None:
    replayed = silu_replays[case]
    out, x = replayed.call.arguments
    expected, before = _silu_and_mul(x), x.clone()
    # Memory outside of the result keeps its content.
    around = torch.empty(0, dtype=out.dtype).set_(out.untyped_storage())
    wanted = around.clone()
    replayed.run(lambda symbol: silu.program(symbol, "9.0"))
    eps = torch.finfo(case.dtype).eps
    torch.testing.assert_close(out.double(), expected, rtol=eps / 2 + 2**-20, atol=eps * 2**-10)
    wanted.as_strided(out.shape, out.stride(), out.storage_offset()).copy_(out)
    assert torch.equal(around, wanted)
    if case.out is None:
        assert torch.equal(x, before)


@pytest.mark.parametrize("capability", _CAPABILITIES)
def test_silu_and_mul_of_each_capability(silu: Built, driver: Driver, capability: str) -> None:
    case = _Silu(torch.float16, 2, 2056)
    (replayed,) = replay(driver, silu.library, silu.machine(capability), [case.call()])
    out, x = replayed.call.arguments
    replayed.run(lambda symbol: silu.program(symbol, capability))
    torch.testing.assert_close(out.double(), _silu_and_mul(x), rtol=2**-10, atol=2**-20)


def test_what_the_emitter_prints_is_what_the_bytecode_holds(silu: Built, driver: Driver) -> None:
    (replayed,) = replay(driver, silu.library, silu.machine("9.0"), [_Silu(torch.bfloat16, 3, 1000, gap=1).call()])
    out, _ = replayed.call.arguments
    replayed.run(lambda symbol: silu.program(symbol, "9.0"))
    before = out.clone()
    out.zero_()
    replayed.run(lambda symbol: silu.emitted(symbol, "9.0"))
    assert torch.equal(out, before)
