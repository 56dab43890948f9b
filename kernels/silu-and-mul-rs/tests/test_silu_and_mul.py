import math
import re
from pathlib import Path

import kernels
import pytest
import torch
import torch.nn.functional as F
from torch import nn

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Around the widths of accesses and of tiles.
SIZES = [1, 2, 3, 7, 8, 9, 16, 33, 255, 1000, 1023, 1024, 1025, 2040, 2048, 2056, 4097, 8192]


def reference(x):
    gate, up = x.double().tensor_split(2, dim=-1)
    return gate * torch.sigmoid(gate) * up


def assert_accurate(actual, x):
    """Within 4 float32 roundings plus the final one of the float64 result."""
    expected = reference(x)
    assert actual.dtype == x.dtype
    assert actual.shape == expected.shape
    info = torch.finfo(x.dtype)
    final = info.eps / 2 if x.dtype != torch.float32 else 0
    up = x.double().tensor_split(2, dim=-1)[1]
    # Where e^-x is subnormal, what is lost is absolute (below 2e-43, before the multiplication by up).
    bound = (final + 4 * 2**-23) * expected.abs() + 2e-43 * up.abs() + info.smallest_normal * info.eps
    assert ((actual.double() - expected).abs() <= bound).all()


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("d", SIZES)
def test_sizes(kernel, device, dtype, d):
    for rows in 1, 3:
        x = (4 * torch.randn(rows, 2 * d, device=device)).to(dtype)
        before = x.clone()
        assert_accurate(kernel.silu_and_mul(x), x)
        assert torch.equal(x, before)


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_close_to_pytorch(kernel, device, dtype):
    x = torch.randn(33, 130, device=device).to(dtype)
    expected = F.silu(x[:, :65]) * x[:, 65:]
    # PyTorch rounds twice.
    torch.testing.assert_close(kernel.silu_and_mul(x), expected, rtol=4 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(2,), (0,), (0, 6), (3, 0), (1, 2), (2, 3, 4, 8), (2, 0, 4), (1, 1, 1, 34)], ids=str)
