"""The gated linear unit with GELU, in plain PyTorch."""

from . import layers
from ._functional import geglu

__all__ = ["geglu", "layers"]
