import multiprocessing
import os
import random
from pathlib import Path

import pytest
import torch
from reference import inputs, reference

pytestmark = pytest.mark.usefixtures("on_cpu")

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
PATHS = ["plain", "avx2", "avx512", "avx512bf16"]
# float32 to 1e-5. The others round the result once; on its bfloat16 path, the kernel rounds the weights as well.
TOLERANCES = {
    torch.float32: {"atol": 1e-5, "rtol": 1e-5},
    torch.float16: {"atol": 2e-3, "rtol": 2.5e-2},
    torch.bfloat16: {"atol": 1e-2, "rtol": 2.5e-2},
}


@pytest.fixture(params=PATHS)
def path(request, kernel):
    if request.param not in kernel.simd_paths():
        pytest.skip(f"this CPU has no {request.param}")
    return request.param


def assert_right(result, q, k, v, *options, **more):
    out, lse = result
    expected, expected_lse = reference(q, k, v, *options, **more)
    assert (out.dtype, out.shape, out.device) == (q.dtype, q.shape, q.device)
    assert out.is_contiguous()
    assert (lse.dtype, lse.shape) == (torch.float32, (q.shape[0], q.shape[2], q.shape[1]))
    torch.testing.assert_close(out.double(), expected, **TOLERANCES[q.dtype])
    torch.testing.assert_close(lse.double(), expected_lse, atol=1e-5, rtol=2e-6)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


# Sizes


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_the_usual(kernel, path, dtype, causal):
    q, k, v = inputs(2, 128, 128, 8, 8, 64, dtype)
    assert_right(kernel.fwd(q, k, v, None, None, causal, -1, -1, 0.0, simd=path), q, k, v, causal=causal)


@pytest.mark.parametrize("dim", range(8, 257, 8))
def test_every_headdim(kernel, path, dim):
    dtype = DTYPES[dim // 8 % 3]
    q, k, v = inputs(1, 19, 101, 2, 2, dim, dtype)
    assert_right(kernel.fwd(q, k, v, simd=path), q, k, v)


# Around the number of lanes of a vector, of rows in a panel and in a tile, and of keys in a block.
@pytest.mark.parametrize("queries", [0, 1, 2, 8, 9, 16, 17, 32, 33, 47, 48, 49, 63, 64, 65, 95, 97, 130, 257])
def test_every_number_of_queries(kernel, path, queries):
    for keys, dtype in ((queries, torch.float32), (queries + 1, torch.bfloat16), (50, torch.float16)):
        q, k, v = inputs(1, queries, keys, 2, 1, 32, dtype)
        assert_right(kernel.fwd(q, k, v, is_causal=True, simd=path), q, k, v, causal=True)


@pytest.mark.parametrize("keys", [0, 1, 2, 3, 5, 6, 7, 8, 31, 95, 96, 97, 98, 191, 192, 193, 500])
def test_every_number_of_keys(kernel, path, keys):
    for dtype in DTYPES:
        q, k, v = inputs(1, 20, keys, 2, 2, 40, dtype)
        assert_right(kernel.fwd(q, k, v, simd=path), q, k, v)
        assert_right(kernel.fwd(q, k, v, is_causal=True, simd=path), q, k, v, causal=True)


@pytest.mark.parametrize("shape", [(0, 5, 5, 2, 2, 64), (2, 0, 5, 2, 2, 64), (2, 5, 0, 2, 2, 64), (2, 5, 5, 0, 0, 64)])
def test_empty(kernel, shape):
    q, k, v = inputs(*shape)
    out, lse = kernel.fwd(q, k, v)
    assert out.shape == q.shape
    assert lse.shape == (q.shape[0], q.shape[2], q.shape[1])
    assert torch.equal(out, torch.zeros_like(q))
    assert bool((lse == torch.inf).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_large(kernel, dtype, causal):
    q, k, v = inputs(1, 2048, 2048, 2, 2, 64, dtype)
    assert_right(kernel.fwd(q, k, v, is_causal=causal), q, k, v, causal=causal)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_query_and_many_keys(kernel, path, dtype):
    q, k, v = inputs(1, 1, 10_000, 8, 2, 64, dtype)
    assert_right(kernel.fwd(q, k, v, simd=path), q, k, v)


# Options


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("heads", [(1, 1), (6, 1), (6, 2), (6, 3), (6, 6), (32, 4)], ids=str)
def test_grouped_heads(kernel, path, dtype, heads):
    q, k, v = inputs(2, 21, 70, *heads, 64, dtype)
    assert_right(kernel.fwd(q, k, v, is_causal=True, simd=path), q, k, v, causal=True)


@pytest.mark.parametrize("sizes", [(150, 150), (40, 300), (300, 40), (1, 100)], ids=str)
@pytest.mark.parametrize(
    "window", [(0, 0), (5, -1), (-1, 5), (-1, 0), (3, 17), (130, 70), (1000, 1000), (2**62, 2**62)]
)
@pytest.mark.parametrize("causal", [False, True])
def test_windows(kernel, path, sizes, window, causal):
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = inputs(1, *sizes, 2, 2, 32, dtype)
        result = kernel.fwd(q, k, v, None, None, causal, *window, 0.0, simd=path)
        assert_right(result, q, k, v, causal=causal, left=window[0], right=window[1])


@pytest.mark.parametrize("softcap", [0.5, 5.0, 30.0, 1000.0])
@pytest.mark.parametrize("causal", [False, True])
def test_softcap(kernel, path, softcap, causal):
    q, k, v = inputs(1, 70, 130, 2, 2, 64)
    q = q * 4
    result = kernel.fwd(q, k, v, None, None, causal, -1, -1, softcap, simd=path)
    assert_right(result, q, k, v, causal=causal, softcap=softcap)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_alibi(kernel, path, causal, batched):
    for queries, keys in ((70, 130), (130, 70), (1, 500)):
        q, k, v = inputs(3, queries, keys, 6, 2, 32)
        slopes = torch.rand(3, 6) if batched else torch.rand(6)
        result = kernel.fwd(q, k, v, slopes, None, causal, simd=path)
        assert_right(result, q, k, v, slopes, causal=causal)


@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 3.0, -0.2])
def test_scale(kernel, path, scale):
    for softcap in (0.0, 20.0):
        q, k, v = inputs(1, 50, 120, 2, 2, 64)
        result = kernel.fwd(q, k, v, None, scale, True, -1, -1, softcap, simd=path)
        # As the logits grow, so does what a float32 cannot tell apart in them.
        out, lse = reference(q, k, v, None, scale, True, softcap=softcap)
        torch.testing.assert_close(result[0].double(), out, atol=1e-5 + 5e-6 * abs(scale), rtol=1e-5)
        torch.testing.assert_close(result[1].double(), lse, atol=1e-5 + 5e-6 * abs(scale), rtol=1e-5)


