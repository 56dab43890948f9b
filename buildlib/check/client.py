"""The reading half of the `kernels` client, which users' machines run: its own reader of metadata.json and of digests.

It is a native module inside the package, loaded here by itself: importing the package would import torch.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

_NATIVE = "kernels._rust"
_ONE_AT_A_TIME = threading.Lock()


def metadata_problem(folder: Path) -> str | None:
    """Why the client does not accept an artifact's metadata.json, or None."""
    try:
        _native().Metadata.read_from_file(folder / "metadata.json")
    except ValueError as error:
        return str(error)
    return None


def digest_problem(folder: Path) -> str | None:
    """Why the client does not accept an artifact's files, or None."""
    native = _native()
    try:
        expected = native.Metadata.read_from_file(folder / "metadata.json").digest
    except ValueError:
        return None  # `metadata_problem` is about that.
    if expected is None:
        return "metadata.json has none"
    try:
        expected.validate(native.Digest.hash_variant(expected.algorithm, folder))
    except native.DigestValidationError as error:
        return str(error)
    return None


def importable(dependency: str) -> tuple[str, ...]:
    """The top-level modules that a name in `python-depends` lets a kernel import, by the client's own list."""
    return tuple(_python_depends().get(dependency, {}))


def missing(dependencies: Iterable[str]) -> dict[str, str]:
    """What this environment lacks of `python-depends`: top-level modules, each with what pip calls its package."""
    needed = {module: pip for name in dependencies for module, pip in _python_depends().get(name, {}).items()}
    return {module: pip for module, pip in needed.items() if not is_here(module)}


def is_here(module: str) -> bool:
    """Whether a top-level module could be imported in this environment."""
    return importlib.util.find_spec(module) is not None


def declarable(module: str) -> str | None:
    """The name in `python-depends` that lets a kernel import a top-level module."""
    return next((name for name, modules in _python_depends().items() if module in modules), None)


@cache
def _python_depends() -> dict[str, dict[str, str]]:
    """The top-level modules of each name, and what pip calls the package that has it."""
    listed = json.loads((_package() / "python_depends.json").read_text(encoding="utf-8"))
    return {
        name: {entry["import"].partition(".")[0]: entry["pkg"] for entry in about["python"] if "import" in entry}
        for group in (listed["general"], *listed["backends"].values())
        for name, about in group.items()
    }


def _package() -> Path:
    spec = importlib.util.find_spec("kernels")
    assert spec is not None, "the kernels package is a dependency of this one"
    assert spec.origin is not None
    return Path(spec.origin).parent


def _native() -> ModuleType:
    """The native module, under its own name: it can be initialised once in a process, whoever asks for it first."""
    with _ONE_AT_A_TIME:
        if _NATIVE not in sys.modules:
            path = next(_package().glob("_rust*.so"))
            spec = importlib.util.spec_from_file_location(_NATIVE, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules[_NATIVE] = module
        return sys.modules[_NATIVE]
