"""silu(gate) * up, fused, for the two halves of the last dimension; written in Rust, as a tile program."""

from . import layers
from ._functional import silu_and_mul

__all__ = ["layers", "silu_and_mul"]
