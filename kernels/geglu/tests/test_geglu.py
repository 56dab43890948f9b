import math
from pathlib import Path

import kernels
import pytest
import torch
from torch import nn

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
APPROXIMATE = ["none", "tanh"]


def gelu(x, approximate):
    """By its definition."""
    if approximate == "none":
        return x * (1 + torch.erf(x * math.sqrt(0.5))) / 2
    return x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def reference(x, approximate):
    gate, up = x.double().tensor_split(2, dim=-1)
    return gelu(gate, approximate) * up


def assert_accurate(actual, x, approximate):
    """Against float64. For a very negative gate, gelu is a small difference of large numbers, so what its rounding
    errors are relative to is the gate and not the result."""
    assert actual.dtype == x.dtype
    gate, up = x.double().tensor_split(2, dim=-1)
    info = torch.finfo(x.dtype)
    error = (actual.double() - reference(x, approximate)).abs()
    bound = 4 * info.eps * (gate * up).abs() + 2 * info.tiny * (1 + up.abs())
    assert (error <= bound).all()


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("approximate", APPROXIMATE)
@pytest.mark.parametrize("d", [1, 2, 3, 7, 15, 16, 17, 31, 63, 255, 1000, 4097])
def test_sizes(kernel, device, dtype, approximate, d):
    x = (3 * torch.randn(3, 2 * d, device=device)).to(dtype)
    y = kernel.geglu(x, approximate)
    assert y.shape == (3, d)
    assert_accurate(y, x, approximate)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(2,), (0,), (0, 6), (3, 0), (1, 2), (2, 3, 4, 8)], ids=str)
def test_shapes(kernel, device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    y = kernel.geglu(x)
    assert y.shape == (*shape[:-1], shape[-1] // 2)
    assert_accurate(y, x, "none")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("approximate", APPROXIMATE)
def test_layouts(kernel, device, dtype, approximate):
    base = torch.randn(6, 10, 14, device=device).to(dtype)
    for x in [
        base.transpose(0, 2),
        base.permute(1, 2, 0),
        base[:, :, 3:9],
        base[:, ::2, ::7],
        base[:, :1].expand(6, 10, 14),
        base[..., :1].expand(6, 10, 14),
        base.flatten()[1:41].view(4, 10),
    ]:
        assert_accurate(kernel.geglu(x, approximate), x, approximate)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("approximate", APPROXIMATE)
def test_special_values(kernel, device, dtype, approximate):
    info = torch.finfo(dtype)
    values = [0.0, -0.0, 1.0, -1.0, info.tiny, -info.tiny, 20.0, -20.0, float("inf"), -float("inf"), float("nan")]
    x = torch.cartesian_prod(*[torch.tensor(values, dtype=dtype, device=device)] * 2)
    torch.testing.assert_close(
        kernel.geglu(x, approximate).double(),
        reference(x, approximate),
        rtol=4 * info.eps,
        atol=4 * info.tiny,
        equal_nan=True,
    )


@pytest.mark.kernels_ci
@pytest.mark.parametrize("shape", [(), (1,), (3,), (4, 5), (0, 7)], ids=str)
def test_odd_last_dimension(kernel, device, shape):
    with pytest.raises(ValueError, match="the last dimension of x must have an even size"):
        kernel.geglu(torch.ones(shape, device=device))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.complex64], ids=str)
def test_unsupported_dtype(kernel, device, dtype):
    with pytest.raises(TypeError, match="x must have a floating point dtype"):
        kernel.geglu(torch.ones(4, device=device, dtype=dtype))


@pytest.mark.parametrize("x", [None, "x", [1.0, 2.0]], ids=str)
def test_x_is_no_tensor(kernel, device, x):
    with pytest.raises(TypeError, match=r"x must be a torch\.Tensor"):
        kernel.geglu(x)


@pytest.mark.parametrize("approximate", ["erf", "", None])
def test_unknown_approximation(kernel, device, approximate):
    with pytest.raises(ValueError, match="approximate must be 'none' or 'tanh'"):
        kernel.geglu(torch.ones(4, device=device), approximate)


@pytest.mark.kernels_ci
@pytest.mark.parametrize("approximate", APPROXIMATE)
@pytest.mark.parametrize("strided", [False, True])
def test_gradcheck(kernel, device, approximate, strided):
    x = torch.randn(4, 6, dtype=torch.float64, device=device)
    x = (x.t() if strided else x).requires_grad_()
    assert torch.autograd.gradcheck(kernel.geglu, (x, approximate))
    assert torch.autograd.gradgradcheck(kernel.geglu, (x, approximate))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("approximate", APPROXIMATE)
def test_gradient(kernel, device, dtype, approximate):
    x = torch.randn(9, 34, device=device).to(dtype).requires_grad_()
    (actual,) = torch.autograd.grad(kernel.geglu(x, approximate).sum(), x)
    wide = x.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(reference(wide, approximate).sum(), wide)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(actual.double(), expected, rtol=4 * eps, atol=8 * eps)


@pytest.mark.kernels_ci
@pytest.mark.parametrize("approximate", APPROXIMATE)
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(kernel, device, approximate, dynamic):
    torch.compiler.reset()
    compiled = torch.compile(
        lambda x: kernel.geglu(x, approximate) + 1, fullgraph=True, backend="aot_eager", dynamic=dynamic
    )
    for shape in [(3, 4), (5, 6), (1, 8)]:
        x = torch.randn(shape, device=device, requires_grad=True)
        y = compiled(x)
        expected = kernel.geglu(x, approximate) + 1
        assert torch.equal(y, expected)
        assert torch.equal(*(torch.autograd.grad(result.sum(), x)[0] for result in (y, expected)))


# Layers


@kernels.use_kernel_forward_from_hub("GeGLU")
class Activation(nn.Module):
    """What a model would have of its own; deliberately not geglu, so that one sees which of the two ran."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x[..., : x.shape[-1] // 2], 123)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 8)
        self.activation = Activation()

    def forward(self, x):
        return self.activation(self.linear(x))


@pytest.mark.kernels_ci
@pytest.mark.parametrize(("layer_name", "approximate"), [("GeGLU", "none"), ("GeGLUTanh", "tanh")])
@pytest.mark.parametrize("mode", [kernels.Mode.INFERENCE, kernels.Mode.TRAINING | kernels.Mode.TORCH_COMPILE], ids=str)
def test_kernelize(kernel, device, layer_name, approximate, mode):
    repo = kernels.LocalLayerRepository(Path(kernel.__file__).parent, layer_name=layer_name)
    model = Model().to(device)
    x = torch.randn(3, 5, device=device)
    assert (model(x) == 123).all()
    with kernels.use_kernel_mapping({"GeGLU": {device.type: repo}}, inherit_mapping=False):
        model = kernels.kernelize(model, mode=mode, device=device, use_fallback=False)
    assert_accurate(model(x).detach(), model.linear(x).detach(), approximate)

    model(x).sum().backward()
    assert model.linear.weight.grad.abs().max() > 0
    if kernels.Mode.TORCH_COMPILE in mode:
        torch.compiler.reset()
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(x), model(x))


def test_layers_equal_the_function(kernel, device):
    x = torch.randn(3, 8, device=device)
    assert torch.equal(kernel.layers.GeGLU()(x), kernel.geglu(x))
    assert torch.equal(kernel.layers.GeGLUTanh()(x), kernel.geglu(x, "tanh"))
