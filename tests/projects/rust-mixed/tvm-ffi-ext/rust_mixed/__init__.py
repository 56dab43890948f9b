from ._ops import ops


def answer() -> int:
    return ops.answer()


def parts() -> tuple[int, int]:
    return ops.one(), ops.two()
