import random

import pytest
import torch
from reference import inputs, reference

pytestmark = pytest.mark.usefixtures("on_gpu")

DTYPES = [torch.float16, torch.bfloat16]
# Weights and results are rounded to the dtype.
TOLERANCES = {torch.float16: {"atol": 2e-3, "rtol": 2.5e-2}, torch.bfloat16: {"atol": 1e-2, "rtol": 2.5e-2}}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def assert_right(result, q, k, v, *options, **more):
    out, lse = result
    expected, expected_lse = reference(q, k, v, *options, **more)
    assert (out.dtype, out.shape, out.device) == (q.dtype, q.shape, q.device)
    assert out.is_contiguous()
    assert (lse.dtype, lse.shape) == (torch.float32, (q.shape[0], q.shape[2], q.shape[1]))
    torch.testing.assert_close(out.double(), expected, **TOLERANCES[q.dtype])
    torch.testing.assert_close(lse.double(), expected_lse, atol=1e-4, rtol=1e-5)


# Sizes


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [32, 64, 128, 256])
def test_the_usual(kernel, device, dtype, causal, dim):
    q, k, v = inputs(2, 512, 512, 8, 8, dim, dtype, device)
    assert_right(kernel.fwd(q, k, v, is_causal=causal), q, k, v, causal=causal)


@pytest.mark.parametrize("dim", range(8, 257, 8))
def test_every_headdim(kernel, device, dim):
    for dtype in DTYPES:
        q, k, v = inputs(1, 150, 333, 2, 2, dim, dtype, device)
        assert_right(kernel.fwd(q, k, v, is_causal=True), q, k, v, causal=True)


# Around the sizes of tiles.
@pytest.mark.parametrize("queries", [1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257])
@pytest.mark.parametrize("dim", [32, 64, 128, 256])
def test_every_number_of_queries(kernel, device, queries, dim):
    for keys in (1, 50, queries, queries + 1, 300):
        q, k, v = inputs(1, queries, keys, 2, 1, dim, torch.float16, device)
        for causal in (False, True):
            assert_right(kernel.fwd(q, k, v, is_causal=causal), q, k, v, causal=causal)


@pytest.mark.parametrize("shape", [(0, 5, 5, 2, 2, 64), (2, 0, 5, 2, 2, 64), (2, 5, 0, 2, 2, 64), (2, 5, 5, 0, 0, 64)])
def test_empty(kernel, device, shape):
    q, k, v = inputs(*shape, torch.float16, device)
    out, lse = kernel.fwd(q, k, v)
    assert out.shape == q.shape
    assert lse.shape == (q.shape[0], q.shape[2], q.shape[1])
    assert torch.equal(out, torch.zeros_like(q))
    assert bool((lse == torch.inf).all())


# Options


@pytest.mark.parametrize("heads", [(1, 1), (6, 1), (6, 2), (6, 3), (32, 4)], ids=str)
def test_grouped_heads(kernel, device, heads):
    for dtype in DTYPES:
        q, k, v = inputs(2, 200, 300, *heads, 64, dtype, device)
        assert_right(kernel.fwd(q, k, v, is_causal=True), q, k, v, causal=True)


@pytest.mark.parametrize("sizes", [(300, 300), (40, 500), (500, 40), (1, 400)], ids=str)
@pytest.mark.parametrize("window", [(0, 0), (5, -1), (-1, 5), (3, 17), (130, 70), (1000, 1000), (2**62, 2**62)])
@pytest.mark.parametrize("causal", [False, True])
def test_windows(kernel, device, sizes, window, causal):
    for dim in (64, 128):
        q, k, v = inputs(1, *sizes, 2, 2, dim, torch.float16, device)
        result = kernel.fwd(q, k, v, None, None, causal, *window, 0.0)
        assert_right(result, q, k, v, causal=causal, left=window[0], right=window[1])


