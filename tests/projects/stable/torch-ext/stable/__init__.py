from ._ops import add_op_namespace_prefix, ops

__all__ = ["add_op_namespace_prefix", "ops"]