def test_shapes(kernel, device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    y = kernel.silu_and_mul(x)
    assert y.shape == (*shape[:-1], shape[-1] // 2)
    assert y.is_contiguous()
    assert_accurate(y, x)


def layouts(device):
    base = torch.randn(6, 10, 36, device=device)
    return {
        "transposed": base.transpose(0, 2),
        "permuted": base.permute(1, 0, 2),
        "columns": base[0, :, 3:17],
        "columns_of_3d": base[:, :, 4:24],
        "every_second_row": base[0, ::2],
        "every_second_of_3d": base[:, ::2],
        "every_second_column": base[..., ::2],
        "expanded_row": base[0, :1].expand(10, 36),
        "expanded_inner": base[:, :1].expand(6, 10, 36),
        "expanded_outer": base[:1].expand(6, 10, 36),
        "expanded_column": base[..., :1].expand(6, 10, 36),
        "one_row_of_3d": base[:, 3:4],
        "offset_1": base.flatten()[1:41].view(4, 10),
        "offset_1_1d": base.flatten()[1:35],
        "size_2_strided": base[:, 0, ::18],
        "empty": base[:, 4:4],
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", layouts("cpu"))
def test_layouts(kernel, device, dtype, layout):
    x = layouts(device)[layout]
    # The same strides and offset in the other dtype.
    storage = torch.empty(0, device=device).set_(x.untyped_storage()).to(dtype)
    x = storage.as_strided(x.size(), x.stride(), x.storage_offset())
    assert_accurate(kernel.silu_and_mul(x), x)


@pytest.mark.parametrize("layout", [name for name in layouts("cpu") if "expanded" not in name])
def test_out_layouts(kernel, device, layout):
    out = layouts(device)[layout]
    strides = out.stride()
    x = torch.randn(*out.shape[:-1], 2 * out.shape[-1], device=device)
    assert kernel.silu_and_mul(x, out) is out
    assert out.stride() == strides
    assert_accurate(out, x)


def test_out_writes_nothing_else(kernel, device):
    for dtype in DTYPES:
        for d in 1, 7, 16, 33:
            buffer = torch.full((5, d + 40), 7.0, device=device, dtype=dtype)
            expected = buffer.clone()
            x = torch.randn(5, 2 * d, device=device).to(dtype)
            kernel.silu_and_mul(x, buffer[:, 20 : 20 + d])
            expected[:, 20 : 20 + d] = kernel.silu_and_mul(x)
            assert torch.equal(buffer, expected)


def test_reads_nothing_else(kernel, device):
    # A NaN that leaked into a result, or an access to it that matters, would show.
    for dtype in DTYPES:
        for d in 1, 7, 16, 33:
            buffer = torch.full((5, 2 * d + 40), math.nan, device=device, dtype=dtype)
            buffer[:, 20 : 20 + 2 * d] = 1
            assert kernel.silu_and_mul(buffer[:, 20 : 20 + 2 * d]).isfinite().all()


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_out_is_half_of_x(kernel, device, half, dtype):
    x = torch.randn(9, 2 * 37, device=device).to(dtype)
    expected = kernel.silu_and_mul(x.clone())
    kernel.silu_and_mul(x, x[:, 37 * half : 37 * (half + 1)])
    assert torch.equal(x[:, 37 * half : 37 * (half + 1)], expected)


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_values(kernel, device, dtype):
    info = torch.finfo(dtype)
    gates = [0.0, -0.0, 1.0, -1.0, 20.0, -20.0, -86.0, -88.0, -90.0, -103.0, -104.0, -105.0, -1000.0, 89.0, 1000.0]
    gates += [info.tiny, -info.tiny, info.tiny / 4, -info.tiny / 4, info.max, info.min, math.inf, math.nan, -math.nan]
    ups = [1.0, -1.0, 0.0, -0.0, 3.0, info.max, info.tiny, info.tiny / 4, math.inf, -math.inf, math.nan]
    pairs = torch.cartesian_prod(
        torch.tensor(gates, dtype=dtype, device=device), torch.tensor(ups, dtype=dtype, device=device)
    )
    x = pairs.t().contiguous().flatten()
    actual, expected = kernel.silu_and_mul(x).double(), reference(x)
    # There, silu is a subnormal number or 0, so that its product with infinity is one of infinity and NaN.
    vague = (pairs[:, 0] < -100) & pairs[:, 1].isinf()
    actual[vague] = expected[vague] = 0
    limit = torch.tensor(info.max, dtype=torch.float64) * (1 + info.eps / 4)  # From here on, rounding gives infinity.
    expected = torch.where(expected.abs() >= limit, expected.sign() * math.inf, expected)
    torch.testing.assert_close(
        actual,
        expected,
        rtol=info.eps / 2 + 4 * 2**-23,
        # e^-x is 0 below -104, but a large factor can make what is lost visible.
        atol=2e-43 * 3.4e38 if dtype != torch.float16 else info.smallest_normal * info.eps,
        equal_nan=True,
    )
    finite = x.view(2, -1).isfinite().all(0)
    signs = torch.signbit(pairs[:, 0]) ^ torch.signbit(pairs[:, 1])
    assert torch.equal(torch.signbit(kernel.silu_and_mul(x))[finite], signs[finite])


def test_minus_infinity_as_in_pytorch(kernel, device):
    x = torch.tensor([-math.inf, 1.0] * 20, device=device).view(20, 2).t().contiguous().flatten()
    assert kernel.silu_and_mul(x).isnan().all() == F.silu(torch.tensor(-math.inf, device=device)).isnan()


def test_every_16_bit_gate(kernel, device):
    for dtype in torch.float16, torch.bfloat16:
        gate = torch.arange(-(2**15), 2**15, device=device).to(torch.int16).view(dtype)
        gate = gate[gate.isfinite()]
        x = torch.stack([gate, torch.ones_like(gate)])
        assert_accurate(kernel.silu_and_mul(x.flatten()), x.flatten())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_rounding_of_results(kernel, device, dtype):
    """silu is the identity for large gates, so that this shows each 16-bit product, rounded once and correctly."""
    gate = torch.tensor(32.0, dtype=dtype, device=device)
    up = torch.arange(-(2**15), 2**15, device=device).to(torch.int16).view(dtype)
    factor = 1 + 3 * torch.finfo(dtype).eps
    x = torch.stack([(gate * factor).expand_as(up), up])
    expected = (x[0].float() * x[1].float()).to(dtype)
    actual = kernel.silu_and_mul(x.flatten())
    assert torch.equal(actual.isnan(), expected.isnan())
    assert torch.equal(actual[~actual.isnan()], expected[~actual.isnan()])


# Bad inputs


@pytest.mark.kernels_ci
@pytest.mark.parametrize("shape", [(), (1,), (3,), (4, 5), (0, 7)], ids=str)
def test_odd_last_dimension(kernel, device, shape):
    with pytest.raises(ValueError, match="the last dimension of x must have an even size"):
        kernel.silu_and_mul(torch.ones(shape, device=device))


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.int32, torch.int16, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn],
    ids=str,
)
def test_unsupported_dtype(kernel, device, dtype):
    with pytest.raises(TypeError, match="x: has dtype .*; must be float32, float16 or bfloat16"):
        kernel.silu_and_mul(torch.zeros(4, device=device).to(dtype))


def test_out_of_wrong_dtype(kernel, device):
    with pytest.raises(TypeError, match="out: has dtype float16; must be float32, the dtype of x"):
        kernel.silu_and_mul(torch.ones(4, device=device), torch.ones(2, device=device, dtype=torch.float16))


@pytest.mark.parametrize("shape", [(3, 4), (3, 1), (6,), (1, 3, 2), (2, 2), (2,), ()], ids=str)
def test_out_of_wrong_shape(kernel, device, shape):
    with pytest.raises(ValueError, match=r"out has shape .*; must have \[3, 2\]"):
        kernel.silu_and_mul(torch.ones(3, 4, device=device), torch.ones(shape, device=device))


def test_out_on_wrong_device(kernel, device):
    with pytest.raises(ValueError, match="out is on meta, but x is on"):
        kernel.silu_and_mul(torch.ones(4, device=device), torch.ones(2, device="meta"))


def test_x_on_wrong_device(kernel, device):
    with pytest.raises(ValueError, match="x is on meta, but this is a build for the"):
        kernel.silu_and_mul(torch.ones(4, device="meta"))


def test_cpu_tensor(kernel, device):
    with pytest.raises(ValueError, match="x is on cpu, but this is a build for the CUDA backend"):
        kernel.silu_and_mul(torch.ones(4))


def test_out_expanded(kernel, device):
    with pytest.raises(ValueError, match="out: has rows that overlap each other; must not be expanded"):
        kernel.silu_and_mul(torch.ones(3, 4, device=device), torch.ones(1, 2, device=device).expand(3, 2))


def test_out_shares_memory_with_x(kernel, device):
    buffer = torch.randn(1000, device=device)
    for out in buffer[1:11], buffer[5:15], buffer[19:29], buffer[9:19]:
        with pytest.raises(ValueError, match="out: shares memory with x; must not"):
            kernel.silu_and_mul(buffer[:20], out)
    kernel.silu_and_mul(buffer[:20], buffer[20:30])
    with pytest.raises(ValueError, match="out: shares memory with x; must not"):
        kernel.silu_and_mul(buffer[:80].view(4, 20), buffer[:40].view(4, 10))


@pytest.mark.parametrize("x", [None, "x", [1.0, 2.0]], ids=str)
def test_no_tensor(kernel, device, x):
    with pytest.raises(TypeError, match=r"x must be a torch\.Tensor"):
        kernel.silu_and_mul(x)
    if x is not None:
        with pytest.raises(TypeError, match=r"out must be a torch\.Tensor"):
            kernel.silu_and_mul(torch.ones(4, device=device), x)


def test_requires_grad(kernel, device):
    x = torch.ones(4, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="there is no backward"):
        kernel.silu_and_mul(x)
    with pytest.raises(RuntimeError, match="there is no backward"):
        kernel.silu_and_mul(x.detach(), torch.ones(2, device=device, requires_grad=True))
    with torch.no_grad():
        assert_accurate(kernel.silu_and_mul(x), x.detach())
    with torch.inference_mode():
        assert_accurate(kernel.silu_and_mul(x), x.detach())


def test_function_of_the_library_checks_too(kernel, device):
    """What a call without the Python wrapper gets to see, for all that could read or write out of bounds."""
    x = torch.ones(6, 8, device=device)
    row = torch.ones(1, 4, device=device)
    for out, bad_x, match in [
        (row[0], x[0], "x: has shape [8]; must have 2 dimensions"),
        (x[:, :3].clone(), x[:, :7], "x: has shape [6, 7]; must have an even number of columns"),
        (x[:, :3].clone(), x, "out: has shape [6, 3]; must have shape [6, 4]"),
        (x[:5, :4].clone(), x, "out: has shape [5, 4]; must have shape [6, 4]"),
        (x[:, :2].clone(), x[:, ::2], "x: has strides [8, 2] for shape [6, 4]; its rows must be contiguous"),
        (x.clone()[:, ::2], x, "out: has strides [8, 2] for shape [6, 4]; its rows must be contiguous"),
        (row.expand(6, 4), x, "out: has rows that overlap each other"),
        (x.flatten()[1:25].view(6, 4), x, "out: shares memory with x"),
        (x[:, :4].cpu(), x, "out: "),
    ]:
        with pytest.raises(ValueError, match=re.escape(match)):
            kernel._ops.ops.silu_and_mul(out, bad_x)


def test_more_elements_than_an_i32_counts(kernel, device):
    """Offsets of both kinds: along one long row, and over many rows."""
    size = 2**31 + 4096
    if torch.cuda.mem_get_info(device)[0] < 4 * size:
        pytest.skip("needs 9 GB of free GPU memory")
    x = torch.zeros(size, dtype=torch.bfloat16, device=device)
    for view in x.view(1, -1), x.view(-1, 4096):
        view[-1, -3:] = 2
        view[-1, view.shape[1] // 2 - 3 : view.shape[1] // 2] = 20
        assert (kernel.silu_and_mul(view)[-1, -4:] == torch.tensor([0, 40, 40, 40], device=device)).all()


# torch.compile and layers


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(kernel, device, dynamic):
    torch.compiler.reset()
    compiled = torch.compile(
        lambda x: kernel.silu_and_mul(x * 2) + 1, fullgraph=True, backend="aot_eager", dynamic=dynamic
    )
    for shape in [(3, 4), (5, 6), (1, 8)]:
        x = torch.randn(shape, device=device)
        assert torch.equal(compiled(x), kernel.silu_and_mul(x * 2) + 1)
        assert torch.equal(compiled(x.t().contiguous().t()), compiled(x))


def test_compile_out(kernel, device):
    torch.compiler.reset()

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(x, out):
        kernel.silu_and_mul(x, out)
        return out + 1

    x = torch.randn(9, 10, device=device)
    out = torch.empty(9, 5, device=device)
    y = compiled(x, out)
    assert torch.equal(out, kernel.silu_and_mul(x))
    assert torch.equal(y, out + 1)


def test_opcheck(kernel, device):
    op = kernel._functional._silu_and_mul_out
    for x in torch.randn(5, 8, device=device), torch.randn(8, 5, device=device).t(), torch.empty(0, 4, device=device):
        torch.library.opcheck(op, (x, torch.empty(x.shape[0], x.shape[1] // 2, device=device)))


@kernels.use_kernel_forward_from_hub("SiluAndMul")
class Activation(nn.Module):
    """What a model would have of its own; deliberately something else, so that one sees which of the two ran."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x[..., : x.shape[-1] // 2], 123)


@pytest.mark.kernels_ci
def test_kernelize(kernel, device):
    repo = kernels.LocalLayerRepository(Path(kernel.__file__).parent, layer_name="SiluAndMul")
    model = nn.Sequential(nn.Linear(5, 8), Activation()).to(device)
    x = torch.randn(3, 5, device=device)
    assert (model(x) == 123).all()
    mode = kernels.Mode.INFERENCE | kernels.Mode.TORCH_COMPILE
    with kernels.use_kernel_mapping({"SiluAndMul": {device.type: repo}}, inherit_mapping=False):
        model = kernels.kernelize(model, mode=mode, device=device, use_fallback=False)
    with torch.no_grad():
        assert_accurate(model(x), model[0](x))
        torch.compiler.reset()
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(x), model(x))


def test_kernelize_for_training_keeps_the_model(kernel, device):
    repo = kernels.LocalLayerRepository(Path(kernel.__file__).parent, layer_name="SiluAndMul")
    model = nn.Sequential(Activation()).to(device)
    with kernels.use_kernel_mapping({"SiluAndMul": {device.type: repo}}, inherit_mapping=False):
        model = kernels.kernelize(model, mode=kernels.Mode.TRAINING, device=device)
    assert (model(torch.randn(3, 8, device=device)) == 123).all()