@pytest.mark.parametrize("softcap", [0.5, 5.0, 30.0, 1000.0])
@pytest.mark.parametrize("causal", [False, True])
def test_softcap(kernel, device, softcap, causal):
    for dim in (64, 256):
        q, k, v = inputs(1, 170, 300, 2, 2, dim, torch.float16, device)
        result = kernel.fwd(q, k, v, None, None, causal, -1, -1, softcap)
        assert_right(result, q, k, v, causal=causal, softcap=softcap)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_alibi(kernel, device, causal, batched):
    for queries, keys in ((170, 230), (230, 170), (1, 500)):
        q, k, v = inputs(3, queries, keys, 6, 2, 64, torch.bfloat16, device)
        slopes = torch.rand(3, 6, device=device) if batched else torch.rand(6, device=device)
        assert_right(kernel.fwd(q, k, v, slopes, None, causal), q, k, v, slopes, causal=causal)
    slope = torch.rand(1, device=device).expand(6)
    assert_right(kernel.fwd(q, k, v, slope), q, k, v, slope)


@pytest.mark.parametrize("scale", [0.0, 0.01, 0.3, -0.1])
def test_scale(kernel, device, scale):
    for softcap in (0.0, 20.0):
        q, k, v = inputs(1, 150, 320, 2, 2, 64, torch.float16, device)
        result = kernel.fwd(q, k, v, None, scale, True, -1, -1, softcap)
        assert_right(result, q, k, v, None, scale, True, softcap=softcap)


@pytest.mark.parametrize("seed", range(100))
def test_random_options(kernel, device, seed):
    pick = random.Random(seed)
    torch.manual_seed(seed)
    key_heads = pick.randint(1, 3)
    heads = key_heads * pick.choice([1, 1, 2, 5])
    sizes = [pick.choice([1, 2, 33, 64, 100, pick.randint(1, 700)]) for _ in range(2)]
    batch = pick.randint(1, 3)
    q, k, v = inputs(batch, *sizes, heads, key_heads, 8 * pick.randint(1, 32), pick.choice(DTYPES), device)
    if pick.random() < 0.5:
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    options = (
        pick.choice([None, None, torch.rand(heads, device=device), torch.rand(batch, heads, device=device)]),
        pick.choice([None, 0.1]),
        pick.random() < 0.5,
        pick.choice([-1, -1, 0, 7, 100]),
        pick.choice([-1, -1, 0, 7, 100]),
        pick.choice([0.0, 0.0, 15.0]),
    )
    assert_right(kernel.fwd(q, k, v, *options), q, k, v, *options)


# Properties


def test_same_result_every_time_and_on_every_stream(kernel, device):
    q, k, v = inputs(2, 1000, 1000, 4, 2, 128, torch.bfloat16, device)
    first, _ = kernel.fwd(q, k, v, is_causal=True)
    torch.cuda.synchronize()
    for _ in range(3):
        with torch.cuda.stream(torch.cuda.Stream()):
            late = q + torch.zeros_like(q)  # On the same stream, and perhaps not there yet when the host goes on.
            again, _ = kernel.fwd(late, k, v, is_causal=True)
            assert torch.equal(again, first)


def test_hidden_nan_is_not_seen(kernel, device):
    q, k, v = inputs(1, 300, 300, 1, 1, 64, torch.float16, device)
    clean, _ = kernel.fwd(q, k, v, is_causal=True)
    k[0, 200:] = torch.nan
    out, _ = kernel.fwd(q, k, v, is_causal=True)
    assert torch.equal(out[0, :200], clean[0, :200])
    assert bool(out[0, 200:].isnan().all())


