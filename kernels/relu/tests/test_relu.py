import pytest
import torch

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
# Around the vector sizes, and one that is split between threads.
SIZES = [1, 2, 3, 7, 15, 16, 17, 31, 63, 64, 65, 255, 1000, 4097, 200_003]


def random(shape, dtype, device):
    if dtype.is_floating_point:
        return torch.randn(shape, device=device).to(dtype)
    info = torch.iinfo(dtype)
    low, high = max(info.min, -1000), min(info.max, 1000)
    return torch.randint(low, high, torch.empty(shape).shape, device=device, dtype=dtype)


def assert_same(actual, expected):
    """Bit for bit, but for NaN payloads; dtype and strides too."""
    assert actual.dtype == expected.dtype
    if actual.numel() > 0:
        assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    if actual.is_floating_point():
        number = ~actual.isnan()
        assert torch.equal(torch.signbit(actual[number]), torch.signbit(expected[number]))


def layouts(dtype, device):
    """Tensors with all kinds of strides, by name."""
    base = random((6, 10, 14), dtype, device)
    return {
        "transposed": base.transpose(0, 2),
        "permuted": base.permute(1, 2, 0),
        "channels_last": random((2, 5, 4, 3), dtype, device).to(memory_format=torch.channels_last),
        "columns": base[:, :, 3:9],
        "every_second": base[:, ::2],
        "transposed_slice": base[1:4, :, 2:].transpose(1, 2),
        "expanded": base[:, :1, :].expand(6, 10, 14),
        "expanded_scalar": base[0, 0, 0].expand(3, 4),
        "size_one_dim": base[:, 3:4, :],
        "offset_1": base.flatten()[1:],
        "offset_3_of_7": base.flatten()[3:10],
        "empty_slice": base[:, 4:4, ::3],
    }


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_sizes(kernel, device, dtype, size):
    x = random(size, dtype, device)
    assert_same(kernel.relu(x), torch.relu(x))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 5), (1,), (1, 1), (5, 7), (2, 3, 4, 5, 6)], ids=str)
def test_shapes(kernel, device, dtype, shape):
    x = random(shape, dtype, device)
    y = kernel.relu(x)
    assert y.shape == x.shape
    assert_same(y, torch.relu(x))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("layout", layouts(torch.float32, "cpu"))
def test_layouts(kernel, device, dtype, layout):
    x = layouts(dtype, device)[layout]
    before = x.clone()
    assert_same(kernel.relu(x), torch.relu(x))
    assert torch.equal(x, before)


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_special_values(kernel, device, dtype):
    info = torch.finfo(dtype)
    values = [0.0, -0.0, info.tiny, -info.tiny, info.max, info.min, float("inf"), -float("inf"), float("nan")]
    values += [info.smallest_normal / 2, -info.smallest_normal / 2, info.eps, -info.eps]
    # 33 times, so that each value meets each position in a vector, and the scalar rest.
    x = torch.tensor(values * 33, dtype=dtype, device=device)
    x = torch.cat([x, -x])
    assert_same(kernel.relu(x), torch.relu(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_every_16_bit_float(kernel, device, dtype):
    x = torch.arange(-(2**15), 2**15, device=device).to(torch.int16).view(dtype)
    assert_same(kernel.relu(x), torch.relu(x))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_limits(kernel, device, dtype):
    info = torch.iinfo(dtype)
    x = torch.tensor([info.min, info.min + 1, 0, 1, info.max - 1, info.max] * 33, dtype=dtype, device=device)
    assert_same(kernel.relu(x), torch.relu(x))


# out=


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_out(kernel, device, dtype):
    x = random((33, 65), dtype, device)
    out = torch.full_like(x, 77)
    assert kernel.relu(x, out=out) is out
    assert_same(out, torch.relu(x))


@pytest.mark.parametrize("layout", [name for name in layouts(torch.float32, "cpu") if "expanded" not in name])
@pytest.mark.parametrize("contiguous_x", [True, False])
def test_out_layouts(kernel, device, layout, contiguous_x):
    out = layouts(torch.float32, device)[layout]
    strides = out.stride()
    x = random(out.shape, out.dtype, device)
    if not contiguous_x:
        x = torch.stack([x, x], dim=-1)[..., 0]
    kernel.relu(x, out=out)
    assert out.stride() == strides
    assert torch.equal(out, torch.relu(x))


def test_out_writes_nothing_else(kernel, device):
    buffer = torch.full((100,), 5.0, device=device)
    kernel.relu(-torch.ones(31, device=device), out=buffer[1:63:2])
    kernel.relu(-torch.ones(17, device=device), out=buffer[71:88])
    expected = torch.full((100,), 5.0, device=device)
    expected[1:63:2] = 0
    expected[71:88] = 0
    assert torch.equal(buffer, expected)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_in_place(kernel, device, dtype):
    x = random(4097, dtype, device)
    expected = torch.relu(x)
    kernel.relu(x, out=x)
    assert torch.equal(x, expected)


@pytest.mark.parametrize("shift", [1, 8, 1000])
def test_out_overlaps_x(kernel, device, shift):
    buffer = random(300_000, torch.float32, device)
    expected = torch.relu(buffer[shift:])
    kernel.relu(buffer[shift:], out=buffer[:-shift])
    assert torch.equal(buffer[:-shift], expected)


# Bad inputs


@pytest.mark.kernels_ci
@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.complex64, torch.uint16, torch.uint32, torch.float8_e4m3fn], ids=str
)
def test_unsupported_dtype(kernel, device, dtype):
    x = torch.zeros(8, device=device).to(dtype)
    with pytest.raises(RuntimeError, match="x has unsupported dtype"):
        kernel.relu(x)
    with pytest.raises(RuntimeError, match="x has unsupported dtype"):
        kernel.relu(x, out=torch.zeros_like(x))


