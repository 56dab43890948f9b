import math
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Around the vector sizes and the grain, and some that are split between threads.
SIZES = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 64, 65, 1000, 32767, 32768, 32769, 1_000_003]


def assert_relu(actual, x):
    """Bit for bit what float64 gives: max(x, 0) is exact in every dtype."""
    assert (actual.dtype, actual.shape) == (x.dtype, x.shape)
    assert actual.is_contiguous()
    expected = torch.relu(x.double()).to(x.dtype)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_sizes(kernel, device, dtype, size):
    x = torch.randn(size, device=device).to(dtype)
    before = x.clone()
    assert_relu(kernel.relu(x), x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 5), (1, 1), (5, 7), (2, 3, 4, 5, 6)], ids=str)
def test_shapes(kernel, device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    assert_relu(kernel.relu(x), x)


@pytest.mark.parametrize("seed", range(50))
def test_random_layouts(kernel, device, seed):
    """Any shape and strides that slicing, permuting and expanding can make."""
    choose = random.Random(seed)
    torch.manual_seed(seed)
    shape = [choose.choice([0, 1, 2, 3, 5, 8, 13]) for _ in range(choose.randint(1, 5))]
    x = torch.randn(shape, device=device).to(choose.choice(DTYPES))
    for dim, extent in enumerate(shape):
        start = choose.randint(0, extent)
        x = x[(slice(None),) * dim + (slice(start, None, choose.randint(1, 3)),)]
    x = x.permute(choose.sample(range(x.dim()), x.dim()))
    if choose.random() < 0.3:
        x = x.unsqueeze(0).expand(3, *x.shape)
    assert_relu(kernel.relu(x), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_values(kernel, device, dtype):
    info = torch.finfo(dtype)
    values = [0.0, -0.0, info.tiny, -info.tiny, info.max, info.min, math.inf, -math.inf, math.nan, info.tiny / 2]
    # 33 times, so that each value meets each position in a vector.
    x = torch.tensor(values * 33, dtype=dtype, device=device)
    assert_relu(kernel.relu(x), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_every_16_bit_float(kernel, device, dtype):
    x = torch.arange(-(2**15), 2**15, device=device).to(torch.int16).view(dtype)
    assert_relu(kernel.relu(x), x)


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_offset_into_a_storage(kernel, device, dtype):
    buffer = torch.randn(10_001, device=device).to(dtype)
    for start in range(9):
        assert_relu(kernel.relu(buffer[start:]), buffer[start:])


def refused(error, text):
    return pytest.raises(error, match=re.escape(text))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.bool, torch.complex64], ids=str)
def test_wrong_dtype(kernel, device, dtype):
    with refused(TypeError, "x: has dtype ") as raised:
        kernel.relu(torch.zeros(3, dtype=dtype, device=device))
    assert "must be float32, float16 or bfloat16" in str(raised.value)


def test_requires_grad(kernel, device):
    x = torch.ones(3, requires_grad=True, device=device)
    with refused(RuntimeError, "relu: x requires grad"):
        kernel.relu(x)
    with torch.no_grad():
        assert_relu(kernel.relu(x), x)


@pytest.mark.parametrize(
    ("out", "x", "error", "text"),
    [
        (torch.ones(3), torch.ones(4), ValueError, "out: has shape [3]; must have [4], the shape of x"),
        (torch.ones(3), torch.ones(3).half(), TypeError, "out: has dtype float32; must be float16, the dtype of x"),
        (torch.ones(2, 3), torch.ones(3, 2).t(), ValueError, "x: has strides [1, 2] for shape [2, 3]"),
        (torch.ones(3, 2).t(), torch.ones(2, 3), ValueError, "out: has strides [1, 2] for shape [2, 3]"),
        (torch.ones(1).expand(3), torch.ones(3), ValueError, "out: has strides [0] for shape [3]"),
    ],
)
def test_the_library_names_the_argument(kernel, device, out, x, error, text):
    out, x = (torch.empty_strided(a.shape, a.stride(), dtype=a.dtype, device=device) for a in (out, x))
    with refused(error, text):
        kernel._ops.ops.relu(out, x)


def test_shared_memory_is_refused(kernel, device):
    buffer = torch.ones(5, device=device)
    with refused(ValueError, "out: shares memory with x; must not"):
        kernel._ops.ops.relu(buffer[1:], buffer[:-1])


def test_misaligned_memory_is_refused(kernel, on_cpu):
    x = torch.frombuffer(bytearray(17), dtype=torch.float32, count=3, offset=1)
    with refused(ValueError, "x: starts at address 0x"):
        kernel._ops.ops.relu(torch.ones(3), x)


def test_wrong_types_and_numbers_of_arguments(kernel, device):
    with refused(TypeError, "relu: x: "):
        kernel._ops.ops.relu(torch.ones(3, device=device), 3.5)
    with refused(TypeError, "relu: takes 2 arguments (out, x), and 1 were given"):
        kernel._ops.ops.relu(torch.ones(3, device=device))


def test_after_fork(kernel, on_cpu):
    """A child of a process that has used threads can use them too."""
    code = f"""
import os, pathlib, kernels, torch
kernel = kernels.get_local_kernel(pathlib.Path({str(Path(kernel.__file__).parent)!r}), backend="cpu")
x = torch.randn(1_000_000)
kernel.relu(x)
pid = os.fork()
if pid == 0:
    kernel.relu(x)
    os._exit(7)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    environ = {**os.environ, "RAYON_NUM_THREADS": "2"}
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False, env=environ).returncode == 7


def test_tensors_elsewhere_are_refused(kernel, on_gpu):
    with refused(ValueError, "out: is on device cpu:0; must be on a CUDA device"):
        kernel.relu(torch.ones(3))
    with refused(ValueError, "x: is on device cpu:0; must be on a CUDA device"):
        kernel._ops.ops.relu(torch.ones(3, device="cuda"), torch.ones(3))


@pytest.mark.kernels_ci
def test_the_current_stream(kernel, on_gpu):
    x = torch.zeros(1 << 24, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        # The copies take longer than a launch: only in their stream is the kernel late enough.
        for value in range(20):
            x.fill_(value)
        y = kernel.relu(x)
    torch.cuda.current_stream().wait_stream(side)
    assert torch.equal(y, torch.full_like(x, 19))


def test_another_device(kernel, on_gpu):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = torch.randn(1000, device="cuda:1")
    assert_relu(kernel.relu(x), x)
    assert torch.cuda.current_device() == 0
    with refused(ValueError, "x: is on device cuda:1; must be on cuda:0, the device of out"):
        kernel._ops.ops.relu(torch.empty(1000, device="cuda:0"), x)


def test_more_elements_than_32_bits_count(kernel, on_gpu):
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        pytest.skip("needs 20 GB of a GPU's memory")
    x = torch.full((2**32 + 9,), -1.0, dtype=torch.float16, device="cuda")
    x[-1] = 3
    y = kernel.relu(x)
    assert (int(y.count_nonzero()), float(y[-1])) == (1, 3.0)
