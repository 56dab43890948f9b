"""The Python modules of an artifact, as syntax trees."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator

import msgspec

from buildlib.check.finding import Finding

OLDEST_PYTHON = (3, 9)
_NEWER_SYNTAX = (ast.Match, ast.TryStar)
# Errors by which a module finds out that something is not there.
_ABSENT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
# Conditions under which a module does what it does not do everywhere.
_CONDITIONS = frozenset({"TYPE_CHECKING", "version_info"})


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """A Python file of an artifact, at `path` within it."""

    path: str
    tree: ast.Module


def parse(path: str, content: bytes) -> Module | Finding:
    """Parse a module with the grammar of the oldest Python that an artifact must load in."""
    try:
        with warnings.catch_warnings():
            # What Python warns about, such as an escape that means nothing, is no business of these checks.
            warnings.simplefilter("ignore")
            return Module(path=path, tree=ast.parse(content, path, feature_version=OLDEST_PYTHON))
    except SyntaxError as error:
        line = _newer_line(content) or error.lineno
        message = f"line {line}: {error.msg}; write it so that Python 3.9 understands it"
    except ValueError as error:
        message = f"{error}; save it as text"
    return Finding(check="syntax", where=path, message=message)


def _newer_line(content: bytes) -> int | None:
    """The first line of syntax from after the oldest Python: the parser names the last line that it has read."""
    try:
        tree = ast.parse(content)
    except SyntaxError:
        return None
    return min((node.lineno for node in ast.walk(tree) if isinstance(node, _NEWER_SYNTAX)), default=None)


def required(node: ast.AST, *, at_once: bool = False) -> Iterator[ast.AST]:
    """All nodes below one, less those that run only where something else is there, such as a newer Python.

    With `at_once`, only what runs whenever the module is imported: nothing in functions, and nothing under a condition.
    """
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.If() if at_once:
                inside: list[ast.AST] = []
            case ast.Try(body=_, handlers=handlers) if any(_copes(handler) for handler in handlers):
                inside = [*handlers, *child.orelse, *child.finalbody]
            case ast.With(items=items) if any(_suppresses(item.context_expr) for item in items):
                inside = []
            case ast.If(test=test) if any(_name(part) in _CONDITIONS for part in ast.walk(test)):
                inside = list(child.orelse)
            case _:
                inside = [child]
        for other in inside:
            yield other
            yield from required(other, at_once=at_once)


def loaded(modules: Iterable[Module]) -> frozenset[str]:
    """The paths of the modules that are imported whenever the kernel is: its `__init__.py`, and what that imports."""
    trees = {module.path: module.tree for module in modules}
    found: set[str] = set()
    waiting = ["__init__.py"]
    while waiting:
        path = waiting.pop()
        if path in trees and path not in found:
            found.add(path)
            for node in required(trees[path], at_once=True):
                if isinstance(node, ast.ImportFrom) and node.level:
                    waiting += _targets(path, node)
    return frozenset(found)


def _targets(path: str, node: ast.ImportFrom) -> Iterator[str]:
    """The modules that a relative import may import, each as the paths that it may be at."""
    package = path.split("/")[: -node.level]
    parts = [*package, *(node.module.split(".") if node.module else ())]
    for length in range(len(package), len(parts) + 1):
        yield from _paths(parts[:length])
    for alias in node.names:
        yield from _paths([*parts, alias.name])


def _paths(parts: list[str]) -> Iterator[str]:
    yield "/".join([*parts, "__init__.py"])
    if parts:
        yield "/".join(parts) + ".py"


def _copes(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(error is None or _name(error) in _ABSENT for error in caught)


def _suppresses(context: ast.expr) -> bool:
    if not isinstance(context, ast.Call) or _name(context.func) != "suppress":
        return False
    return any(_name(error) in _ABSENT for error in context.args)


def _name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return None
