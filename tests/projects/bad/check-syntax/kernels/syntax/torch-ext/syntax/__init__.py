from .layers import relu


def scale(x, by: float | None = None):
    return relu(x) if by is None else relu(x) * by
