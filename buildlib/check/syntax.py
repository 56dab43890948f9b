"""Python 3.9, the oldest that an artifact must load in: what parses there but fails when the module is imported.

What does not even parse there is found when the module is read; see source.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.source import required
from buildlib.check.subject import Subject
from buildlib.errors import Severity

_CHECK = "syntax"
# Modules and names of the standard library that came after 3.9, from its own documentation ("Added in version …"), as
# far as a kernel is likely to use them.
_NEWER_MODULES = {"tomllib": "3.11"}
_NEWER_NAMES = {
    "collections.abc": {"Buffer": "3.12"},
    "enum": dict.fromkeys(("EnumCheck", "FlagBoundary", "ReprEnum", "StrEnum", "member", "nonmember"), "3.11"),
    "dataclasses": {"KW_ONLY": "3.10"},
    "inspect": {"get_annotations": "3.10"},
    "itertools": {"pairwise": "3.10", "batched": "3.12"},
    "types": dict.fromkeys(("EllipsisType", "NoneType", "NotImplementedType", "UnionType"), "3.10"),
    "typing": dict.fromkeys(("Concatenate", "ParamSpec", "TypeAlias", "TypeGuard", "is_typeddict"), "3.10")
    | dict.fromkeys(("LiteralString", "Never", "NotRequired", "Required", "Self", "TypeVarTuple", "Unpack"), "3.11")
    | dict.fromkeys(("assert_never", "assert_type", "dataclass_transform", "reveal_type"), "3.11")
    | dict.fromkeys(("TypeAliasType", "override"), "3.12"),
}
_NEWER_ARGUMENTS = {
    "zip": {"strict": "3.10"},
    "dataclass": {"kw_only": "3.10", "slots": "3.10"},
}


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield advice about each use of something that Python 3.9 lacks and that its parser lets pass.

    It is no more than advice, as today's client, and torch from 2.9 on, need Python 3.10 themselves.
    """
    if not subject.modules:
        yield NotChecked(check=_CHECK, reason="no Python module that can be read")
    for module in subject.modules:
        for line, what in sorted({*newer(module.tree), *unions(module.tree)}):
            message = f"line {line}: {what}"
            yield Finding(check=_CHECK, where=module.path, message=message, severity=Severity.ADVICE)


def newer(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line of each use of what the standard library has from a later Python on, and what to say of it."""
    for node in required(tree):
        match node:
            case ast.Import(names=aliases):
                found = {alias.name: _NEWER_MODULES.get(alias.name) for alias in aliases}
            case ast.ImportFrom(module=str(source), names=aliases, level=0):
                known = _NEWER_NAMES.get(source, {})
                found = {f"{source}.{alias.name}": known.get(alias.name) for alias in aliases}
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=keywords):
                known = _NEWER_ARGUMENTS.get(name, {})
                found = {f"{name}(…, {word.arg}=…)": known.get(word.arg or "") for word in keywords}
            case _:
                continue
        for what, since in found.items():
            if since:
                yield node.lineno, f"{what} is there from Python {since} on; do without it, as Python 3.9 has to do"


def unions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The first `int | None` in an annotation that Python evaluates: before 3.10 types are not joined so (PEP 604)."""
    future = (node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__")
    if any(alias.name == "annotations" for node in future for alias in node.names):
        return
    joined = [
        annotation
        for annotation in _evaluated(tree, in_function=False)
        if any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr) for part in ast.walk(annotation))
    ]
    if joined:
        first = min(joined, key=lambda annotation: annotation.lineno)
        more = f" (and {len(joined) - 1} more)" if len(joined) > 1 else ""
        what = f"{ast.unparse(first)}{more} joins types when it is run, which Python can from 3.10 on"
        yield first.lineno, f"{what}; put 'from __future__ import annotations' first"


def _evaluated(node: ast.AST, *, in_function: bool) -> Iterator[ast.expr]:
    """The annotations below a node that Python evaluates: those of signatures, of modules and of classes."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.arg(annotation=ast.expr() as annotation):
                yield annotation
            case ast.AnnAssign(annotation=annotation) if not in_function:
                yield annotation
            case ast.FunctionDef(returns=ast.expr() as returns) | ast.AsyncFunctionDef(returns=ast.expr() as returns):
                yield returns
            case _:
                pass
        inside = in_function and not isinstance(child, ast.ClassDef)
        yield from _evaluated(child, in_function=inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))