def test_in_a_graph(kernel, device):
    q, k, v = inputs(1, 200, 200, 2, 2, 64, torch.float16, device)
    kernel.fwd(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = kernel.fwd(q, k, v)
    q.copy_(torch.randn_like(q))
    graph.replay()
    assert_right((out, lse), q, k, v)


def test_more_elements_than_an_i32_counts(kernel, device):
    if torch.cuda.mem_get_info(device)[0] < 12 << 30:
        pytest.skip("needs 12 GiB of free GPU memory")
    x = torch.randn(17000, 1024, 128, dtype=torch.bfloat16, device=device)
    # From the first position of a head to its last.
    q, k, v = (x[None, :, head : head + 1] for head in (1021, 1022, 1023))
    out, _ = kernel.fwd(q, k, v, is_causal=True)
    assert torch.equal(out, kernel.fwd(q.clone(), k.clone(), v.clone(), is_causal=True)[0])
    # From the first batch to the last.
    batches = x.view(17000, 1024, 1, 128)
    out, _ = kernel.fwd(batches, batches, batches)
    assert torch.equal(out[-1:], kernel.fwd(*[batches[-1:].clone()] * 3)[0])


# Layouts


def layouts(x):
    """The same numbers with other strides, by name."""
    wide = torch.zeros(*x.shape[:3], x.shape[3] + 24, dtype=x.dtype, device=x.device)
    wide[..., 8:-16] = x
    packed = torch.stack([x, x, x], dim=2)
    flat = torch.cat([torch.zeros(3, dtype=x.dtype, device=x.device), x.flatten()])
    odd = torch.zeros(*x.shape[:3], x.shape[3] + 5, dtype=x.dtype, device=x.device)
    odd[..., 1:-4] = x
    return {
        "heads first": x.transpose(1, 2).contiguous().transpose(1, 2),
        "batch last": x.permute(1, 2, 0, 3).contiguous().permute(2, 0, 1, 3),
        "part of rows": wide[..., 8:-16],
        "packed with others": packed[:, :, 1],
        "odd offset": flat[3:].view(x.shape),
        "odd strides": odd[..., 1:-4],
        "last not contiguous": x.transpose(2, 3).contiguous().transpose(2, 3),
    }


@pytest.mark.parametrize("name", layouts(torch.zeros(1, 1, 1, 1)))
def test_layouts(kernel, device, name):
    for dtype in DTYPES:
        q, k, v = inputs(2, 150, 160, 4, 2, 40, dtype, device)
        expected = kernel.fwd(q, k, v)
        for changed in ((True, False, False), (False, True, True), (True, True, True)):
            other = [layouts(x)[name] if change else x for x, change in zip((q, k, v), changed)]
            out, lse = kernel.fwd(*other)
            assert torch.equal(out, expected[0])
            assert torch.equal(lse, expected[1])


def test_expanded(kernel, device):
    q, k, v = inputs(1, 150, 1, 4, 1, 40, torch.float16, device)
    k, v = k.expand(3, 170, 2, -1), v.expand(3, 170, 2, -1)
    q = q.expand(3, -1, -1, -1)
    assert_right(kernel.fwd(q, k, v), q, k, v)


# Bad arguments


@pytest.mark.kernels_ci
def test_dtype_without_code(kernel, device):
    with pytest.raises(TypeError, match="q: has dtype float32; must be float16 or bfloat16"):
        kernel.fwd(*inputs(1, 3, 3, 2, 2, 64, torch.float32, device))


@pytest.mark.parametrize("dim", [0, 1, 12, 31, 264, 512])
def test_bad_headdim(kernel, device, dim):
    with pytest.raises(ValueError, match=f"q: has headdim {dim}"):
        kernel.fwd(*inputs(1, 3, 3, 2, 2, dim, torch.float16, device))


@pytest.mark.parametrize("name", ["q", "k", "v", "alibi_slopes"])
def test_wrong_device(kernel, device, name):
    tensors = dict(zip("qkv", inputs(1, 3, 3, 2, 2, 64, torch.float16, device)))
    tensors["alibi_slopes"] = torch.rand(2, device=device)
    tensors[name] = tensors[name].cpu()
    with pytest.raises(ValueError, match=f"{name} is on cpu; must be on a CUDA device"):
        kernel.fwd(**tensors)


def test_two_devices(kernel, device):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    q, k, v = inputs(1, 3, 3, 2, 2, 64, torch.float16, "cuda:0")
    with pytest.raises(ValueError, match="v: "):
        kernel.fwd(q, k, v.to("cuda:1"))


def test_the_library_refuses_what_it_cannot_read(kernel, device):
    for changed, error in ((1, "starts at address"), (4, "must be multiples of 8")):
        tensors = dict(zip("qkv", inputs(1, 5, 5, 2, 2, 64, torch.float16, device)))
        for name, x in tensors.items():
            size = x.shape[-1] + (changed if changed > 1 else 0)
            wide = torch.zeros(x.numel() // 64 * size + 8, dtype=x.dtype, device=device)
            other = wide[1:] if changed == 1 else wide
            bad = other.as_strided(x.shape, (5 * 2 * size, 2 * size, size, 1))
            with pytest.raises(ValueError, match=f"{name}: .*{error}"):
                kernel._ops.ops.fwd(*{**tensors, name: bad}.values(), None, None, False, -1, -1, 0.0)
