"""Operators that Python registers: under the kernel's own namespace, which is another one for each content and backend.

Only so can two versions of a kernel, or its CPU and its CUDA variant, be in one process. The check reads the source; it
takes a name for right if `add_op_namespace_prefix`, or `ops`, of the generated `_ops.py` has part in it, and does not
judge what only another function or module knows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.source import Module
from buildlib.check.subject import Subject
from buildlib.config.model import TvmFfi

_CHECK = "ops"
_PREFIX = "add_op_namespace_prefix"
_GENERATED = "_ops"
# Functions of torch.library, which register what their first argument names. `Library` names a whole namespace.
_REGISTER = frozenset(
    {"Library", "custom_op", "define", "impl", "impl_abstract", "register_autocast", "register_autograd"}
    | {"register_fake", "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op"}
)
# The same as methods of a torch.library.Library: a name without a namespace of its own is in the library's.
_METHODS = frozenset({"define", "impl", "_register_fake"})
# What the argument is called where it is given by name.
_KEYWORDS = ("name", "op", "qualname", "ns", "schema", "op_name")


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield a finding for each registration under a name that is not seen to be prefixed."""
    if not subject.modules:
        yield NotChecked(check=_CHECK, reason="no Python module that can be read")
    prefix = f"torch_{_PREFIX}" if isinstance(subject.spec.kernel.framework, TvmFfi) else _PREFIX
    for module in subject.modules:
        if module.path != f"{_GENERATED}.py":
            yield from unprefixed(module, prefix)


def unprefixed(module: Module, prefix: str = _PREFIX) -> Iterator[Finding]:
    """Yield a finding for each registration in a module, however deeply nested, that is not seen to be prefixed.

    `prefix` is what the generated `_ops.py` calls the function that prefixes.
    """
    names = _Names(module.tree)
    calls = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))
    for node in sorted(calls, key=lambda call: call.lineno):
        if (argument := _first(node)) is None:
            continue
        if (function := names.function(node.func)) is None:
            function = names.method(node.func)
            if function is None or not _has_namespace(argument):
                continue
        if names.prefixed(argument):
            continue
        use = f"{prefix}('…')" if function != "Library" else f"{prefix}('').removesuffix('::')"
        message = (
            f"line {node.lineno}: {function}({ast.unparse(argument)}, …) does not register under the kernel's own "
            f"namespace; write {use}, from ._ops"
        )
        yield Finding(check=_CHECK, where=module.path, message=message)


class _Names:
    """What the names of a module stand for, as far as its imports and its assignments tell."""

    def __init__(self, tree: ast.Module) -> None:
        # The dotted name that each imported name stands for; a relative one starts with a dot.
        self._imported: dict[str, str] = {}
        self._assigned: dict[str, list[ast.expr]] = {}
        # Parameters, functions and classes: no text that is spelled here.
        self._opaque: set[str] = set()
        for node in ast.walk(tree):
            match node:
                case ast.Import() | ast.ImportFrom():
                    self._import(node)
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._assign(target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, value)
                case ast.NamedExpr(target=target, value=value):
                    self._assign(target, value)
                case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    self._opaque.add(name)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                parts = ("." if node.level else "", node.module, alias.name)
                self._imported[alias.asname or alias.name] = ".".join(part for part in parts if part)
            else:
                root = alias.name.partition(".")[0]
                self._imported[alias.asname or root] = alias.name if alias.asname else root

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name | ast.Attribute):
            self._assigned.setdefault(_last(target), []).append(value)

    def function(self, node: ast.expr) -> str | None:
        """The function of torch.library that an expression stands for."""
        module, _, function = (self._dotted(node) or "").rpartition(".")
        return function if module == "torch.library" and function in _REGISTER else None

    def method(self, node: ast.expr) -> str | None:
        """The method of a torch.library.Library of this module that an expression stands for."""
        if not isinstance(node, ast.Attribute) or node.attr not in _METHODS:
            return None
        owner = node.value
        values = self._assigned.get(_last(owner), []) if isinstance(owner, ast.Name | ast.Attribute) else [owner]
        made = (value.func for value in values if isinstance(value, ast.Call))
        return node.attr if any(self.function(function) == "Library" for function in made) else None

    def prefixed(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether the kernel's namespace has part in an expression, or it holds a name that cannot be judged here."""
        return any(
            self._prefixed_name(part, seen) for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute)
        )

    def _prefixed_name(self, node: ast.Name | ast.Attribute, seen: frozenset[str]) -> bool:
        dotted = self._dotted(node) or ""
        if dotted.startswith(".") or _GENERATED in dotted.split(".") or _last(node).endswith(_PREFIX):
            return True
        if not isinstance(node, ast.Name) or node.id in seen:
            return False
        values = self._assigned.get(node.id)
        if values is None:
            return node.id in self._opaque
        return all(self.prefixed(value, seen | {node.id}) for value in values)

    def _dotted(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> str | None:
        """`torch.library.impl` for whatever expression means it, through aliases made by import or by assignment."""
        match node:
            case ast.Attribute(value=value, attr=attribute):
                base = self._dotted(value, seen)
                return f"{base}.{attribute}" if base else None
            case ast.Name(id=name):
                values = self._assigned.get(name, [])
                if name in self._imported or name in seen or len(values) != 1:
                    return self._imported.get(name, name)
                return self._dotted(values[0], seen | {name})
            case _:
                return None


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _first(call: ast.Call) -> ast.expr | None:
    """The argument that names what a call registers, if it is one that registers."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    return call.args[0] if call.args else next((named[name] for name in _KEYWORDS if name in named), None)


def _has_namespace(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Constant) and "::" in str(part.value) for part in ast.walk(node))
