from ._ops import ops


def run() -> int:
    return ops.run()
