"""max(x, 0) with backward, on torch's stable ABI."""

from typing import Optional

import torch

from ._ops import add_op_namespace_prefix, ops

__all__ = ["relu"]


def relu(x: torch.Tensor, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Return max(x, 0), elementwise, as ``torch.relu`` does.

    dtypes: float64, float32, float16, bfloat16, int64, int32, int16, int8 and uint8. ``x`` may have any strides.

    ``out``, if given, receives the result and is returned. It must have the shape, dtype and device of ``x``, and may
    be ``x`` itself. As everywhere in PyTorch, ``out`` cannot be combined with autograd.
    """
    for name, value in ("x", x), ("out", x if out is None else out):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"relu: {name} must be a torch.Tensor, not {type(value).__name__}")
    if out is None:
        return ops.relu(x)
    if torch.is_grad_enabled() and (x.requires_grad or out.requires_grad):
        raise RuntimeError(
            "relu: out= does not support automatic differentiation, but x or out requires grad; "
            "leave out= away, detach both, or use torch.no_grad()"
        )
    ops.relu_out(x, out)
    return out


# What torch.compile and meta tensors use instead of the kernels: the shape, strides and dtype of a result. empty_like
# is also what the kernels call, so that the strides agree.


@torch.library.register_fake(add_op_namespace_prefix("relu"))
def _relu_fake(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.register_fake(add_op_namespace_prefix("relu_out"))
def _relu_out_fake(x: torch.Tensor, out: torch.Tensor) -> None:
    torch._check(out.device == x.device, lambda: f"relu: out is on {out.device}, but x is on {x.device}")
    torch._check(out.dtype == x.dtype, lambda: f"relu: out has dtype {out.dtype}, but x has dtype {x.dtype}")
    torch._check(
        out.shape == x.shape, lambda: f"relu: out has shape {list(out.shape)}, but x has shape {list(x.shape)}"
    )


@torch.library.register_fake(add_op_namespace_prefix("relu_backward"))
def _relu_backward_fake(grad: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(result)


# The result says all that the backward needs, and unlike x it is usually kept by the next layer anyway.


def _save_result(ctx, inputs, output):
    ctx.save_for_backward(output)


def _backward(ctx, grad):
    (result,) = ctx.saved_tensors
    return ops.relu_backward(grad, result)


def _save_backward_result(ctx, inputs, output):
    _, result = inputs
    ctx.save_for_backward(result)


def _double_backward(ctx, grad):
    # relu_backward is linear in grad, and its derivative with respect to result is 0 almost everywhere.
    (result,) = ctx.saved_tensors
    return ops.relu_backward(grad, result), None


torch.library.register_autograd(add_op_namespace_prefix("relu"), _backward, setup_context=_save_result)
torch.library.register_autograd(
    add_op_namespace_prefix("relu_backward"), _double_backward, setup_context=_save_backward_result
)
