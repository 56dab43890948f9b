import pytest
import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Around the vector sizes, the widths of a warp and of a block, what a thread keeps, and more than that.
COLUMNS = [1, 3, 8, 31, 64, 257, 1000, 4096, 5120, 16384, 40_000]
# One unit in the last place around 1, and what float32 sums of a long row may be off.
TOLERANCES = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def reference(x, weight, eps=None):
    """In float64, rounded once."""
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    wide = x.double()
    normal = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (normal * weight.double()).to(x.dtype)


def assert_close(actual, expected):
    tolerance = TOLERANCES[expected.dtype]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def inputs(shape, dtype, device):
    torch.manual_seed(0)
    x = torch.randn(shape, device=device).to(dtype)
    return x, torch.randn(shape[-1], device=device).to(dtype)


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", COLUMNS)
def test_columns(kernel, device, dtype, columns):
    x, weight = inputs((7, columns), dtype, device)
    assert_close(kernel.rms_norm(x, weight), reference(x, weight))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(5,), (1, 1), (2, 3, 4), (2, 1, 3, 8), (0, 8), (3, 0), (3000, 16)], ids=str)
def test_shapes(kernel, device, dtype, shape):
    x, weight = inputs(shape, dtype, device)
    y = kernel.rms_norm(x, weight, 1e-6)
    assert y.shape == x.shape
    assert y.is_contiguous()
    assert_close(y, reference(x, weight, 1e-6))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_like_torch(kernel, device, dtype):
    x, weight = inputs((33, 384), dtype, device)
    assert_close(kernel.rms_norm(x, weight), torch.nn.functional.rms_norm(x, (384,), weight))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_strides_and_alignment(kernel, device, dtype):
    base, _ = inputs((6, 10, 64), dtype, device)
    weight = torch.randn(70, device=device).to(dtype)
    for x in base.transpose(0, 1), base[:, ::2], base[..., 1:], base[..., ::2], base[:, :1].expand(6, 10, 64):
        part = weight[3 : 3 + x.shape[-1]]
        before = x.clone()
        assert_close(kernel.rms_norm(x, part), reference(x, part))
        assert torch.equal(x, before)
    # A row that is contiguous and starts beside a 16-byte boundary.
    x = base.flatten()[1:641].view(10, 64)
    assert_close(kernel.rms_norm(x, weight[1:65]), reference(x, weight[1:65]))


@pytest.mark.kernels_ci
def test_special_values(kernel, device):
    x = torch.ones(5, 8, device=device)
    x[0] = 0
    x[1, 3] = float("nan")
    x[2, 3] = float("inf")
    x[3] = 1e-30
    weight = torch.full((8,), 2.0, device=device)
    y = kernel.rms_norm(x, weight, 1e-6)
    assert torch.equal(y[0], torch.zeros(8, device=device))
    assert y[1].isnan().all()
    assert torch.equal(y[2, :3], torch.zeros(3, device=device))
    assert y[2, 3].isnan()
    assert_close(y[3:], reference(x, weight, 1e-6)[3:])


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", COLUMNS)
def test_backward(kernel, device, dtype, columns):
    rows = 5
    x, weight = inputs((rows, columns), dtype, device)
    grad = torch.randn(rows, columns, device=device).to(dtype)
    leaves = [tensor.detach().requires_grad_() for tensor in (x, weight)]
    wide = [tensor.double().requires_grad_() for tensor in (x, weight)]
    found = torch.autograd.grad(kernel.rms_norm(*leaves, 1e-5), leaves, grad)
    expected = torch.autograd.grad(reference(*wide, 1e-5), wide, grad.double())
    for gradient, exact, leaf in zip(found, expected, leaves):
        assert (gradient.shape, gradient.dtype) == (leaf.shape, leaf.dtype)
        assert_close(gradient, exact.to(dtype))


