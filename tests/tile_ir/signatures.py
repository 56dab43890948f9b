"""The operations that are written alike: their operands, modifiers, types, and the rule that the types obey.

Source: `print_operation` of the crate cutile-ir. Where the text names the type of an operand, the parser compares it
with the type under which the operand was defined.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.tile_ir import rules
from tests.tile_ir.rules import Rule

ROUNDING = "rounding"
FTZ = "flush_to_zero"
NAN = "propagate_nan"
SIGN = "signedness"
OVERFLOW = "overflow"


@dataclass(frozen=True)
class Signature:
    """How an operation is written.

    `types` has one letter for each type that is printed: o for an operand, in order, r for a result, - for an arrow
    where the printer draws one, and n for the one type that all results share.
    """

    operands: int
    types: str
    rule: Rule
    modifiers: frozenset[str] = frozenset()


def _all(names: str, operands: int, types: str, rule: Rule, *modifiers: str) -> dict[str, Signature]:
    return {name: Signature(operands, types, rule, frozenset(modifiers)) for name in names.split()}


SIGNATURES: dict[str, Signature] = {
    **_all("absf ceil cos cosh floor log log2 negf sin sinh tan", 1, "r", rules.same_float),
    **_all("exp tanh", 1, "r", rules.same_float, ROUNDING),
    **_all("exp2 rsqrt", 1, "r", rules.same_float, FTZ),
    **_all("sqrt", 1, "r", rules.same_float, ROUNDING, FTZ),
    **_all("absi", 1, "r", rules.same_integer),
    **_all("negi", 1, "r", rules.same_integer, OVERFLOW),
    **_all("iota", 0, "r", rules.iota),
    **_all("make_token", 0, "r", rules.token),
    **_all("andi ori xori", 2, "r", rules.same_bits),
    **_all("addi muli subi shli", 2, "r", rules.same_integer, OVERFLOW),
    **_all("maxi mini remi shri", 2, "r", rules.same_integer, SIGN),
    **_all("divi", 2, "r", rules.same_integer, SIGN, ROUNDING),
    **_all("atan2 remf pow", 2, "r", rules.same_float),
    **_all("addf divf mulf subf", 2, "r", rules.same_float, ROUNDING, FTZ),
    **_all("maxf minf", 2, "r", rules.same_float, FTZ, NAN),
    **_all("fma", 3, "r", rules.same_float, ROUNDING, FTZ),
    **_all("bitcast", 1, "o-r", rules.bitcast),
    **_all("broadcast", 1, "o-r", rules.broadcast),
    **_all("reshape", 1, "o-r", rules.reshape),
    **_all("int_to_ptr", 1, "o-r", rules.int_to_ptr),
    **_all("ptr_to_int", 1, "o-r", rules.ptr_to_int),
    **_all("ptr_to_ptr", 1, "o-r", rules.ptr_to_ptr),
    **_all("exti", 1, "o-r", rules.exti, SIGN),
    **_all("trunci", 1, "o-r", rules.trunci, OVERFLOW),
    **_all("ftof", 1, "o-r", rules.ftof, ROUNDING),
    **_all("ftoi", 1, "o-r", rules.ftoi, SIGN, ROUNDING),
    **_all("itof", 1, "o-r", rules.itof, SIGN, ROUNDING),
    **_all("offset", 2, "oo-r", rules.offset),
    **_all("select", 3, "or", rules.select),
    **_all("mmaf", 3, "ooo", rules.mmaf),
    **_all("get_tile_block_id get_num_tile_blocks", 0, "n", rules.block_numbers),
    **_all("get_tensor_shape get_index_space_shape", 1, "o-n", rules.view_shape),
    **_all("make_partition_view", 1, "r", rules.partition),
}