@pytest.mark.parametrize("shape", [(3, 5), (15,), (5, 3), (1, 3, 4), (3,), ()], ids=str)
def test_out_of_wrong_shape(kernel, device, shape):
    out = torch.empty(shape, device=device)
    with pytest.raises(RuntimeError, match=r"out has shape .* x has shape \[3, 4\]"):
        kernel.relu(torch.randn(3, 4, device=device), out=out)


def test_out_of_wrong_dtype(kernel, device):
    with pytest.raises(RuntimeError, match="out has dtype Double, but x has dtype Float"):
        kernel.relu(torch.randn(3, device=device), out=torch.empty(3, device=device, dtype=torch.float64))


def test_out_on_wrong_device(kernel, device):
    with pytest.raises(RuntimeError, match="out is on meta, but x is on"):
        kernel.relu(torch.randn(3, device=device), out=torch.empty(3, device="meta"))


def test_x_and_out_on_cpu_and_gpu(kernel, device):
    if device.type == "cpu":
        pytest.skip("needs a variant for a device other than the CPU")
    with pytest.raises(RuntimeError, match="out and x must be on the same device"):
        kernel.relu(torch.randn(3), out=torch.empty(3, device=device))
    with pytest.raises(RuntimeError, match="out and x must be on the same device"):
        kernel.relu(torch.randn(3, device=device), out=torch.empty(3))


def test_out_expanded(kernel, device):
    out = torch.zeros(1, 4, device=device).expand(3, 4)
    with pytest.raises(RuntimeError, match="elements of out share one memory location"):
        kernel.relu(torch.randn(3, 4, device=device), out=out)


@pytest.mark.parametrize("x", [None, "x", [1.0, 2.0]], ids=str)
def test_x_is_no_tensor(kernel, device, x):
    with pytest.raises(TypeError, match="x must be a torch.Tensor"):
        kernel.relu(x)
    if x is not None:
        with pytest.raises(TypeError, match="out must be a torch.Tensor"):
            kernel.relu(torch.ones(2), out=x)


def test_out_with_autograd(kernel, device):
    x = torch.randn(4, device=device, requires_grad=True)
    out = torch.empty(4, device=device)
    with pytest.raises(RuntimeError, match="out= does not support automatic differentiation"):
        kernel.relu(x, out=out)
    with pytest.raises(RuntimeError, match="out= does not support automatic differentiation"):
        kernel.relu(x.detach(), out=torch.empty(4, device=device, requires_grad=True))
    with torch.no_grad():
        assert torch.equal(kernel.relu(x, out=out), torch.relu(x))


