"""Layers for the client's ``kernelize``. Such a layer is pure: it has only ``forward``, and no state."""

import torch
from torch import nn

from ._functional import silu_and_mul


class SiluAndMul(nn.Module):
    """silu(x[..., :d]) * x[..., d:]"""

    has_backward: bool = False
    can_torch_compile: bool = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return silu_and_mul(x)
