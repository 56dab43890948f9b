from ._ops import ops

plain = ops.plain
fast = ops.fast
