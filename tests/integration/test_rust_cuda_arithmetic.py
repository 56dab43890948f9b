"""Tile programs: their arithmetic, really run, and the machine code that is made of them.

What the built host code launches is run on the Tile IR of the built images.

A stand-in for the driver records the launches, an interpreter runs them block by block in numpy, and the results match
PyTorch in float64.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import torch

from tests.integration.conftest import ROOT, Yard, needs_cargo, new_yard
from tests.integration.cuda import sass
from tests.integration.cuda.built import Built
from tests.integration.cuda.driver import Driver
from tests.integration.cuda.replay import Call, Replay, replay
from tests.integration.cuda.sass import Sass

pytestmark = needs_cargo

_VARIANT = "tvm-ffi01-cu130-x86_64-linux"
_CAPABILITIES = ("8.0", "9.0", "10.0", "12.0")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver.build(tmp_path_factory.mktemp("driver") / "driver")


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory, user_cache: Path) -> Yard:
    """A checkout for kernels of this repository."""
    made = new_yard(tmp_path_factory.mktemp("arithmetic") / "yard", user_cache)
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


# --- flash-attn2-rs ---


@dataclass(frozen=True, kw_only=True)
class _Attention:
    """A call of fwd; `slopes` says of which shape alibi's are, `layout` how q, k and v lie in memory."""

    dtype: torch.dtype = torch.float16
    dim: int = 64
    batch: int = 1
    queries: int = 70
    keys: int = 90
    heads: int = 2
    key_heads: int = 1
    causal: bool = False
    window: tuple[int, int] = (-1, -1)
    softcap: float = 0.0
    slopes: str = ""
    layout: str = "rows"
    scale: float | None = None

    def __str__(self) -> str:
        changed = [(field.name, getattr(self, field.name)) for field in fields(self)]
        told = [f"{name}={value}" for name, value in changed if value != getattr(_Attention, name)]
        return "-".join(told).replace("torch.", "").replace(" ", "") or "plain"

    def tensor(self, seed: int, length: int, heads: int) -> torch.Tensor:
        """`[batch, length, heads, dim]`."""
        generator = torch.Generator().manual_seed(seed)
        made = torch.randn(self.batch, length, heads, self.dim, generator=generator).to(self.dtype)
        if self.layout == "heads":
            return made.transpose(1, 2).contiguous().transpose(1, 2)
        if self.layout == "packed":
            packed = torch.stack([made] * 3, dim=2)
            return packed[:, :, 1]
        return made

    def call(self) -> Call:
        q = self.tensor(1, self.queries, self.heads)
        k, v = (self.tensor(seed, self.keys, self.key_heads) for seed in (2, 3))
        slopes = None
        if self.slopes:
            shape = (self.batch, self.heads) if self.slopes == "batch" else (self.heads,)
            slopes = torch.rand(shape, generator=torch.Generator().manual_seed(4)) / 8
        return Call("fwd", (q, k, v, slopes, self.scale, self.causal, *self.window, self.softcap))

    def expected(self, call: Call) -> tuple[torch.Tensor, torch.Tensor]:
        """`out` and `lse` in float64."""
        q, k, v = (each.double().transpose(1, 2) for each in call.arguments[:3])
        k, v = (each.repeat_interleave(self.heads // self.key_heads, dim=1) for each in (k, v))
        logits = q @ k.transpose(2, 3) * (self.dim**-0.5 if self.scale is None else self.scale)
        if self.softcap:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        distance = torch.arange(self.keys) - torch.arange(self.queries)[:, None] - (self.keys - self.queries)
        if self.slopes:
            logits = logits - call.arguments[3].double()[..., None, None] * distance.abs()
        left, right = self.window
        right = 0 if self.causal else right
        hidden = ((distance < -left) & (left >= 0)) | ((distance > right) & (right >= 0))
        logits = logits.masked_fill(hidden, -torch.inf)
        lse = logits.logsumexp(dim=-1)
        # As in the reference kernel, a query that sees no key gives 0, and an lse of infinity.
        blind = hidden.all(dim=-1).expand_as(lse)
        out = logits.softmax(dim=-1).masked_fill(blind[..., None], 0) @ v
        return out.transpose(1, 2), lse.masked_fill(blind, torch.inf)


_ATTENTION = [
    *(_Attention(dtype=dtype, causal=causal) for dtype in (torch.float16, torch.bfloat16) for causal in (False, True)),
    *(_Attention(dim=dim, causal=True) for dim in (8, 32, 40, 80, 96, 128, 136, 192, 256)),
    *(_Attention(dim=dim, dtype=torch.bfloat16, softcap=8.0) for dim in (32, 128, 256)),
    *(
        _Attention(queries=queries, keys=keys, causal=True)
        for queries, keys in ((1, 1), (1, 257), (129, 64), (200, 200))
    ),
    *(_Attention(queries=queries, keys=keys) for queries, keys in ((1, 129), (130, 1), (63, 65))),
    *(_Attention(window=window) for window in ((20, -1), (-1, 7), (16, 16), (0, 0))),
    _Attention(queries=150, keys=100, window=(10, -1), causal=True),
    _Attention(queries=150, keys=300, window=(70, 5), dtype=torch.bfloat16),
    _Attention(batch=2, heads=6, key_heads=2, causal=True),
    _Attention(batch=2, heads=4, key_heads=4, causal=True, queries=200, keys=200),
    *(_Attention(slopes=slopes, batch=2, causal=causal) for slopes in ("head", "batch") for causal in (False, True)),
    _Attention(slopes="batch", softcap=3.0, window=(30, 30), dtype=torch.bfloat16, batch=2, heads=4, key_heads=2),
    _Attention(softcap=2.0, causal=True),
    *(_Attention(layout=layout, batch=2, heads=4, key_heads=2, causal=True) for layout in ("heads", "packed")),
    *(_Attention(scale=scale, causal=True) for scale in (0.5, -0.25, 0.0)),
]


@pytest.fixture(scope="module")
def flash(yard: Yard) -> Built:
    return _built(yard, "flash-attn2-rs")


@pytest.fixture(scope="module")
def flash_replays(flash: Built, driver: Driver) -> dict[_Attention, Replay]:
    calls = [case.call() for case in _ATTENTION]
    return dict(zip(_ATTENTION, replay(driver, flash.library, flash.machine("9.0"), calls), strict=True))


def _check(case: _Attention, replayed: Replay, built: Built, capability: str) -> None:
    out, lse = replayed.run(lambda symbol: built.program(symbol, capability))
    expected, expected_lse = case.expected(replayed.call)
    assert out.dtype == case.dtype
    torch.testing.assert_close(out.double(), expected, atol=2e-3, rtol=2.5e-2)
    assert lse.dtype == torch.float32
    torch.testing.assert_close(lse.double(), expected_lse, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("case", _ATTENTION, ids=str)
def test_attention(flash: Built, flash_replays: dict[_Attention, Replay], case: _Attention) -> None:
    _check(case, flash_replays[case], flash, "9.0")


@pytest.mark.parametrize("capability", ["8.0", "10.0", "12.0"])
def test_attention_of_each_capability(flash: Built, driver: Driver, capability: str) -> None:
    """Sizes of tiles differ."""
    cases = [_Attention(dim=dim, queries=140, keys=150, causal=True) for dim in (32, 64, 128, 256)]
    cases.append(_Attention(slopes="head", softcap=4.0, window=(30, 10), dtype=torch.bfloat16))
    calls = [case.call() for case in cases]
    for case, replayed in zip(cases, replay(driver, flash.library, flash.machine(capability), calls), strict=True):
        _check(case, replayed, flash, capability)


# --- machine code ---

# The instructions of tensor cores that attention must consist of, by architecture.
_TENSOR_CORES = {"80": "HMMA", "90a": "HGMMA", "100a": "UTCHMMA", "120a": "HMMA"}


@pytest.fixture(scope="module")
def machine_code(yard: Yard, flash: Built) -> dict[str, list[Sass]]:
    """The entries of flash-attn2-rs, by architecture."""
    result = yard.doit("toolchain:nvdisasm")
    if "cannot be fetched" in result.out:
        pytest.skip(result.out)
    (nvdisasm,) = yard.cache.glob("toolchains/nvdisasm-*/bin/nvdisasm")
    found: dict[str, list[Sass]] = {arch: [] for arch in _TENSOR_CORES}
    for cubin in (flash.images / "cubins").glob("*.cubin"):
        found[cubin.name.partition(".sm_")[2].removesuffix(".cubin")].append(sass.read(nvdisasm, cubin))
    return found


@pytest.mark.parametrize("arch", _TENSOR_CORES)
def test_the_main_loop_is_on_tensor_cores_and_spills_nothing(machine_code: dict[str, list[Sass]], arch: str) -> None:
    assert len(machine_code[arch]) == 16
    for entry in machine_code[arch]:
        # In the order of the code: tiles that all rows see whole, tiles that need a mask, and then paths to traps.
        main, masked, *_ = entry.main_loops(_TENSOR_CORES[arch])
        assert len(main) < len(masked) or arch == "100a", entry.symbol
        spilled = sum(code.startswith(("LDL", "STL")) for code in main)
        # 8.0 has too few registers for a head of 256, and 8.6 too little shared memory for other tiles.
        assert spilled <= (16 if arch == "80" and "_256_" in entry.symbol else 0), entry.symbol
