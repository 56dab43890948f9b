"""Texts that are no programs: each is an error of its line, and nothing is skipped."""

from __future__ import annotations

import pytest

from tests.tile_ir.errors import ProgramError
from tests.tile_ir.parser import parse

X = "%x = constant <f32: 1.0> : tile<2xf32>"
I = "%i = constant <i32: 1> : tile<i32>"  # noqa: E741


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%y = frobnicate %x : tile<2xf32>", "line 3: unknown operation 'frobnicate'"),
        ('print_tko "x"', "line 3: unknown operation 'print_tko'"),
        ("%y = alloca <structural-op>", "line 3: unknown operation 'alloca'"),
        ("%y = absf %z : tile<2xf32>", "line 3: absf: %z is used before it is defined"),
        ("%x = absf %x : tile<2xf32>", "line 4: %x is defined twice"),
        ("%y = absf %x : tile<4xf32>", r"absf: operand 0 is a tile<2xf32>, but the result is a tile<4xf32>"),
        ("%y = absi %x : tile<2xf32>", r"absi: there is none on a tile<2xf32>"),
        ("%y = absf %x : tile<2xtf32>", "unknown element type 'tf32'"),
        ("%y = absf %x : tile<3xf32>", "a tile's extent is a power of two, and not 3"),
        ("%y = absf %x : vector<2xf32>", "unknown type 'vector'"),
        ("%y = absf %x rounding<zero> : tile<2xf32>", "absf has no rounding"),
        ("%y = absf %x {fast = true} : tile<2xf32>", "absf: unknown attribute fast = true"),
        ("%y = exp %x rounding<odd> : tile<2xf32>", "exp does not round 'odd'"),
        ("%y = addf %x, %x rounding<approx> : tile<2xf32>", "addf does not round 'approx'"),
        ("%y = addf %x, %x quickly : tile<2xf32>", "unknown modifier 'quickly'"),
        ("%y = addf %x, %i : tile<2xf32>", "addf: operand 1 is a tile<i32>, but the result is a tile<2xf32>"),
        ("%y = addi %i, %i overflow maybe : tile<i32>", "unknown overflow 'maybe'"),
        ("%y = maxi %i, %i : tile<i32>", "maxi says neither signed nor unsigned"),
        ("%y = mmaf %x, %x, %x {fast_acc = true} : tile<2xf32>, tile<2xf32>, tile<2xf32>", "attribute fast_acc"),
        ("%y = mmaf %x, %x, %x : tile<2xf32>, tile<2xf32>, tile<2xf32>", "mmaf: no product of"),
        ("%y = cmpi below %i, %i, signed : tile<i32> -> tile<i1>", "unknown predicate 'below'"),
        ("%y = cmpi equal %i, %i, signed : tile<i32> -> tile<2xi1>", r"is no tile<2xi1>"),
        ("%y = cmpf equal ordered %i, %i : tile<i32> -> tile<i1>", "cmpf: there is none on a tile<i32>"),
        ("%y = ftof %x : tile<2xf32> -> tile<4xf16>", "ftof: does not change a shape"),
        ("%y = ftof %x : tile<2xf16> -> tile<2xf32>", "ftof: operand %x is a tile<2xf32>, and not a tile<2xf16>"),
        ("%y = trunci %i : tile<i32> -> tile<i64>", "trunci: does not narrow i32 to i64"),
        ("%y = exti %i signed : tile<i32> -> tile<i16>", "exti: does not widen i32 to i16"),
        ("%y = bitcast %i : tile<i32> -> tile<f16>", "bitcast: not from tile<i32> to tile<f16>"),
        ("%y = reshape %x : tile<2xf32> -> tile<4xf32>", "reshape: .* hold different numbers of elements"),
        ("%y = broadcast %x : tile<2xf32> -> tile<4xf32>", "broadcast: only extents of 1 grow"),
        ("%y = permute %x [1] : tile<2xf32> -> tile<2xf32>", r"permute: \(1,\) is no order"),
        ("%y = select %x, %x, %x : tile<2xf32>, tile<2xf32>", "select: the condition is a tile<2xf32>"),
        ("%y = iota : tile<256xi8>", "iota: tile<256xi8> cannot hold its last number"),
        ("%y = constant <f16: 1.0> : tile<f32>", "constant: f16 is not the element of a tile<f32>"),
        ("%y = constant <i8: 256> : tile<i8>", "constant: no i8: 256"),
        ("%y = constant <i32: 1, 2, 3> : tile<2xi32>", r"constant: a list of 3 for the shape \(2,\)"),
        ("%y = constant <f16: 100000.0> : tile<f16>", "constant: 100000.0 is too large for f16"),
        ("%y = constant <f32: ?> : tile<f32>", "no f32: '\\?'"),
        ("%y, %z = absf %x : tile<2xf32>", "absf: 2 names for 1 results"),
        ("%y = assume odd<1>, %i : tile<i32>", "unknown predicate 'odd'"),
        ("%y = assume div_by<4, every 2 along 0>, %i : tile<i32>", "a divisor of some elements alone is not known"),
        ('assert %i, "x" : tile<i32>', "assert: the condition is a tile<i32>"),
        ("yield %x : tile<2xf32>", "expected '}' after yield"),
        ("return\n%y = absf %x : tile<2xf32>", "expected '}' after return"),
        ("%t = make_token : tile<i32>", "make_token: makes no tile<i32>"),
        ("%y = absf %x : tile<2xf32>\n!", "unexpected character '!'"),
        ("%p = make_partition_view %x : partition_view<tile=(2), padding_value = one, tensor_view<2xf32, strides=[1]>>",
         "unknown padding value 'one'"),
        ("%p = make_partition_view %x : partition_view<tile=(2), tensor_view<2xf32, strides=[1]>>",
         "make_partition_view: no partition_view"),
        ("%p = make_tensor_view %x, shape = [2], strides = [1] : tensor_view<2xf32, strides=[1]>",
         "make_tensor_view: the base of a tensor_view<2xf32, strides=.* is no tile<2xf32>"),
    ],
)  # fmt: skip
def test_what_is_not_known_or_does_not_fit(body: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        parse(f"entry @bad(%c: tile<i1>, %q: tile<ptr<f32>>) {{ {I}\n{X}\n{body}\nreturn\n}}")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if %c -> (tile<i32>) { yield %i : tile<i32> }", "if: has results, and no else|1 results"),
        ("%y = if %c -> (tile<i32>) { yield %i : tile<i32> }", "if: has results, and no else"),
        ("%y = if %c -> (tile<i32>) { yield %i : tile<i32> } else { }", "if: a branch does not yield the results"),
        ("%y = if %c -> (tile<i32>) { yield %x : tile<2xf32> } else { yield %i : tile<i32> }",
         "yield: passes on tile<2xf32>, and not tile<i32>"),
        ("if %i { }", "if: the condition is a tile<i32>"),
        ("for %n in (%i to %i, step %i) : tile<i32> { %k = absi %n : tile<i32> }", "for: the body does not end in"),
        ("for %n in (%i to %i, step %i) : tile<i32> { break }", "break: does not end a for"),
        ("for %n in (%i to %i, step %x) : tile<i32> { continue }", "for: operand 2 is a tile<2xf32>"),
        ("%y = for %n in (%i to %i, step %i) : tile<i32> iter_values(%k = %i) -> (tile<i32>) { continue }",
         "continue: passes on nothing, and not tile<i32>"),
        ("%y = for %n in (%i to %i, step %i) : tile<i32> iter_values(%k = %i) -> (token) { continue %k : tile<i32> }",
         "for: the results are of the types that the loop carries"),
        ("%y = loop iter_values(%k = %i) : tile<i32> -> tile<i32> { if %c { break } continue %k : tile<i32> }",
         "break: passes on nothing, and not tile<i32>"),
        ("if %c { continue }", "continue: does not end an entry"),
        ("if %c { %k = absi %i : tile<i32> } %m = absi %k : tile<i32>", "absi: %k is used before it is defined"),
        ("%v, %t = load_ptr_tko eventually %q : tile<ptr<f32>> -> tile<f32>, token", "expected a memory ordering"),
        ("%v, %t = load_ptr_tko weak %q : tile<ptr<f32>> -> tile<i32>, token", "load_ptr_tko: moves a tile<f32>"),
        ("%v, %t = load_ptr_tko weak %q, %i : tile<ptr<f32>>, tile<i32> -> tile<f32>, token", "mask is a tile<i32>"),
        ("%t = store_ptr_tko weak %q, %i : tile<ptr<f32>>, tile<i32> -> token", "store_ptr_tko: moves a tile<f32>"),
        ("%t = store_ptr_tko acquire %q, %i : tile<ptr<f32>>, tile<i32> -> token", "expected a memory ordering"),
        ("%o = offset %q, %x : tile<ptr<f32>>, tile<2xf32> -> tile<ptr<f32>>", "offset: no offsets in a tile<2xf32>"),
    ],
)  # fmt: skip
def test_bodies_that_do_not_fit(body: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        parse(f"entry @bad(%c: tile<i1>, %q: tile<ptr<f32>>) {{ {I}\n{X}\n{body}\nreturn\n}}")


@pytest.mark.parametrize(
    ("dim", "identities", "result", "arguments", "end", "message"),
    [
        (1, "0", "f32", "%a: tile<f32>, %b: tile<f32>", "yield %a : tile<f32>", "reduce: tile<2xf32> has no axis 1"),
        (0, "0", "2xf32", "%a: tile<f32>, %b: tile<f32>", "yield %a : tile<f32>", "reduce: the results are tile<f32>"),
        (0, "0", "f32", "%a: tile<f32>", "yield %a : tile<f32>", "the region takes two scalars for each operand"),
        (
            0,
            "0",
            "f32",
            "%a: tile<f32>, %b: tile<f32>",
            "yield %i : tile<i32>",
            "the region yields one scalar for each",
        ),
        (0, "0, 1", "f32", "%a: tile<f32>, %b: tile<f32>", "yield %a : tile<f32>", "2 identities for 1 operands"),
    ],
)
def test_reductions_that_do_not_fit(
    dim: int, identities: str, result: str, arguments: str, end: str, message: str
) -> None:
    head = f"%y = reduce %x dim={dim} identities=[{identities}] : tile<2xf32> -> tile<{result}>"
    with pytest.raises(ProgramError, match=message):
        parse(f"entry @bad() {{ {I}\n{X}\n{head} {{ ^bb0({arguments}): {end} }} return }}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cuda_tile.module @m { entry @e() { return } ", "expected '}', found 'the end of the text'"),
        ("cuda_tile.module @m { cuda_tile.global @g alignment = 4 : i32 }", "no program with one can be run"),
        ("entry @e() { return } more", "expected a end, found 'more'"),
        ("entry @e() { }", "e does not end in return"),
        ("entry @e() fast = true { return }", "unknown attribute 'fast' of an entry"),
        (
            "entry @e(%a: tile<ptr<f32, #cuda_tile.ptr_attr<none>>>) { return }",
            "pointers with attributes are not known",
        ),
    ],
)
def test_texts_that_are_no_programs(text: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        parse(text)


def test_hints_and_names_for_debuggers_are_read_over() -> None:
    text = 'entry @e() di_name = "e" optimization_hints = #cuda_tile.optimization_hints<sm_90 = {num = 1}> { return }'
    assert list(parse(text).entries) == ["e"]