@pytest.mark.parametrize("seed", range(100))
def test_random_options(kernel, seed):
    pick = random.Random(seed)
    torch.manual_seed(seed)
    key_heads = pick.randint(1, 3)
    heads = key_heads * pick.choice([1, 1, 2, 5])
    dtype = pick.choice(DTYPES)
    sizes = [pick.choice([0, 1, 2, 3, 15, 33, 64, 100, pick.randint(1, 400)]) for _ in range(2)]
    batch = pick.randint(1, 3)
    q, k, v = inputs(batch, *sizes, heads, key_heads, 8 * pick.randint(1, 20), dtype)
    if pick.random() < 0.5:
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    slopes = pick.choice([None, None, torch.rand(heads), torch.rand(batch, heads)])
    options = (
        slopes,
        pick.choice([None, 0.1]),
        pick.random() < 0.5,
        pick.choice([-1, -1, 0, 7, 100]),
        pick.choice([-1, -1, 0, 7, 100]),
        pick.choice([0.0, 0.0, 15.0]),
    )
    result = kernel.fwd(q, k, v, *options, num_threads=pick.randint(1, 3), simd=pick.choice(kernel.simd_paths()))
    assert_right(result, q, k, v, *options)


# Properties


def test_results_do_not_depend_on_threads(kernel, path):
    for options in ({}, {"is_causal": True}, {"window_size_left": 100, "window_size_right": 30}):
        q, k, v = inputs(2, 700, 900, 4, 2, 64, torch.bfloat16)
        one = kernel.fwd(q, k, v, **options, num_threads=1, simd=path)
        for threads in (2, 3, 16):
            many = kernel.fwd(q, k, v, **options, num_threads=threads, simd=path)
            assert torch.equal(one[0], many[0])
            assert torch.equal(one[1], many[1])


def test_large_logits(kernel, path):
    for dtype in DTYPES:
        q, k, v = inputs(1, 40, 200, 2, 2, 64, dtype)
        out, lse = kernel.fwd(q * 100, k * 100, v, is_causal=True, simd=path)
        expected, expected_lse = reference(q * 100, k * 100, v, causal=True)
        torch.testing.assert_close(out.double(), expected, atol=2e-2, rtol=2e-2)
        torch.testing.assert_close(lse.double(), expected_lse, atol=0, rtol=1e-5)