def test_backward_over_many_rows(kernel, device):
    x, weight = inputs((5000, 64), torch.float32, device)
    x.requires_grad_()
    weight.requires_grad_()
    kernel.rms_norm(x, weight, 1e-5).sum().backward()  # Its gradient is an expanded tensor.
    wide = [tensor.detach().double().requires_grad_() for tensor in (x, weight)]
    reference(*wide, 1e-5).sum().backward()
    torch.testing.assert_close(x.grad, wide[0].grad.float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(weight.grad, wide[1].grad.float(), rtol=1e-4, atol=1e-3)


def test_same_result_every_time(kernel, device):
    x, weight = inputs((3000, 256), torch.bfloat16, device)
    leaves = [x.requires_grad_(), weight.requires_grad_()]
    gradients = [torch.autograd.grad(kernel.rms_norm(*leaves).sum(), leaves) for _ in range(3)]
    assert all(torch.equal(a, b) for other in gradients[1:] for a, b in zip(gradients[0], other))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.bool], ids=str)
def test_unsupported_dtype(kernel, device, dtype):
    x = torch.zeros(2, 4, device=device).to(dtype)
    with pytest.raises(RuntimeError, match="x has unsupported dtype"):
        kernel.rms_norm(x, x[0])


@pytest.mark.kernels_ci
def test_bad_arguments(kernel, device):
    x, weight = inputs((3, 8), torch.float32, device)
    for wrong in weight[:7], weight.view(1, 8), weight[:0]:
        with pytest.raises(RuntimeError, match="one value for each element of the last dimension of x, which has 8"):
            kernel.rms_norm(x, wrong)
    with pytest.raises(RuntimeError, match="weight has dtype Half, but x has dtype Float"):
        kernel.rms_norm(x, weight.half())
    with pytest.raises(RuntimeError, match="at least one dimension"):
        kernel.rms_norm(x[0, 0], weight)
    with pytest.raises(TypeError, match="weight must be a torch.Tensor"):
        kernel.rms_norm(x, None)
    backward = kernel._ops.ops.rms_norm_backward
    rstd = torch.ones(3, device=device)
    with pytest.raises(RuntimeError, match="grad must have the shape"):
        backward(x[:2], x, weight, rstd)
    with pytest.raises(RuntimeError, match="rstd must be the one"):
        backward(x, x, weight, rstd[:2])


def test_opcheck(kernel, device):
    ops = kernel._ops.ops
    for shape in (3, 8), (2, 3, 5), (4,), (0, 3):
        x, weight = inputs(shape, torch.float32, device)
        torch.library.opcheck(ops.rms_norm.default, (x, weight, 1e-6))
        torch.library.opcheck(ops.rms_norm.default, (x.requires_grad_(), weight.requires_grad_(), 1e-6))


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(kernel, device, dynamic):
    torch.compiler.reset()
    # aot_eager traces, functionalises and differentiates as for inductor, and then runs without generating code.
    compiled = torch.compile(lambda *a: kernel.rms_norm(*a) + 1, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for rows in 3, 5, 1:
        x, weight = inputs((rows, 16), torch.float32, device)
        leaves = [x.requires_grad_(), weight.requires_grad_()]
        eager, traced = kernel.rms_norm(*leaves) + 1, compiled(*leaves)
        assert torch.equal(eager, traced)
        for a, b in zip(*(torch.autograd.grad(y.square().sum(), leaves) for y in (eager, traced))):
            assert torch.equal(a, b)


def test_layer(kernel, device):
    layer = kernel.layers.RMSNorm()
    x, layer.weight = inputs((3, 8), torch.float32, device)
    layer.variance_epsilon = 1e-5
    assert_close(layer(x), reference(x, layer.weight, 1e-5))


def test_meta(kernel, device):
    x = torch.empty(4, 6, device="meta")
    y = kernel.rms_norm(x, torch.empty(6, device="meta"))
    assert (y.device.type, y.shape) == ("meta", x.shape)
