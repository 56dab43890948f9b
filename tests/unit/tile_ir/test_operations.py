"""Each operation on values whose results are worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.tile_ir.errors import ExecutionError, TrapError
from tests.tile_ir.lexer import Cursor
from tests.tile_ir.reader import read_string
from tests.unit.tile_ir.small import compute, tile_of

INF, NAN = math.inf, math.nan
# The largest f16, and the halves of the last place of 1 in f16 and bf16: ties, which go to the even neighbour.
F16_TIE, BF16_TIE = 2.0**-11, 2.0**-8


def unary(operation: str, kind: str, values: Any, result: str | None = None) -> Any:
    return compute(f"%r = {operation}", result or kind, a=(kind, values)).tolist()


def binary(operation: str, kind: str, left: Any, right: Any, result: str | None = None) -> Any:
    return compute(f"%r = {operation}", result or kind, a=(kind, left), b=(kind, right)).tolist()


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("absf", [-1.5, 2], [1.5, 2]),
        ("negf", [-1.5, 2], [1.5, -2]),
        ("ceil", [1.25, -1.25], [2, -1]),
        ("floor", [1.25, -1.25], [1, -2]),
        ("exp", [0, -INF], [1, 0]),
        ("exp2", [3, -2], [8, 0.25]),
        ("log", [1, 0], [0, -INF]),
        ("log2", [8, 0.5], [3, -1]),
        ("sqrt", [9, 0.25], [3, 0.5]),
        ("rsqrt", [4, 0.0625], [0.5, 4]),
        ("sin", [0, 0], [0, 0]),
        ("cos", [0, 0], [1, 1]),
        ("tan", [0, 0], [0, 0]),
        ("sinh", [0, 0], [0, 0]),
        ("cosh", [0, 0], [1, 1]),
        ("tanh", [0, INF], [0, 1]),
    ],
)
@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_functions_of_one_float(name: str, values: list[float], expected: list[float], element: str) -> None:
    kind = f"tile<2x{element}>"
    assert unary(f"{name} %a : {kind}", kind, values) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("exp", 1.0, 2.718281828459045),
        ("log", 10.0, 2.302585092994046),
        ("tanh", 0.5, 0.46211715726000975),
        ("sin", 1.0, 0.8414709848078965),
        ("cos", 1.0, 0.5403023058681398),
        ("tan", 1.0, 1.5574077246549023),
        ("sinh", 1.0, 1.1752011936438014),
        ("cosh", 1.0, 1.5430806348152437),
    ],
)
def test_functions_of_one_float_to_the_last_place(name: str, value: float, expected: float) -> None:
    assert unary(f"{name} %a : tile<f64>", "tile<f64>", value) == pytest.approx(expected, rel=1e-15)
    assert unary(f"{name} %a : tile<f32>", "tile<f32>", value) == pytest.approx(expected, rel=2e-7)


@pytest.mark.parametrize(
    ("name", "left", "right", "expected"),
    [
        ("addf", [1.5, INF], [2, -INF], [3.5, NAN]),
        ("subf", [1.5, 1], [2, 1], [-0.5, 0]),
        ("mulf", [1.5, 0], [-2, INF], [-3, NAN]),
        ("divf", [3, -1], [2, 0], [1.5, -INF]),
        ("remf", [5.5, -5.5], [2, 2], [1.5, -1.5]),
        ("pow", [2, 4], [3, 0.5], [8, 2]),
        ("atan2", [0, 0], [1, 2], [0, 0]),
        ("maxf", [1, NAN], [2, 3], [2, 3]),
        ("minf", [1, NAN], [2, 3], [1, 3]),
    ],
)
@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_functions_of_two_floats(name: str, left: Any, right: Any, expected: Any, element: str) -> None:
    kind = f"tile<2x{element}>"
    np.testing.assert_array_equal(binary(f"{name} %a, %b : {kind}", kind, left, right), expected)


def test_sums_round_to_the_even_neighbour_in_their_own_type() -> None:
    assert binary("addf %a, %b : tile<2xf16>", "tile<2xf16>", [1, 1 + 2 * F16_TIE], [F16_TIE, F16_TIE]) == [
        1, 1 + 4 * F16_TIE,
    ]  # fmt: skip
    assert binary("addf %a, %b : tile<2xbf16>", "tile<2xbf16>", [1, 1 + 2 * BF16_TIE], [BF16_TIE, BF16_TIE]) == [
        1, 1 + 4 * BF16_TIE,
    ]  # fmt: skip
    assert binary("addf %a, %b : tile<f32>", "tile<f32>", 1, 2.0**-24) == 1
    assert binary("addf %a, %b : tile<f64>", "tile<f64>", 1, 2.0**-24) == 1 + 2.0**-24


def test_products_overflow_in_their_own_type() -> None:
    assert binary("mulf %a, %b : tile<f16>", "tile<f16>", 256, 256) == INF
    assert binary("mulf %a, %b : tile<bf16>", "tile<bf16>", 256, 256) == 65536


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("zero", [1, -1]), ("negative_inf", [1, -1 - 2.0**-23]), ("positive_inf", [1 + 2.0**-23, -1])],
)
def test_sums_and_products_round_as_they_say(mode: str, expected: list[float]) -> None:
    tiny = [2.0**-60, -(2.0**-60)]
    assert binary(f"addf %a, %b rounding<{mode}> : tile<2xf32>", "tile<2xf32>", [1, -1], tiny) == expected
    near = [1 + 2.0**-23, -1 - 2.0**-23]
    product = binary(f"mulf %a, %b rounding<{mode}> : tile<2xf32>", "tile<2xf32>", near, [1 - 2.0**-24] * 2)
    assert product == expected


def test_subtractions_round_as_they_say() -> None:
    assert binary("subf %a, %b rounding<zero> : tile<f32>", "tile<f32>", 1, 2.0**-60) == 1 - 2.0**-24


def test_flush_to_zero_flushes_what_goes_in_and_what_comes_out() -> None:
    denormal = 2.0**-127
    assert binary("addf %a, %b flush_to_zero : tile<f32>", "tile<f32>", denormal, denormal) == 0
    assert binary("addf %a, %b : tile<f32>", "tile<f32>", denormal, denormal) == 2.0**-126
    assert unary("exp2 %a flush_to_zero : tile<2xf32>", "tile<2xf32>", [-127, -126]) == [0, 2.0**-126]
    assert unary("exp2 %a : tile<f32>", "tile<f32>", -127) == denormal
    assert math.copysign(1, binary("mulf %a, %b flush_to_zero : tile<f32>", "tile<f32>", -denormal, 1)) == -1
    with pytest.raises(ExecutionError, match="flush_to_zero is of f32 alone, and not of f16"):
        binary("mulf %a, %b flush_to_zero : tile<f16>", "tile<f16>", 1, 1)


def test_an_approximate_division_by_a_huge_number_is_zero() -> None:
    huge = [2.0**127, 2.0**127, 2.0**126]
    found = binary(
        "divf %a, %b rounding<approx> : tile<4xf32>", "tile<4xf32>", [2.0**127, INF, 2.0**126, 3], [*huge, 2]
    )
    np.testing.assert_array_equal(found, [0, NAN, 1, 1.5])
    assert binary("divf %a, %b rounding<full> : tile<f32>", "tile<f32>", 2.0**127, 2.0**127) == 1


def test_an_approximate_tanh_keeps_eleven_bits() -> None:
    found = unary("tanh %a {rounding_mode = 4} : tile<f32>", "tile<f32>", 0.5)
    assert found != pytest.approx(math.tanh(0.5), rel=1e-6)
    assert found == pytest.approx(math.tanh(0.5), rel=2.0**-11)


def test_extrema_of_zeros_and_nans() -> None:
    kind = "tile<4xf32>"
    zeros = ([-0.0, 0.0, -0.0, NAN], [0.0, -0.0, -0.0, NAN])
    largest = binary(f"maxf %a, %b {{rounding_mode = 0}} : {kind}", kind, *zeros)
    smallest = binary(f"minf %a, %b : {kind}", kind, *zeros)
    assert [math.copysign(1, value) for value in largest[:3]] == [1, 1, -1]
    assert [math.copysign(1, value) for value in smallest[:3]] == [-1, -1, -1]
    assert math.isnan(largest[3])
    assert math.isnan(binary("maxf %a, %b propagate_nan : tile<f32>", "tile<f32>", NAN, 1))


def test_fma_rounds_once() -> None:
    factor = 1 + 2.0**-12  # its square is 1 + 2^-11 + 2^-24, and 2^-24 is lost where the product is rounded
    one = compute(
        "%r = fma %a, %a, %b : tile<f32>", "tile<f32>", a=("tile<f32>", factor), b=("tile<f32>", -1 - 2.0**-11)
    )  # fmt: skip
    assert one == 2.0**-24
    two = compute(
        "%p = mulf %a, %a : tile<f32>\n%r = addf %p, %b : tile<f32>",
        "tile<f32>", a=("tile<f32>", factor), b=("tile<f32>", -1 - 2.0**-11),
    )  # fmt: skip
    assert two == 0
    half = compute("%r = fma %a, %b, %b : tile<f16>", "tile<f16>", a=("tile<f16>", 3), b=("tile<f16>", 0.5))
    assert half == 2


@pytest.mark.parametrize(
    ("name", "left", "right", "expected"),
    [
        ("addi", [1, 2**31 - 1], [2, 1], [3, -(2**31)]),
        ("subi", [1, -(2**31)], [2, 1], [-1, 2**31 - 1]),
        ("muli", [3, 2**16], [-4, 2**16], [-12, 0]),
        ("andi", [12, -1], [10, 7], [8, 7]),
        ("ori", [12, 0], [10, 7], [14, 7]),
        ("xori", [12, -1], [10, -1], [6, 0]),
        ("shli", [3, 1], [2, 31], [12, -(2**31)]),
    ],
)
def test_arithmetic_of_integers_wraps(name: str, left: Any, right: Any, expected: Any) -> None:
    assert binary(f"{name} %a, %b : tile<2xi32>", "tile<2xi32>", left, right) == expected


@pytest.mark.parametrize(
    ("operation", "left", "right", "expected"),
    [
        ("divi %a, %b signed", [7, -7, 7, -7], [2, 2, -2, -2], [3, -3, -3, 3]),
        ("divi %a, %b signed rounding positive_inf", [7, -7, 7, -7], [2, 2, -2, -2], [4, -3, -3, 4]),
        ("divi %a, %b signed rounding<negative_inf>", [7, -7, 7, -7], [2, 2, -2, -2], [3, -4, -4, 3]),
        ("remi %a, %b signed", [7, -7, 7, -7], [2, 2, -2, -2], [1, -1, 1, -1]),
        ("maxi %a, %b signed", [1, -1, 0, 5], [2, -2, 0, -5], [2, -1, 0, 5]),
        ("mini %a, %b signed", [1, -1, 0, 5], [2, -2, 0, -5], [1, -2, 0, -5]),
        ("shri %a, %b signed", [-8, 8, -1, 1], [1, 1, 31, 0], [-4, 4, -1, 1]),
        ("divi %a, %b unsigned", [-1, 7, 6, 1], [2, 2, 3, 1], [2**31 - 1, 3, 2, 1]),
        ("remi %a, %b unsigned", [-1, 7, 6, 1], [2, 2, 4, 1], [1, 1, 2, 0]),
        ("maxi %a, %b unsigned", [1, -1, 0, 5], [2, 2, 0, -5], [2, -1, 0, -5]),
        ("mini %a, %b unsigned", [1, -1, 0, 5], [2, 2, 0, -5], [1, 2, 0, 5]),
        ("shri %a, %b unsigned", [-1, 8, 2, 1], [31, 1, 1, 0], [1, 4, 1, 1]),
    ],
)
def test_arithmetic_of_integers_with_a_sign(operation: str, left: Any, right: Any, expected: Any) -> None:
    assert binary(f"{operation} : tile<4xi32>", "tile<4xi32>", left, right) == expected


def test_functions_of_one_integer() -> None:
    assert unary("absi %a : tile<2xi32>", "tile<2xi32>", [-3, 4]) == [3, 4]
    assert unary("negi %a : tile<2xi32>", "tile<2xi32>", [-3, 4]) == [3, -4]


@pytest.mark.parametrize(
    ("operation", "left", "right", "message"),
    [
        ("divi %a, %b signed", 1, 0, "divides by zero"),
        ("remi %a, %b unsigned", 1, 0, "divides by zero"),
        ("divi %a, %b signed", -(2**31), -1, "the quotient overflows"),
        ("shli %a, %b", 1, 32, "shifts an i32 by 32 bits or more"),
        ("shri %a, %b signed", 1, -1, "shifts an i32 by 32 bits or more"),
        ("addi %a, %b overflow nsw", 2**31 - 1, 1, "overflows, which overflow nsw rules out"),
        ("addi %a, %b overflow<no_signed_wrap>", 2**31 - 1, 1, "overflows, which overflow nsw rules out"),
        ("addi %a, %b overflow nuw", -1, 1, "overflows, which overflow nuw rules out"),
        ("muli %a, %b overflow nw", 2**16, 2**15, "overflows, which overflow nw rules out"),
    ],
)
def test_what_is_undefined_is_an_error(operation: str, left: int, right: int, message: str) -> None:
    with pytest.raises(ExecutionError, match=rf"^small, block \(0, 0, 0\), line \d+, {operation[:4]}: {message}$"):
        binary(f"{operation} : tile<i32>", "tile<i32>", left, right)


def test_a_sum_that_does_not_overflow_as_it_says() -> None:
    assert binary("addi %a, %b overflow nsw : tile<i32>", "tile<i32>", -1, 1) == 0
    assert binary("addi %a, %b overflow nuw : tile<i32>", "tile<i32>", 2**31 - 1, 1) == -(2**31)


@pytest.mark.parametrize(
    ("predicate", "signed", "unsigned"),
    [
        ("equal", [0, 1, 0, 0], [0, 1, 0, 0]),
        ("not_equal", [1, 0, 1, 1], [1, 0, 1, 1]),
        ("less_than", [1, 0, 0, 1], [1, 0, 0, 0]),
        ("less_than_or_equal", [1, 1, 0, 1], [1, 1, 0, 0]),
        ("greater_than", [0, 0, 1, 0], [0, 0, 1, 1]),
        ("greater_than_or_equal", [0, 1, 1, 0], [0, 1, 1, 1]),
    ],
)
def test_integers_are_compared(predicate: str, signed: list[int], unsigned: list[int]) -> None:
    left, right = [1, 2, 3, -1], [2, 2, 2, 1]
    for sign, expected in (("signed", signed), ("unsigned", unsigned)):
        text = f"cmpi {predicate} %a, %b, {sign} : tile<4xi32> -> tile<4xi1>"
        assert binary(text, "tile<4xi32>", left, right, "tile<4xi1>") == expected


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("equal", [0, 1, 0]),
        ("not_equal", [1, 0, 1]),
        ("less_than", [1, 0, 0]),
        ("less_than_or_equal", [1, 1, 0]),
        ("greater_than", [0, 0, 1]),
        ("greater_than_or_equal", [0, 1, 1]),
    ],
)
@pytest.mark.parametrize(("ordering", "of_nan"), [("ordered", 0), ("unordered", 1)])
def test_floats_are_compared(predicate: str, expected: list[int], ordering: str, of_nan: int) -> None:
    text = f"cmpf {predicate} {ordering} %a, %b : tile<4xf32> -> tile<4xi1>"
    assert binary(text, "tile<4xf32>", [1, 2, 3, NAN], [2, 2, 2, 1], "tile<4xi1>") == [*expected, of_nan]


@pytest.mark.parametrize(
    ("operation", "source", "values", "result", "expected"),
    [
        ("exti %a signed", "tile<2xi32>", [-5, 5], "tile<2xi64>", [-5, 5]),
        ("exti %a unsigned", "tile<2xi32>", [-1, 5], "tile<2xi64>", [2**32 - 1, 5]),
        ("exti %a unsigned", "tile<2xi1>", [0, 1], "tile<2xi32>", [0, 1]),
        ("exti %a signed", "tile<2xi1>", [0, 1], "tile<2xi32>", [0, -1]),
        ("trunci %a", "tile<2xi64>", [2**32 + 7, -1], "tile<2xi32>", [7, -1]),
        ("trunci %a", "tile<2xi32>", [2, 3], "tile<2xi1>", [0, 1]),
        ("itof %a signed", "tile<2xi32>", [-3, 7], "tile<2xf32>", [-3, 7]),
        ("itof %a unsigned", "tile<2xi32>", [-1, 7], "tile<2xf64>", [2**32 - 1, 7]),
        ("itof %a signed", "tile<2xi32>", [2049, 2051], "tile<2xf16>", [2048, 2052]),
        ("itof %a signed rounding<zero>", "tile<2xi32>", [2049, 2051], "tile<2xf16>", [2048, 2050]),
        ("ftoi %a signed", "tile<2xf32>", [-3.75, 3.75], "tile<2xi32>", [-3, 3]),
        ("ftoi %a unsigned", "tile<2xf32>", [2.0**31, 3.75], "tile<2xi32>", [-(2**31), 3]),
        ("ftof %a", "tile<2xf32>", [1 + F16_TIE, 1 + 3 * F16_TIE], "tile<2xf16>", [1, 1 + 4 * F16_TIE]),
        ("ftof %a", "tile<2xf32>", [1 + BF16_TIE, 1 + 3 * BF16_TIE], "tile<2xbf16>", [1, 1 + 4 * BF16_TIE]),
        ("ftof %a", "tile<2xf64>", [1 + BF16_TIE + 2.0**-40, 1.0], "tile<2xbf16>", [1 + 2 * BF16_TIE, 1]),
        ("ftof %a", "tile<2xf32>", [65520.0, -INF], "tile<2xf16>", [INF, -INF]),
        ("ftof %a", "tile<2xbf16>", [1.5, -2], "tile<2xf32>", [1.5, -2]),
        ("ftof %a rounding<zero>", "tile<2xf32>", [1 + 3 * F16_TIE, -1.0001], "tile<2xf16>", [1 + 2 * F16_TIE, -1]),
        ("ftof %a rounding<negative_inf>", "tile<2xf32>", [1.001, -1.001], "tile<2xbf16>", [1, -1 - 2 * BF16_TIE]),
        ("ftof %a rounding<positive_inf>", "tile<2xf32>", [1.001, 1e-42], "tile<2xbf16>", [1 + 2.0**-7, 2.0**-133]),
        ("bitcast %a", "tile<2xf32>", [1, -2], "tile<2xi32>", [0x3F800000, -0x40000000]),
        ("bitcast %a", "tile<2xi16>", [0x3F80, -0x4000], "tile<2xbf16>", [1, -2]),
        ("bitcast %a", "tile<2xbf16>", [1, -2], "tile<2xi16>", [0x3F80, -0x4000]),
        ("bitcast %a", "tile<2xf16>", [1, -2], "tile<2xi16>", [0x3C00, -0x4000]),
    ],
)  # fmt: skip
def test_conversions(operation: str, source: str, values: Any, result: str, expected: Any) -> None:
    assert unary(f"{operation} : {source} -> {result}", source, values, result) == expected


def test_conversions_that_are_undefined() -> None:
    shows = -(2**31) + 0x55
    assert unary("ftoi %a signed : tile<2xf32> -> tile<2xi32>", "tile<2xf32>", [INF, 1], "tile<2xi32>") == [shows, 1]
    assert unary("ftoi %a unsigned : tile<f32> -> tile<i32>", "tile<f32>", -1, "tile<i32>") == shows
    with pytest.raises(ExecutionError, match=r"trunci: overflows"):
        unary("trunci %a overflow nsw : tile<i64> -> tile<i32>", "tile<i64>", 2**31, "tile<i32>")


def test_select() -> None:
    found = compute(
        "%r = select %c, %a, %b : tile<2xi1>, tile<2xf32>", "tile<2xf32>",
        a=("tile<2xf32>", [1, 2]), b=("tile<2xf32>", [3, NAN]), c=("tile<2xi1>", [0, 1]),
    )  # fmt: skip
    assert found.tolist() == [3, 2]


def test_shapes() -> None:
    rows = ("tile<2x4xi32>", [[1, 2, 3, 4], [5, 6, 7, 8]])
    turned = compute("%r = permute %a [1, 0] : tile<2x4xi32> -> tile<4x2xi32>", "tile<4x2xi32>", a=rows)
    assert turned.tolist() == [[1, 5], [2, 6], [3, 7], [4, 8]]
    cube = ("tile<2x1x4xi32>", [[[1, 2, 3, 4]], [[5, 6, 7, 8]]])
    turned = compute("%r = permute %a [2, 0, 1] : tile<2x1x4xi32> -> tile<4x2x1xi32>", "tile<4x2x1xi32>", a=cube)
    assert turned.tolist() == [[[1], [5]], [[2], [6]], [[3], [7]], [[4], [8]]]
    shaped = compute("%r = reshape %a : tile<2x4xi32> -> tile<4x2xi32>", "tile<4x2xi32>", a=rows)
    assert shaped.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    wide = compute(
        "%r = broadcast %a : tile<2x1xi32> -> tile<2x4xi32>", "tile<2x4xi32>", a=("tile<2x1xi32>", [1, 2])
    )  # fmt: skip
    assert wide.tolist() == [[1] * 4, [2] * 4]
    joined = compute("%r = cat %a, %a dim = 1 : tile<1x2xi32>, tile<1x2xi32> -> tile<1x4xi32>", "tile<1x4xi32>",
                     a=("tile<1x2xi32>", [1, 2]))  # fmt: skip
    assert joined.tolist() == [[1, 2, 1, 2]]
    part = "%i = constant <i32: 1> : tile<i32>\n%z = constant <i32: 0> : tile<i32>\n"
    part += "%r = extract %a[%z, %i] : tile<2x4xi32> -> tile<1x2xi32>"
    assert compute(part, "tile<1x2xi32>", a=rows).tolist() == [[3, 4]]
    with pytest.raises(ExecutionError, match=r"extract: axis 1 has no part 2"):
        compute(part.replace("<i32: 1>", "<i32: 2>"), "tile<1x2xi32>", a=rows)


def test_iota() -> None:
    assert compute("%r = iota : tile<4xi32>", "tile<4xi32>").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("literal", "kind", "expected"),
    [
        ("<f32: -inf>", "tile<2xf32>", [-INF, -INF]),
        ("<f32: 0xFF800000>", "tile<f32>", -INF),
        ("<f32: 1.000000e-03>", "tile<f64>".replace("f64", "f32"), np.float32(1e-3)),
        ("<i32: 1, 2, 3, 4>", "tile<4xi32>", [1, 2, 3, 4]),
        ("<i32: [[1, 2], [3, 4]]>", "tile<2x2xi32>", [[1, 2], [3, 4]]),
        ("<i32: [1, [[3, 4], [5, 6]]]>", "tile<2x2x2xi32>", [[[1, 1], [1, 1]], [[3, 4], [5, 6]]]),
        ("<i1: true>", "tile<i1>", True),
        ("<i1: 0>", "tile<i1>", False),
        ("<i8: 255>", "tile<i8>", -1),
        ("<bf16: -1.5>", "tile<bf16>", -1.5),
        ("<i64: -9223372036854775808>", "tile<i64>", -(2**63)),
    ],
)
def test_constants(literal: str, kind: str, expected: Any) -> None:
    assert compute(f"%r = constant {literal} : {kind}", kind).tolist() == expected


def test_matrices_are_multiplied_and_accumulated_in_the_type_of_the_accumulator() -> None:
    body = "%r = mmaf %a, %b, %c : {0}, {0}, {1}"
    left, right, more = [[1, 2], [3, 4]], [[5, 6], [7, 8]], [[1, 0], [0, -1]]
    for narrow, wide in (("f16", "f32"), ("bf16", "f32"), ("f16", "f16"), ("f64", "f64")):
        kinds = f"tile<2x2x{narrow}>", f"tile<2x2x{wide}>"
        text = body.format(*kinds)
        found = compute(text, kinds[1], a=(kinds[0], left), b=(kinds[0], right), c=(kinds[1], more))
        assert found.tolist() == [[20, 22], [43, 49]]
    kinds = "tile<1x2xf16>", "tile<2x1xf16>"
    large = {"a": (kinds[0], [60000, 60000]), "b": (kinds[1], [60000, -60000])}
    text = f"%r = mmaf %a, %b, %c : {kinds[0]}, {kinds[1]}, tile<1x1xf32>"
    assert compute(text, "tile<1x1xf32>", **large, c=("tile<1x1xf32>", 1)).tolist() == [[1]]


REDUCE = """%r = reduce %a dim=1 identities=[{identity}] : tile<2x4x{element}> -> tile<2x{element}> {{
^bb0(%x: tile<{element}>, %y: tile<{element}>):
  %z = {operation} : tile<{element}>
  yield %z : tile<{element}>
}}"""


@pytest.mark.parametrize(
    ("element", "identity", "operation", "expected"),
    [
        ("f32", "-inf", "maxf %x, %y {rounding_mode = 0}", [4, 9]),
        ("f32", "inf", "minf %x, %y", [1, -6]),
        ("f32", "0", "addf %x, %y", [10, 3]),
        ("f32", "1", "mulf %x, %y", [24, 0]),
        ("bf16", "0", "addf %x, %y", [10, 3]),
        ("i32", "0", "addi %x, %y", [10, 3]),
        ("i32", "-2147483648", "maxi %x, %y signed", [4, 9]),
    ],
)
def test_reductions(element: str, identity: str, operation: str, expected: list[float]) -> None:
    text = REDUCE.format(element=element, identity=identity, operation=operation)
    rows = [[1, 2, 3, 4], [9, -6, 0, 0]]
    assert compute(text, f"tile<2x{element}>", a=(f"tile<2x4x{element}>", rows)).tolist() == expected


def test_a_reduction_along_the_first_axis_of_two_operands() -> None:
    """The largest element of each column and its row, as an argmax does it."""
    text = """
    %v, %r = reduce %a, %i dim=0 identities=[-inf, 0] : tile<4x2xf32>, tile<4x2xi32> -> tile<2xf32>, tile<2xi32> {
    ^bb0(%x: tile<f32>, %y: tile<f32>, %xi: tile<i32>, %yi: tile<i32>):
      %more = cmpf greater_than ordered %x, %y : tile<f32> -> tile<i1>
      %z = select %more, %x, %y : tile<i1>, tile<f32>
      %zi = select %more, %xi, %yi : tile<i1>, tile<i32>
      yield %z, %zi : tile<f32>, tile<i32>
    }"""
    rows = [[0, 0], [1, 1], [2, 2], [3, 3]]
    found = compute(
        text, "tile<2xi32>", a=("tile<4x2xf32>", [[1, 9], [5, 2], [7, 3], [2, 4]]), i=("tile<4x2xi32>", rows)
    )
    assert found.tolist() == [2, 0]


@pytest.mark.parametrize(("reverse", "expected"), [("false", [1, 3, 6, 10]), ("true", [10, 9, 7, 4])])
def test_scans(reverse: str, expected: list[int]) -> None:
    text = f"""%r = scan %a dim=0 reverse={reverse} identities=[0] : tile<4xf32> -> tile<4xf32> {{
    ^bb0(%x: tile<f32>, %y: tile<f32>):
      %z = addf %x, %y : tile<f32>
      yield %z : tile<f32>
    }}"""
    assert compute(text, "tile<4xf32>", a=("tile<4xf32>", [1, 2, 3, 4])).tolist() == expected


@pytest.mark.parametrize(
    ("predicate", "values", "holds"),
    [
        ("bounded<0, ?>", [0, 5], True),
        ("bounded<0, ?>", [-1, 5], False),
        ("bounded<?, 5>", [-1, 5], True),
        ("bounded<?, 4>", [-1, 5], False),
        ("div_by<8>", [-16, 8], True),
        ("div_by<8>", [0, 12], False),
        ("same_elements<[2]>", [3, 3], True),
        ("same_elements<[2]>", [3, 4], False),
    ],
)
def test_assumptions_are_checked(predicate: str, values: list[int], *, holds: bool) -> None:
    text = f"assume {predicate}, %a : tile<2xi32>"
    if holds:
        assert unary(text, "tile<2xi32>", values) == values
    else:
        with pytest.raises(ExecutionError, match="which does not hold"):
            unary(text, "tile<2xi32>", values)


def test_a_failed_assert_raises_with_its_message() -> None:
    text = 'assert %a, "no \\"rows\\"" : tile<2xi1>\n%r = iota : tile<2xi32>'
    with pytest.raises(TrapError, match=r'block \(0, 0, 0\), line \d+, assert: no "rows"$'):
        compute(text, "tile<2xi32>", a=("tile<2xi1>", [1, 0]))
    assert compute(text, "tile<2xi32>", a=("tile<2xi1>", [1, 1])).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("written", "meant"),
    [('"\\22a\\5C\\0A"', '"a\\\n'), ('"\\"a\\\\\\n"', '"a\\\n'), ('"\\u{7f}\\\'"', "\x7f'")],
)
def test_strings_of_both_printers(written: str, meant: str) -> None:
    assert read_string(Cursor(written)) == meant


def test_types_are_printed_as_they_are_read() -> None:
    for text in ("tile<f32>", "tile<2x4xptr<bf16>>", "tile<16xi1>"):
        assert str(tile_of(text)) == text