def test_nan_stays_in_its_row(kernel, path):
    q, k, v = inputs(1, 70, 90, 2, 2, 64)
    clean, clean_lse = kernel.fwd(q, k, v, simd=path)
    q[0, 33, 1, 5] = torch.nan
    out, lse = kernel.fwd(q, k, v, simd=path)
    assert bool(out[0, 33, 1].isnan().all())
    assert bool(lse[0, 1, 33].isnan())
    out[0, 33, 1], lse[0, 1, 33] = clean[0, 33, 1], clean_lse[0, 1, 33]
    assert torch.equal(out, clean)
    assert torch.equal(lse, clean_lse)


def test_hidden_nan_is_not_seen(kernel, path):
    q, k, v = inputs(1, 300, 300, 1, 1, 64)
    clean, _ = kernel.fwd(q, k, v, is_causal=True, simd=path)
    k[0, 200:] = torch.nan
    out, _ = kernel.fwd(q, k, v, is_causal=True, simd=path)
    assert torch.equal(out[0, :200], clean[0, :200])
    assert bool(out[0, 200:].isnan().all())


def test_inputs_are_not_changed(kernel, path):
    before = inputs(2, 100, 100, 4, 2, 64)
    after = [x.clone() for x in before]
    kernel.fwd(*after, is_causal=True, simd=path)
    assert all(torch.equal(x, y) for x, y in zip(before, after))


# Layouts


def layouts(x):
    """The same numbers with other strides, by name."""
    wide = torch.zeros(*x.shape[:3], x.shape[3] + 24, dtype=x.dtype)
    wide[..., 8:-16] = x
    packed = torch.stack([x, x, x], dim=2)
    flat = torch.cat([torch.zeros(3, dtype=x.dtype), x.flatten()])
    return {
        "heads first": x.transpose(1, 2).contiguous().transpose(1, 2),
        "batch last": x.permute(1, 2, 0, 3).contiguous().permute(2, 0, 1, 3),
        "part of rows": wide[..., 8:-16],
        "packed with others": packed[:, :, 1],
        "odd offset": flat[3:].view(x.shape),
        "last not contiguous": x.transpose(2, 3).contiguous().transpose(2, 3),
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", layouts(torch.zeros(1, 1, 1, 1)))
def test_layouts(kernel, path, dtype, name):
    q, k, v = inputs(2, 50, 60, 4, 2, 40, dtype)
    expected = kernel.fwd(q, k, v, simd=path)
    for changed in ((True, False, False), (False, True, True), (True, True, True)):
        other = [layouts(x)[name] if change else x for x, change in zip((q, k, v), changed)]
        out, lse = kernel.fwd(*other, simd=path)
        assert torch.equal(out, expected[0])
        assert torch.equal(lse, expected[1])


def test_expanded(kernel):
    q, k, v = inputs(1, 50, 60, 4, 1, 40)
    k, v = k.expand(3, -1, 2, -1), v.expand(3, -1, 2, -1)
    q = q.expand(3, -1, -1, -1)
    assert_right(kernel.fwd(q, k, v), q, k, v)
    slopes = torch.rand(1).expand(4)
    assert_right(kernel.fwd(q, k, v, slopes), q, k, v, slopes)


# Memory and processes


def test_memory(kernel):
    """Scores of all queries and keys would take 512 MiB."""
    clear, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not clear.exists():
        pytest.skip("needs Linux's /proc")
    q, k, v = inputs(1, 4096, 4096, 8, 8, 64)
    size = 3 * q.numel() * q.element_size()

    def kib(key):
        line = next(line for line in status.read_text().splitlines() if line.startswith(key))
        return int(line.split()[1])

    clear.write_text("5")  # The peak is the present size from here on.
    before = kib("VmRSS:")
    kernel.fwd(q, k, v, is_causal=True)
    assert (kib("VmHWM:") - before) * 1024 < 2 * size


def _child(kernel, tensors, queue):
    queue.put(kernel.fwd(*tensors, num_threads=2)[0].tolist())


def test_after_fork(kernel):
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    tensors = inputs(1, 300, 300, 2, 2, 64)
    expected = kernel.fwd(*tensors, num_threads=2)[0]
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_child, args=(kernel, tensors, queue))
    child.start()
    assert queue.get() == expected.tolist()
    child.join(30)
    assert child.exitcode == 0


# Bad arguments


def good():
    return dict(zip("qkv", inputs(2, 8, 9, 4, 2, 32)))


