"""The reader of one entry: values in scope, and the parts that operations are made of."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.tile_ir.errors import ProgramError
from tests.tile_ir.lexer import Cursor
from tests.tile_ir.modifiers import read_modifiers
from tests.tile_ir.program import Operation, Region
from tests.tile_ir.reader import listed, read_type
from tests.tile_ir.rules import Rule
from tests.tile_ir.types import Type

TERMINATORS = frozenset({"break", "continue", "return", "yield"})


def value(cursor: Cursor) -> str:
    """The name of a value."""
    return cursor.take("value")


def argument(cursor: Cursor) -> tuple[str, Type]:
    """`%name: type`."""
    name = value(cursor)
    cursor.expect(":")
    return name, read_type(cursor)


class Reader:
    """Reads operations; `known` has for each name the function that reads what follows the name."""

    def __init__(self, cursor: Cursor, known: Mapping[str, Callable[[Reader, Operation], Operation]]) -> None:
        self.cursor = cursor
        self._known = known
        self._types: ChainMap[str, Type] = ChainMap()

    def region(self, arguments: tuple[tuple[str, Type], ...], *, labelled: bool = False) -> Region:
        """`{ operations }`; a labelled one says its arguments after the brace, or before it (tileirdisasm)."""
        cursor = self.cursor
        self._types = self._types.new_child()
        if labelled and cursor.sees("("):
            arguments = listed(cursor, "(", ")", argument)
        cursor.expect("{")
        if labelled and cursor.here.kind == "label":
            cursor.take("label")
            arguments = listed(cursor, "(", ")", argument)
            cursor.expect(":")
        for name, kind in arguments:
            self._define(name, kind)
        operations: list[Operation] = []
        while not cursor.accept("}"):
            if operations and operations[-1].name in TERMINATORS:
                cursor.fail(f"'}}' after {operations[-1].name}")
            operations.append(self._operation())
        self._types = self._types.parents
        return Region(arguments, tuple(operations))

    def _define(self, name: str, kind: Type) -> None:
        if name in self._types:
            raise ProgramError(self.cursor.line, f"{name} is defined twice")
        self._types[name] = kind

    def _results(self) -> tuple[str, ...]:
        """The names left of the equals sign; `%a:2` stands for `%a#0, %a#1`."""
        cursor, names = self.cursor, list[str]()
        while cursor.here.kind == "value":
            name = value(cursor)
            names += [f"{name}#{index}" for index in range(cursor.integer())] if cursor.accept(":") else [name]
            if not cursor.accept(","):
                cursor.expect("=")
                break
        return tuple(names)

    def _operation(self) -> Operation:
        results = self._results()
        line, name = self.cursor.line, self.cursor.take("word").removeprefix("cuda_tile.")
        if name not in self._known:
            raise ProgramError(line, f"unknown operation {name!r}")
        operation = self._known[name](self, Operation(name, line, (), (), results, ()))
        if len(results) != len(operation.result_types):
            raise operation.fail(f"{len(results)} names for {len(operation.result_types)} results")
        for result, kind in zip(results, operation.result_types, strict=True):
            self._define(result, kind)
        return operation

    def use(self, operation: Operation, *names: str) -> Operation:
        """The operation with these operands more."""
        missing = [name for name in names if name not in self._types]
        if missing:
            raise operation.fail(f"{missing[0]} is used before it is defined")
        kinds = tuple(self._types[name] for name in names)
        operands, types = operation.operands + names, operation.operand_types + kinds
        return replace(operation, operands=operands, operand_types=types)

    def operands(self, operation: Operation, count: int) -> Operation:
        """So many operands, separated by commas."""
        for index in range(count):
            if index:
                self.cursor.expect(",")
            operation = self.use(operation, value(self.cursor))
        return operation

    def all_operands(self, operation: Operation) -> Operation:
        """One operand or more, separated by commas."""
        operation = self.use(operation, value(self.cursor))
        while self.cursor.accept(","):
            operation = self.use(operation, value(self.cursor))
        return operation

    def modified(self, operation: Operation, allowed: frozenset[str] = frozenset()) -> Operation:
        """What may stand between operands and types: rounding, signedness, an attribute dictionary."""
        return with_attributes(operation, **read_modifiers(self.cursor, operation.name, allowed))

    def confirm(self, operation: Operation, index: int) -> None:
        """Read the type of an operand, which must be the one that it was defined with."""
        printed, known = read_type(self.cursor), operation.operand_types[index]
        if printed != known:
            raise operation.fail(f"operand {operation.operands[index]} is a {known}, and not a {printed}")

    def as_operand(self, operation: Operation) -> Operation:
        """The type of the first operand, which is that of the result too."""
        self.confirm(operation, 0)
        return replace(operation, result_types=operation.operand_types)

    def with_region(
        self, operation: Operation, arguments: tuple[tuple[str, Type], ...], *, labelled: bool = False
    ) -> Operation:
        """The operation with the region that follows."""
        return replace(operation, regions=(*operation.regions, self.region(arguments, labelled=labelled)))

    def typed(self, operation: Operation, *operands: int, results: int = 0) -> Operation:
        """`: types of these operands -> types of results`."""
        self.cursor.expect(":")
        for position, index in enumerate(operands):
            if position:
                self.cursor.expect(",")
            self.confirm(operation, index)
        if results and operands:
            self.cursor.expect("->")
        kinds = tuple(self.result_type(first=not position) for position in range(results))
        return replace(operation, result_types=kinds)

    def result_type(self, *, first: bool) -> Type:
        if not first:
            self.cursor.expect(",")
        return read_type(self.cursor)

    def either(self, yes: str, no: str) -> bool:
        """Which of two words follows."""
        if self.cursor.accept(yes):
            return True
        self.cursor.expect(no)
        return False

    def named(self, name: str) -> None:
        """`name =`."""
        self.cursor.expect(name)
        self.cursor.expect("=")


def with_attributes(operation: Operation, **more: Any) -> Operation:
    """The operation with these attributes more."""
    return replace(operation, attributes={**operation.attributes, **more})


def checked(operation: Operation, rule: Rule) -> Operation:
    """The operation, if it obeys the rule."""
    rule(operation)
    return operation
