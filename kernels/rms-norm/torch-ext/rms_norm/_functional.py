"""The function, and what autograd and torch.compile need to know of it."""

from typing import Optional

import torch

from ._ops import add_op_namespace_prefix, ops


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: Optional[float] = None) -> torch.Tensor:
    """Return ``x / sqrt(mean(x ** 2) + eps) * weight`` over the last dimension, as ``torch.nn.functional.rms_norm``.

    dtypes: float32, float16 and bfloat16, the same for ``x`` and ``weight``; sums are taken in float32, and the result
    is rounded once. ``x`` may have any strides; the result is contiguous. ``eps`` is the dtype's own by default.
    """
    for name, value in ("x", x), ("weight", weight):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"rms_norm: {name} must be a torch.Tensor, not {type(value).__name__}")
    if eps is None:
        eps = torch.finfo(x.dtype).eps if x.dtype.is_floating_point else 0.0
    return ops.rms_norm(x, weight, eps)[0]


def _rows(x: torch.Tensor) -> int:
    rows = 1
    for size in x.shape[:-1]:
        rows = rows * size
    return rows


@torch.library.register_fake(add_op_namespace_prefix("rms_norm"))
def _rms_norm_fake(x, weight, eps):
    torch._check(weight.dtype == x.dtype, lambda: f"rms_norm: weight has dtype {weight.dtype}, but x has {x.dtype}")
    return x.new_empty(x.shape), x.new_empty((_rows(x),), dtype=torch.float32)


@torch.library.register_fake(add_op_namespace_prefix("rms_norm_backward"))
def _rms_norm_backward_fake(grad, x, weight, rstd):
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def _save(ctx, inputs, output):
    x, weight, _ = inputs
    _, rstd = output
    ctx.mark_non_differentiable(rstd)
    ctx.save_for_backward(x, weight, rstd)


def _backward(ctx, grad, _):
    x, weight, rstd = ctx.saved_tensors
    x_grad, weight_grad = ops.rms_norm_backward(grad, x, weight, rstd)
    return x_grad, weight_grad, None


torch.library.register_autograd(add_op_namespace_prefix("rms_norm"), _backward, setup_context=_save)