def test_backward_checks_its_arguments(kernel, device):
    backward = kernel._ops.ops.relu_backward
    result = torch.ones(4, device=device)
    with pytest.raises(RuntimeError, match="grad has shape"):
        backward(torch.ones(5, device=device), result)
    with pytest.raises(RuntimeError, match="grad has dtype"):
        backward(torch.ones(4, device=device, dtype=torch.float64), result)
    with pytest.raises(RuntimeError, match="unsupported dtype"):
        backward(torch.ones(4, device=device, dtype=torch.int32), torch.ones(4, device=device, dtype=torch.int32))


# Autograd and torch.compile


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("layout", ["contiguous", *layouts(torch.float32, "cpu")])
def test_backward(kernel, device, dtype, layout):
    x = random((33, 65), dtype, device) if layout == "contiguous" else layouts(dtype, device)[layout]
    grad = random(x.shape, dtype, device)

    def gradient(relu, grad):
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(relu(leaf), leaf, grad)[0]

    assert torch.equal(gradient(kernel.relu, grad), gradient(torch.relu, grad))
    expanded = torch.ones((), dtype=dtype, device=device).expand(x.shape)
    assert torch.equal(gradient(kernel.relu, expanded), gradient(torch.relu, expanded))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_backward_special_values(kernel, device, dtype):
    values = [0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), torch.finfo(dtype).tiny]
    x, grad = torch.cartesian_prod(*[torch.tensor(values * 3, dtype=dtype, device=device)] * 2).unbind(1)
    gradients = []
    for relu in kernel.relu, torch.relu:
        leaf = x.clone().requires_grad_()
        gradients += torch.autograd.grad(relu(leaf), leaf, grad)
    assert_same(*gradients)


@pytest.mark.parametrize("strided", [False, True])
def test_gradcheck(kernel, device, strided):
    # Away from 0, where the derivative is not defined.
    x = torch.randn(5, 7, dtype=torch.float64, device=device)
    x = torch.where(x.abs() < 0.1, 0.5, x)
    x = (x.t()[::2] if strided else x).detach().requires_grad_()
    assert torch.autograd.gradcheck(kernel.relu, x)
    assert torch.autograd.gradgradcheck(kernel.relu, x)


def opcheck_inputs(device):
    yield torch.randn(5, 7, device=device)
    yield torch.randn(5, 7, device=device).t()
    yield torch.randn(6, 8, device=device)[::2, ::3]
    yield torch.randn(4, 1, device=device).expand(4, 3)
    yield torch.empty(0, 3, device=device)
    yield torch.randn((), device=device)


def test_opcheck(kernel, device):
    ops = kernel._ops.ops
    for x in opcheck_inputs(device):
        torch.library.opcheck(ops.relu.default, (x.clone(memory_format=torch.preserve_format),))
        torch.library.opcheck(ops.relu.default, (x.detach().requires_grad_(),))
        torch.library.opcheck(ops.relu_backward.default, (torch.randn_like(x), x))
        torch.library.opcheck(ops.relu_backward.default, (torch.randn_like(x).requires_grad_(), x))
        torch.library.opcheck(ops.relu_out.default, (x, torch.empty(x.shape, device=device)))


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(kernel, device, dynamic):
    torch.compiler.reset()
    # aot_eager traces, functionalises and differentiates as for inductor, and then runs without generating code.
    compiled = torch.compile(lambda x: kernel.relu(x * 2) + 1, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for shape in [(3, 4), (5, 6), (1, 7)]:
        x = torch.randn(shape, device=device, requires_grad=True)
        y = compiled(x)
        expected = torch.relu(x * 2) + 1
        assert torch.equal(y, expected)
        assert torch.equal(*(torch.autograd.grad(result.sum(), x)[0] for result in (y, expected)))


def test_compile_out(kernel, device):
    torch.compiler.reset()

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(x, out):
        kernel.relu(x, out=out)
        return out + 1

    x = torch.randn(9, 5, device=device)
    out = torch.empty_like(x)
    y = compiled(x, out)
    assert torch.equal(out, torch.relu(x))
    assert torch.equal(y, out + 1)


def test_meta(kernel, device):
    x = torch.empty(4, 6, device="meta").t()
    y = kernel.relu(x)
    assert (y.device.type, y.shape, y.stride()) == ("meta", x.shape, x.stride())