BAD = {
    "q of float64": ({"q": torch.zeros(2, 8, 4, 32, dtype=torch.float64)}, TypeError, "q: .*float64"),
    "q of integers": ({"q": torch.zeros(2, 8, 4, 32, dtype=torch.int32)}, TypeError, "q: .*int32"),
    "k of another dtype": ({"k": torch.zeros(2, 9, 2, 32, dtype=torch.float16)}, TypeError, "k: .*float16"),
    "v of another dtype": ({"v": torch.zeros(2, 9, 2, 32, dtype=torch.bfloat16)}, TypeError, "v: .*bfloat16"),
    "q of 3 dimensions": ({"q": torch.zeros(8, 4, 32)}, ValueError, "q: .*4 dimensions"),
    "k of 5 dimensions": ({"k": torch.zeros(1, 2, 9, 2, 32)}, ValueError, "k: .*4 dimensions"),
    "v of no dimension": ({"v": torch.zeros(())}, ValueError, "v: .*shape"),
    "k of another batch": ({"k": torch.zeros(3, 9, 2, 32)}, ValueError, "k: .*shape"),
    "k of another headdim": ({"k": torch.zeros(2, 9, 2, 40)}, ValueError, "k: .*shape"),
    "v of another length": ({"v": torch.zeros(2, 8, 2, 32)}, ValueError, "v: .*shape"),
    "v of other heads": ({"v": torch.zeros(2, 9, 4, 32)}, ValueError, "v: .*shape"),
    "heads that do not divide": ({"q": torch.zeros(2, 8, 3, 32)}, ValueError, "k: .*2 heads"),
    "no key heads": ({"k": torch.zeros(2, 9, 0, 32), "v": torch.zeros(2, 9, 0, 32)}, ValueError, "k: .*0 heads"),
    "alibi of another number": ({"alibi_slopes": torch.zeros(2)}, ValueError, "alibi_slopes: .*shape"),
    "alibi of another batch": ({"alibi_slopes": torch.zeros(3, 4)}, ValueError, "alibi_slopes: .*shape"),
    "alibi of another dtype": ({"alibi_slopes": torch.zeros(4).half()}, TypeError, "alibi_slopes: .*float16"),
    "negative softcap": ({"softcap": -1.0}, ValueError, "softcap: .*-1"),
    "softcap of nan": ({"softcap": float("nan")}, ValueError, "softcap: .*NaN"),
    "scale of text": ({"softmax_scale": "1"}, TypeError, "softmax_scale: "),
    "window of text": ({"window_size_left": "1"}, TypeError, "window_size_left: "),
    "causal of text": ({"is_causal": "yes"}, TypeError, "is_causal: "),
    "simd of another CPU": ({"simd": "avx1024"}, ValueError, "simd: .*avx1024"),
    "threads of text": ({"num_threads": "all"}, TypeError, "num_threads: "),
}


@pytest.mark.kernels_ci
@pytest.mark.parametrize("case", BAD)
def test_bad_arguments(kernel, case):
    changed, error, message = BAD[case]
    with pytest.raises(error, match=message):
        kernel.fwd(**{**good(), **changed})
    kernel.fwd(**good())


@pytest.mark.parametrize("dim", [0, 1, 12, 31, 264, 512])
def test_bad_headdim(kernel, dim):
    with pytest.raises(ValueError, match=f"q: has headdim {dim}"):
        kernel.fwd(*inputs(1, 3, 3, 2, 2, dim))


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_wrong_device(kernel, name):
    with pytest.raises(ValueError, match=f"{name} is on meta"):
        kernel.fwd(**{**good(), name: good()[name].to("meta")})


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_sparse(kernel, name):
    with pytest.raises(ValueError, match=f"{name} is torch.sparse_coo; must be strided"):
        kernel.fwd(**{**good(), name: good()[name].to_sparse()})


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_no_tensor(kernel, name):
    with pytest.raises(TypeError, match=f"{name} must be a torch.Tensor"):
        kernel.fwd(**{**good(), name: [1.0]})


def test_last_dimension_must_be_contiguous_for_the_library(kernel):
    for name in "qkv":
        tensors = good()
        tensors[name] = tensors[name].transpose(2, 3).contiguous().transpose(2, 3)
        with pytest.raises(ValueError, match=f"{name}: .*strides"):
            kernel._ops.ops.fwd(*tensors.values(), None, None, False, -1, -1, 0.0, 0, "auto")


def test_grad(kernel):
    tensors = good()
    tensors["v"].requires_grad_()
    with pytest.raises(RuntimeError, match="v requires grad"):
        kernel.fwd(**tensors)
    with torch.no_grad():
        assert not kernel.fwd(**tensors)[0].requires_grad


# The other function


def test_flash_attn_func(kernel):
    q, k, v = inputs(2, 30, 40, 4, 2, 64)
    slopes = torch.rand(4)
    expected = kernel.fwd(q, k, v, slopes, 0.2, True, 5, -1, 10.0)
    options = {"softmax_scale": 0.2, "causal": True, "window_size": (5, -1), "softcap": 10.0, "alibi_slopes": slopes}
    out, lse = kernel.flash_attn_func(q, k, v, **options, return_lse=True)
    assert torch.equal(out, expected[0])
    assert torch.equal(lse, expected[1])
    assert torch.equal(kernel.flash_attn_func(q, k, v, **options), out)
