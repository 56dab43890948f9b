"""Root mean square normalisation of rows with backward, on torch's stable ABI."""

from . import layers
from ._functional import rms_norm

__all__ = ["layers", "rms_norm"]
