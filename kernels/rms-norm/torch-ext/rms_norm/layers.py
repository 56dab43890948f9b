"""Layers for the client's ``kernelize``. Such a layer is pure: it has only ``forward``, and no state of its own."""

import torch
from torch import nn

from ._functional import rms_norm


class RMSNorm(nn.Module):
    """RMS normalisation over the last dimension, with the weight and epsilon of the module that it replaces."""

    has_backward: bool = True
    can_torch_compile: bool = True

    weight: torch.Tensor
    variance_epsilon: float

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return rms_norm(hidden_states, self.weight, self.variance_epsilon)
