"""Operations on each element by itself.

Source of the semantics: the documentation in the crate cutile (`core`), Tile IR's names for PTX's instructions, and
PTX. What Tile IR leaves undefined (a division by zero, a shift by too much, an overflow that the program rules out) is
an error, since a result that depends on it depends on the GPU.

Approximations: `approx` and `full` divisions, roots, exponentials and logarithms are within two units in the last
place of float32 on a GPU; here they are exact to the last place, a difference of 2^-22 that no test's tolerance sees.
Two approximations differ visibly, and are modelled: tanh (see `_tanh`) and divisions by huge numbers (`_divide`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.tile_ir import integers
from tests.tile_ir.errors import ExecutionError
from tests.tile_ir.numbers import flush, from_bits, round_to, signed, to_bits, unsigned
from tests.tile_ir.program import Operation
from tests.tile_ir.types import Array, Element

Compute = Callable[..., Array]
Evaluate = Callable[[Operation, list[Array]], Array]

_COMPARE: dict[str, Compute] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}


def number(operation: Operation) -> Element:
    """The element of the result."""
    element = operation.result_tile.element
    assert isinstance(element, Element)
    return element


def _rounded(operation: Operation, compute: Compute, arguments: list[Array]) -> Array:
    """A function of floats, in float32 for the narrower ones, rounded once to the element of the result."""
    element = number(operation)
    flushes = operation.attributes.get("flush_to_zero", False)
    if flushes and element.name != "f32":
        raise ExecutionError(f"flush_to_zero is of f32 alone, and not of {element}")
    wide = [argument.astype(np.float32) if element.bits < 32 else argument for argument in arguments]
    if flushes:
        wide = [flush(argument) for argument in wide]
    mode = operation.attributes.get("rounding", "nearest_even")
    mode = "nearest_even" if mode in {"approx", "full"} else mode
    result = round_to(element, compute(*wide), mode)
    return flush(result) if flushes else result


def _float(compute: Compute) -> Evaluate:
    return lambda operation, arguments: _rounded(operation, compute, arguments)


def _exactly(nearest: Compute, exact: Compute) -> Evaluate:
    """A function that also rounds towards zero or an infinity: from float64 with the rest in its lowest bit."""

    def evaluate(operation: Operation, arguments: list[Array]) -> Array:
        mode = operation.attributes["rounding"]
        if mode == "nearest_even" and operation.name != "fma":
            return _rounded(operation, nearest, arguments)
        if number(operation).bits == 64:
            raise ExecutionError(f"{operation.name} in f64 with rounding {mode} is not known here")
        return _rounded(operation, lambda *wide: exact(*(part.astype(np.float64) for part in wide)), arguments)

    return evaluate


def _odd_sum(left: Array, right: Array) -> Array:
    """left + right in float64, rounded to odd: Knuth's sum gives the rest, whose sign says to which neighbour."""
    total = left + right
    part = total - left
    rest = (left - (total - part)) + (right - part)
    even = (total.view(np.int64) & 1) == 0
    inexact = np.isfinite(total) & (rest != 0) & even
    limit = np.where(rest > 0, np.inf, -np.inf)
    return np.where(inexact, np.nextafter(total, limit), total)


def _divide(operation: Operation, arguments: list[Array]) -> Array:
    """PTX's `div.approx`: beyond 2^126 the quotient is 0, or NaN for an infinite dividend."""
    result = _rounded(operation, np.divide, arguments)
    if operation.attributes["rounding"] != "approx":
        return result
    left, right = arguments
    huge = (np.abs(right) > np.float32(2.0**126)) & np.isfinite(right)
    lost = np.where(np.isinf(left), np.float32(np.nan), np.copysign(np.float32(0), result))
    return np.where(huge, lost, result)


