"""silu(gate) * up, fused, for the two halves of the last dimension."""

from . import layers
from ._functional import cpu_isas, silu_and_mul

__all__ = ["cpu_isas", "layers", "silu_and_mul"]
