"""Tile IR text → Program.

Two printers are read: the one of the crate cutile-ir (`Module::to_mlir_text`), which the emitter of kernels uses, and
NVIDIA's `tileirdisasm`, which shows what is in the bytecode. All that is not known is an error of its line.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.tile_ir import access_forms, control_forms, forms
from tests.tile_ir.errors import ProgramError
from tests.tile_ir.lexer import Cursor
from tests.tile_ir.program import Entry, Operation, Program
from tests.tile_ir.reader import listed, read_attribute, read_type
from tests.tile_ir.scope import Reader, argument
from tests.tile_ir.signatures import SIGNATURES, Signature
from tests.tile_ir.types import Type

# Of entries: what a debugger shows, and hints, which change no result.
_ENTRY_ATTRIBUTES = frozenset({"di_name", "optimization_hints"})


def parse(text: str) -> Program:
    """The program of a text: a module, or entries alone as tileirdisasm prints them."""
    cursor = Cursor(text)
    wrapped = cursor.accept("cuda_tile.module")
    if wrapped:
        cursor.take("symbol")
        cursor.expect("{")
    entries: dict[str, Entry] = {}
    while cursor.accept("entry"):
        entry = _entry(cursor)
        entries[entry.symbol] = entry
    if cursor.sees("cuda_tile.global"):
        cursor.fail("an entry; the text does not say what a global holds, so no program with one can be run")
    if wrapped:
        cursor.expect("}")
    cursor.take("end")
    return Program(entries)


def _entry(cursor: Cursor) -> Entry:
    symbol = cursor.take("symbol")[1:]
    arguments = listed(cursor, "(", ")", argument)
    while not cursor.sees("{"):
        line, name = cursor.line, cursor.take("word")
        if name not in _ENTRY_ATTRIBUTES:
            raise ProgramError(line, f"unknown attribute {name!r} of an entry")
        cursor.expect("=")
        read_attribute(cursor)
    known = {name: partial(_plain, signature=signature) for name, signature in SIGNATURES.items()}
    reader = Reader(cursor, {**known, **forms.FORMS, **access_forms.FORMS, **control_forms.FORMS})
    body = reader.region(arguments)
    if not body.operations or body.operations[-1].name != "return":
        raise ProgramError(cursor.line, f"{symbol} does not end in return")
    for operation in control_forms.leaving(body):
        if operation.name != "return":
            raise operation.fail("does not end an entry")
    return Entry(symbol, body)


def _plain(reader: Reader, operation: Operation, *, signature: Signature) -> Operation:
    """An operation that a signature describes."""
    operation = reader.modified(reader.operands(operation, signature.operands), signature.modifiers)
    cursor, operands, kinds = reader.cursor, 0, list[Type]()
    cursor.expect(":")
    for position, letter in enumerate(signature.types):
        if letter == "-":
            cursor.expect("->")
            continue
        if position and signature.types[position - 1] != "-":
            cursor.expect(",")
        if letter == "o":
            reader.confirm(operation, operands)
            operands += 1
        else:
            kinds += [read_type(cursor)] * (len(operation.results) if letter == "n" else 1)
    if not kinds:  # of a matrix product, whose result is as its accumulator
        kinds = [operation.operand_types[-1]]
    operation = replace(operation, result_types=tuple(kinds))
    signature.rule(operation)
    return operation