def _tanh(operation: Operation, arguments: list[Array]) -> Array:
    """PTX's `tanh.approx` errs by 2^-11 of the result: the worst case is to cut all after that bit."""
    result = _rounded(operation, np.tanh, arguments)
    if operation.attributes["rounding"] != "approx":
        return result
    if number(operation).name != "f32":
        raise ExecutionError(f"an approximate tanh of {number(operation)} is not known here")
    return (result.view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)


def _extremum(pick: Compute, zero: Compute) -> Evaluate:
    """IEEE 754-2019's maximumNumber and minimumNumber, or maximum and minimum with propagate_nan; -0 < +0."""

    def compute(left: Array, right: Array) -> Array:
        both = (left == 0) & (right == 0)
        return np.where(both, zero(left, right), pick(left, right))

    def evaluate(operation: Operation, arguments: list[Array]) -> Array:
        result = _rounded(operation, compute, arguments)
        if not operation.attributes["propagate_nan"]:
            return result
        unordered = np.isnan(arguments[0]) | np.isnan(arguments[1])
        return np.where(unordered, result.dtype.type(np.nan), result)

    return evaluate


def _compare_floats(operation: Operation, arguments: list[Array]) -> Array:
    left, right = arguments
    unordered = np.isnan(left) | np.isnan(right)
    holds = _COMPARE[operation.attributes["predicate"]](left, right)
    return holds & ~unordered if operation.attributes["ordered"] else holds | unordered


def _compare_integers(operation: Operation, arguments: list[Array]) -> Array:
    view = signed if operation.attributes["signed"] else unsigned
    return _COMPARE[operation.attributes["predicate"]](*map(view, arguments))


def _to_float(operation: Operation, arguments: list[Array]) -> Array:
    view = signed if operation.attributes["signedness"] == "signed" else unsigned
    source, element = view(arguments[0]), number(operation)
    wide = source.astype(np.float64)
    if source.dtype.itemsize == 8 and element.bits < 64 and (np.abs(wide) > 2.0**53).any():
        raise ExecutionError(f"an i64 beyond 2^53 to {element} is not known here")
    return round_to(element, wide, operation.attributes["rounding"])


def _convert(operation: Operation, arguments: list[Array]) -> Array:
    return round_to(number(operation), arguments[0], operation.attributes["rounding"])


def _bitcast(operation: Operation, arguments: list[Array]) -> Array:
    source = operation.tile(0).element
    assert isinstance(source, Element)
    return from_bits(number(operation), to_bits(source, arguments[0]))


ELEMENTWISE: dict[str, Evaluate] = {
    **integers.INTEGERS,
    "absf": _float(np.abs),
    "addf": _exactly(np.add, _odd_sum),
    "atan2": _float(np.arctan2),
    "bitcast": _bitcast,
    "ceil": _float(np.ceil),
    "cmpf": _compare_floats,
    "cmpi": _compare_integers,
    "cos": _float(np.cos),
    "cosh": _float(np.cosh),
    "divf": _divide,
    "exp": _float(np.exp),
    "exp2": _float(np.exp2),
    "floor": _float(np.floor),
    "fma": _exactly(np.add, lambda left, right, more: _odd_sum(left * right, more)),
    "ftof": _convert,
    "itof": _to_float,
    "log": _float(np.log),
    "log2": _float(np.log2),
    "maxf": _extremum(np.fmax, np.add),
    "minf": _extremum(np.fmin, lambda left, right: -(-left + -right)),
    "mulf": _exactly(np.multiply, np.multiply),
    "negf": lambda _, arguments: -arguments[0],
    "pow": _float(np.power),
    "remf": _float(np.fmod),
    "rsqrt": _float(lambda source: 1 / np.sqrt(source)),
    "select": lambda _, arguments: np.where(*arguments),
    "sin": _float(np.sin),
    "sinh": _float(np.sinh),
    "sqrt": _float(np.sqrt),
    "subf": _exactly(np.subtract, lambda left, right: _odd_sum(left, -right)),
    "tan": _float(np.tan),
    "tanh": _tanh,
}
