"""Layers for the client's ``kernelize``. Such a layer is pure: it has only ``forward``, and no state."""

import torch
from torch import nn

from ._functional import geglu


class GeGLU(nn.Module):
    """gelu(x[..., :d]) * x[..., d:]"""

    has_backward: bool = True
    can_torch_compile: bool = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return geglu(x)


class GeGLUTanh(nn.Module):
    """The same with the tanh approximation of gelu."""

    has_backward: bool = True
    can_torch_compile: bool = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return geglu(x, approximate="tanh")
