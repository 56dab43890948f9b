"""Arithmetic of whole numbers, which wraps as two's complement does, unless the program says that it does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.tile_ir.errors import ExecutionError
from tests.tile_ir.numbers import signed, unsigned, unspecified
from tests.tile_ir.program import Operation
from tests.tile_ir.types import Array, Element

Evaluate = Callable[[Operation, list[Array]], Array]


def _held(operation: Operation, values: Array) -> Array:
    """Numbers of any integer type cut to the bits of the result."""
    element = operation.result_tile.element
    assert isinstance(element, Element)
    return (values & 1).astype(np.bool_) if element.bits == 1 else values.astype(element.held)


def _exact(values: Array, view: Callable[[Array], Array]) -> Array:
    """The same numbers as Python's, which do not overflow."""
    return view(values).astype(object)


def _wrapping(compute: Callable[..., Array]) -> Evaluate:
    def evaluate(operation: Operation, arguments: list[Array]) -> Array:
        flags = operation.attributes["overflow"]
        result = compute(*arguments)
        views = [view for view, flag in ((signed, "nsw"), (unsigned, "nuw")) if flags in (flag, "nw")]
        for view in views:
            expected = compute(*(_exact(argument, view) for argument in arguments))
            if np.any(expected != _exact(result, view)):
                raise ExecutionError(f"overflows, which overflow {flags} rules out")
        return result

    return evaluate


def _view(operation: Operation) -> Callable[[Array], Array]:
    return signed if operation.attributes["signedness"] == "signed" else unsigned


def _divided(operation: Operation, arguments: list[Array]) -> tuple[Array, Array, Array, Array]:
    """Both numbers, their quotient rounded down, and the rest, which has the sign of the divisor."""
    left, right = map(_view(operation), arguments)
    if (right == 0).any():
        raise ExecutionError("divides by zero")
    if operation.attributes["signedness"] == "signed" and ((left == np.iinfo(left.dtype).min) & (right == -1)).any():
        raise ExecutionError("the quotient overflows")
    quotient = left // right
    return left, right, quotient, left - quotient * right


def _divide(operation: Operation, arguments: list[Array]) -> Array:
    left, right, quotient, rest = _divided(operation, arguments)
    mode = operation.attributes["rounding"]
    up = mode == "positive_inf" or (mode == "zero" and ((left < 0) != (right < 0)))
    return _held(operation, quotient + (up & (rest != 0)))


def _remainder(operation: Operation, arguments: list[Array]) -> Array:
    """The rest of a division towards zero: it has the sign of the dividend."""
    left, right, _, rest = _divided(operation, arguments)
    other = (rest != 0) & ((left < 0) != (right < 0))
    return _held(operation, np.where(other, rest - right, rest))


def _shifts(operation: Operation, amounts: Array) -> Array:
    bits = operation.result_tile.element.bits
    if (unsigned(amounts) >= bits).any():
        raise ExecutionError(f"shifts an i{bits} by {bits} bits or more")
    return amounts


def _shift_left(operation: Operation, arguments: list[Array]) -> Array:
    _shifts(operation, arguments[1])
    return _wrapping(lambda value, amount: value << amount)(operation, arguments)


def _shift_right(operation: Operation, arguments: list[Array]) -> Array:
    value, amount = map(_view(operation), arguments)
    _shifts(operation, arguments[1])
    return _held(operation, value >> amount)


def _to_integer(operation: Operation, arguments: list[Array]) -> Array:
    """Towards zero; a number that the integer cannot hold gives an unspecified one, as lanes that a mask drops may."""
    element = operation.result_tile.element
    assert isinstance(element, Element)
    whole = np.trunc(arguments[0].astype(np.float64))
    if operation.attributes["signedness"] == "signed":
        low, high = -(2.0 ** (element.bits - 1)), 2.0 ** (element.bits - 1)
    else:
        low, high = 0.0, 2.0**element.bits
    fits = (whole >= low) & (whole < high)
    held = _held(operation, whole.astype(np.int64 if low else np.uint64))
    return np.where(fits, held, element.held.type(unspecified(element)))


def _extend(operation: Operation, arguments: list[Array]) -> Array:
    return _held(operation, _view(operation)(arguments[0]))


def _truncate(operation: Operation, arguments: list[Array]) -> Array:
    result = _held(operation, arguments[0])
    flags = operation.attributes["overflow"]
    for view, flag in ((signed, "nsw"), (unsigned, "nuw")):
        if flags in (flag, "nw") and np.any(view(result) != view(arguments[0])):
            raise ExecutionError(f"overflows, which overflow {flags} rules out")
    return result


INTEGERS: dict[str, Evaluate] = {
    "absi": lambda _, arguments: np.abs(arguments[0]),
    "addi": _wrapping(lambda left, right: left + right),
    "andi": lambda _, arguments: arguments[0] & arguments[1],
    "divi": _divide,
    "exti": _extend,
    "ftoi": _to_integer,
    "maxi": lambda operation, arguments: _held(operation, np.maximum(*map(_view(operation), arguments))),
    "mini": lambda operation, arguments: _held(operation, np.minimum(*map(_view(operation), arguments))),
    "muli": _wrapping(lambda left, right: left * right),
    "negi": _wrapping(lambda source: -source),
    "ori": lambda _, arguments: arguments[0] | arguments[1],
    "remi": _remainder,
    "shli": _shift_left,
    "shri": _shift_right,
    "subi": _wrapping(lambda left, right: left - right),
    "trunci": _truncate,
    "xori": lambda _, arguments: arguments[0] ^ arguments[1],
}
