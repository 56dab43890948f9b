import torch
import torch.nn.functional as F


def geglu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return gelu(x[..., :d]) * x[..., d:], where x.shape[-1] == 2 * d.

    ``approximate`` is "none" (exact, by erf) or "tanh", as for ``torch.nn.functional.gelu``.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"geglu: x must be a torch.Tensor, not {type(x).__name__}")
    if not x.is_floating_point():
        raise TypeError(f"geglu: x must have a floating point dtype, not {x.dtype}")
    if x.dim() == 0 or x.shape[-1] % 2 != 0:
        raise ValueError(f"geglu: the last dimension of x must have an even size, but x has shape {list(x.shape)}")
    if approximate not in ("none", "tanh"):
        raise ValueError(f"geglu: approximate must be 'none' or 'tanh', not {approximate!r}")
    d = x.shape[-1] // 2
    # Two passes over memory when run eagerly. torch.compile fuses them into one, which is why this is plain PyTorch.
    return F.gelu(x[..., :d], approximate=approximate) * x[..., d:]
