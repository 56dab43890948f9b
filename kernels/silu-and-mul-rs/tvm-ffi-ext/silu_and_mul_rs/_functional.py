from typing import Optional

import torch

from ._ops import ops
from ._ops import torch_add_op_namespace_prefix as add_op_namespace_prefix


def silu_and_mul(x: torch.Tensor, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Return silu(x[..., :d]) * x[..., d:], where x.shape[-1] == 2 * d and silu(v) = v / (1 + exp(-v)).

    dtypes: float32, float16 and bfloat16; computed in float32 and rounded once. There is no backward.

    ``out``, if given, receives the result and is returned. It has the shape of the result, and the dtype and device of
    ``x``; it may be exactly one half of ``x``, but must not share memory with it otherwise.
    """
    for name, value in ("x", x), ("out", x if out is None else out):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"silu_and_mul: {name} must be a torch.Tensor, not {type(value).__name__}")
    if x.dim() == 0 or x.shape[-1] % 2 != 0:
        raise ValueError(
            f"silu_and_mul: the last dimension of x must have an even size, but x has shape {list(x.shape)}"
        )
    if torch.is_grad_enabled() and (x.requires_grad or (out is not None and out.requires_grad)):
        raise RuntimeError(
            "silu_and_mul: there is no backward, but x or out requires grad; use torch.no_grad(), or detach it"
        )
    shape = (*x.shape[:-1], x.shape[-1] // 2)
    if out is None:
        out = torch.empty(shape, dtype=x.dtype, device=x.device)
    elif out.device != x.device:
        raise ValueError(f"silu_and_mul: out is on {out.device}, but x is on {x.device}")
    elif out.shape != shape:
        raise ValueError(f"silu_and_mul: out has shape {list(out.shape)}; must have {list(shape)}")
    if torch.compiler.is_compiling():
        _silu_and_mul_out(x, out)
    else:
        _run(x, out)
    return out


def _run(x: torch.Tensor, out: torch.Tensor) -> None:
    if x.device.type != "cuda":
        raise ValueError(f"silu_and_mul: x is on {x.device}, but this is a build for the CUDA backend")
    rows = x.numel() // max(x.shape[-1], 1)
    # The kernel wants matrices whose rows are contiguous; only what cannot be seen as one is copied.
    matrix = x.reshape(rows, x.shape[-1])
    if matrix.stride(-1) != 1:
        matrix = matrix.contiguous()
    result = _matrix(out, rows)
    if result is None:
        result = torch.empty((rows, out.shape[-1]), dtype=out.dtype, device=out.device)
        ops.silu_and_mul(result, matrix)
        out.copy_(result.view(out.shape))
    else:
        ops.silu_and_mul(result, matrix)


def _matrix(out: torch.Tensor, rows: int) -> Optional[torch.Tensor]:
    """The memory of out as a matrix with contiguous rows, or None where it is none."""
    if out.dim() == 1:
        matrix = out.unsqueeze(0)
    else:
        try:
            matrix = out.view(rows, out.shape[-1])
        except RuntimeError:
            return None
    return matrix if matrix.stride(-1) == 1 else None


# torch.compile cannot look into a tvm-ffi function, so there it gets a torch operator. Otherwise the function is called
# without this detour, which costs more than a small tensor.


@torch.library.custom_op(add_op_namespace_prefix("silu_and_mul_out"), mutates_args=("out",))
def _silu_and_mul_out(x: torch.Tensor, out: torch.Tensor) -> None:
    _run(x, out)


@_silu_and_mul_out.register_fake
def _silu_and_mul_out_fake(x: torch.Tensor, out: torch.Tensor) -> None:
    return None
