"""max(x, 0), written in Rust."""

import torch

from ._ops import ops

__all__ = ["relu"]


def relu(x: torch.Tensor) -> torch.Tensor:
    """`max(x, 0)` in a new, contiguous tensor. `x` is a float32, float16 or bfloat16 tensor of any shape and strides,
    on the CPU or on a CUDA device, whichever this variant is for. There is no backward."""
    if torch.is_grad_enabled() and x.requires_grad:
        raise RuntimeError("relu: x requires grad, and there is no backward; call it under torch.no_grad()")
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    ops.relu(out, x.contiguous())
    return out
