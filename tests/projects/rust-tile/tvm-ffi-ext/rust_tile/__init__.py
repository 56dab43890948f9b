from ._ops import ops


def image_byte(index: int) -> int:
    return ops.image_byte(index)
