"""Imports: relative, of the standard library, of torch, and of what build.toml declares in python-depends.

A kernel is loaded under a name of its own making from wherever it was downloaded to, so it cannot import itself by its
own name; and anything else may not be on the user's machine.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from buildlib import variant as variants
from buildlib.check.client import declarable, importable
from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.source import Module, loaded, required
from buildlib.check.subject import Subject

_CHECK = "imports"
# Rendered by the builder, which knows what it imports.
_GENERATED = "_ops.py"


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield a finding for each import of something else that is made whenever the kernel is loaded.

    An import in a function, under a condition, or in a module that the kernel does not import by itself is made when
    someone wants it, if ever. Whether that is a fault cannot be told from here, so it is named as not checked; but the
    kernel by its own name is never there.
    """
    if not subject.modules:
        yield NotChecked(check=_CHECK, reason="no Python module that can be read")
    own = subject.spec.kernel.general.module
    allowed, at_load = _allowed(subject), loaded(subject.modules)
    for module in subject.modules:
        if module.path == _GENERATED:
            continue
        at_once = set(absolute(module.tree, at_once=True)) if module.path in at_load else set()
        later = []
        for line, name in absolute(module.tree):
            if name in allowed:
                continue
            if name == own:
                yield _finding(module, line, f"imports the kernel by its own name, {name}; use a relative import")
            elif (line, name) in at_once:
                dependency = declarable(name)
                todo = f"declare {dependency} in python-depends" if dependency else "do without it"
                what = f"imports {name}, which users need not have"
                yield _finding(module, line, f"{what}; {todo}, or import it only where it is used")
            else:
                later.append(name)
        if later:
            names = ", ".join(dict.fromkeys(later))
            yield NotChecked(check=_CHECK, reason=f"{module.path} imports {names}, but not whenever it is loaded")


def _allowed(subject: Subject) -> set[str]:
    return {
        *sys.stdlib_module_names,
        *subject.policy.imports.client,
        *brought(subject),
        *(name for depend in subject.artifact.metadata.python_depends for name in importable(depend)),
    }


def brought(subject: Subject) -> set[str]:
    """The modules that come with the framework, or with the backend's torch."""
    variant, there = subject.spec.variant, subject.policy.imports
    framework = variants.framework(variant).removesuffix("-noarch")
    return {*there.framework.get(framework, ()), *there.backend.get(variants.backend(variant), ())}


def absolute(tree: ast.Module, *, at_once: bool = False) -> Iterator[tuple[int, str]]:
    """The line and the top-level module of each absolute import whose absence the module does not cope with."""
    for node in required(tree, at_once=at_once):
        match node:
            case ast.Import(names=aliases, lineno=line):
                yield from ((line, alias.name.partition(".")[0]) for alias in aliases)
            case ast.ImportFrom(module=str(source), level=0, lineno=line):
                yield line, source.partition(".")[0]


def _finding(module: Module, line: int, message: str) -> Finding:
    return Finding(check=_CHECK, where=module.path, message=f"line {line}: {message}")
