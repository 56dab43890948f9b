from imports import layers

from .layers import relu

__all__ = ["layers", "relu"]
