"""The name of the package is silu_and_mul."""
