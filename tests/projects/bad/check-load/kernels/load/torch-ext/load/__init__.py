from ._ops import no_such_name

__all__ = ["no_such_name"]
