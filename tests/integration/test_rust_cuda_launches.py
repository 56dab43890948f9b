"""What the built host code of relu-rs launches, whose device code no interpreter here can run.

The arithmetic is checked by the device crate's own tests, which run the same functions on the CPU. Here a stand-in for
the driver records what the extension asks of a GPU.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tests.integration.conftest import ROOT, needs_cargo, new_yard
from tests.integration.cuda.driver import Driver, Gpu, Machine, kernels
from tests.integration.cuda.replay import Call, Replay, replay

pytestmark = needs_cargo

_VARIANT = "tvm-ffi01-cu130-x86_64-linux"
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# What a block takes at a time: 256 threads, 16 bytes each.
_BLOCK = 256 * 16


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> tuple[Driver, Path, Machine]:
    """The stand-in, the built extension, and a machine with a GPU that its image has code for."""
    yard = new_yard(tmp_path_factory.mktemp("launches") / "yard", cache)
    for folder in ("_rust", "relu-rs"):
        shutil.copytree(ROOT / "kernels" / folder, yard.root / "kernels" / folder)
    shutil.copy(ROOT / "Cargo.lock", yard.root)
    result = yard.doit(f"build:relu-rs:{_VARIANT}")
    if "skipped" in result.out:
        pytest.skip(result.out)
    assert result.status == 0, result.out
    (table,) = yard.root.glob("build/work/relu-rs/images/*/relu-rs.rs")
    (library,) = yard.artifact("relu-rs").glob("*.so")
    machine = Machine(gpus=(Gpu("9.0"),), kernels=kernels(table.read_text()))
    return Driver.build(tmp_path_factory.mktemp("driver") / "driver"), library, machine


def _run(called: tuple[Driver, Path, Machine], *calls: Call) -> list[Replay]:
    driver, library, machine = called
    return replay(driver, library, machine, calls)


def _relu(size: int, dtype: torch.dtype, start: int = 0) -> Call:
    out, x = (torch.zeros(start + size, dtype=dtype)[start:] for _ in range(2))
    return Call("relu", (out, x), written=(0,))


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
def test_a_thread_for_each_16_bytes(called: tuple[Driver, Path, Machine], dtype: torch.dtype) -> None:
    in_block = _BLOCK // dtype.itemsize
    sizes = [1, in_block, in_block + 1, 10 * in_block + 3]
    for replayed, size in zip(_run(called, *(_relu(size, dtype) for size in sizes)), sizes, strict=True):
        assert replayed.error is None
        (launch,) = replayed.launches
        assert launch.entry == {"float32": "relu_f32", "float16": "relu_f16"}.get(str(dtype)[6:], "relu_bf16")
        assert (launch.grid, launch.block, launch.shared) == ((-(-size // in_block), 1, 1), (256, 1, 1), 0)
        expected = [*replayed.addresses, size]
        assert [int.from_bytes(argument, "little") for argument in launch.arguments] == expected
        assert [len(argument) for argument in launch.arguments] == [8, 8, 8]


def test_a_start_between_two_vectors_is_passed_on(called: tuple[Driver, Path, Machine]) -> None:
    (replayed,) = _run(called, _relu(1000, torch.float16, start=3))
    (launch,) = replayed.launches
    found = [int.from_bytes(argument, "little") for argument in launch.arguments]
    assert found == [*(address + 6 for address in replayed.addresses), 1000]


def test_nothing_is_launched_for_nothing(called: tuple[Driver, Path, Machine]) -> None:
    (replayed,) = _run(called, _relu(0, torch.float32))
    assert (replayed.error, replayed.launches) == (None, ())


def test_what_is_refused(called: tuple[Driver, Path, Machine]) -> None:
    one, other, double = torch.zeros(3), torch.zeros(4), torch.zeros(3, dtype=torch.float64)
    wide = torch.zeros(3, 2)
    calls = [Call("relu", pair) for pair in ((one, other), (double, double), (torch.zeros(2, 3), wide.t()), (one, one))]
    said = [replayed.error for replayed in _run(called, *calls)]
    for found, words in zip(
        said,
        [
            "out: has shape [3]; must have [4], the shape of x",
            "x: has dtype float64; must be float32, float16 or bfloat16",
            "x: has strides [1, 2] for shape [2, 3]; must be contiguous",
            "out: shares memory with x; must not",
        ],
        strict=True,
    ):
        assert found is not None
        assert words in found
