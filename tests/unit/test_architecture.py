"""The rules of the design that can be read off the source: who may import what, and how long a file may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_FILES = {
    ".".join(path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((_ROOT / "buildlib").rglob("*.py"))
}
_MAX_LINES = 450
_MAX_LINES_OF_DODO = 120


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_FILES[module].read_text(encoding="utf-8"))


def _names(module: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules that an import statement may load: `from a import b` loads a, and a.b where that is a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        package = module.split(".")
        # A package's own __init__ stands one level higher than its modules.
        cut = node.level - (_FILES[module].name == "__init__.py")
        base = ".".join([*package[: len(package) - cut], *([base] if base else [])])
    yield base
    yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _imports(module: str, *, when_loaded: bool) -> set[str]:
    """What a module imports: all that its text names, or only what is imported when it is loaded."""

    def walk(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _names(module, node)
        in_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if when_loaded and (in_function or _is_type_checking(node)):
            return
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    return set(walk(_tree(module)))


def _top(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def _loaded_with(module: str, *, stop_at: frozenset[str] = frozenset()) -> dict[str, str]:
    """The packages outside of buildlib that loading a module loads, each with a module that imports it.

    `stop_at` are modules that are not followed into.
    """
    found: dict[str, str] = {}
    waiting, seen = [module], {module}
    while waiting:
        current = waiting.pop()
        parts = current.split(".")
        # Loading a.b.c loads a and a.b first.
        inside = {".".join(parts[:length]) for length in range(1, len(parts))}
        for name in sorted(_imports(current, when_loaded=True) | inside):
            if name.partition(".")[0] != "buildlib":
                found.setdefault(name.partition(".")[0], current)
            elif name in _FILES and name not in seen and name not in stop_at:
                seen.add(name)
                waiting.append(name)
    return found


def _modules_that(does: object) -> set[str]:
    assert callable(does)
    return {module for module in _FILES if does(module)}


def _reads_environment(module: str) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "environb", "putenv", "unsetenv"})
        or (isinstance(node, ast.ImportFrom) and node.module == "os")
        for node in ast.walk(_tree(module))
    ) and "os" in _top(_imports(module, when_loaded=False))


def _calls(module: str, name: str) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def test_the_files_are_there() -> None:
    # All other tests here would pass on nothing.
    assert {"buildlib", "buildlib.plan", "buildlib.config", "buildlib.config.model", "buildlib.check"} <= set(_FILES)


# --- who may import what ---


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        # nvcc_job is a program of its own.
        ("subprocess", {"buildlib.process", "buildlib.nvcc_job"}),
        ("_posixsubprocess", set()),
        ("multiprocessing", set()),
        ("asyncio", set()),
        ("doit", {"buildlib.tasks", *(f"buildlib.commands{part}" for part in ("", "_base", "_ci", "_publish"))}),
        ("jinja2", {"buildlib.render"}),
        (
            "tomli",
            {
                "buildlib.changes",
                "buildlib.config.text",
                "buildlib.data",
                "buildlib.matrix",
                "buildlib.rust.manifest",
            },
        ),
        ("tomllib", {"buildlib.config.text"}),
        ("kernels", {"buildlib.check._load_child"}),
        ("torch", set()),
        ("tvm_ffi", set()),
    ],
)
def test_only_these_modules_import(package: str, allowed: set[str]) -> None:
    importing = _modules_that(lambda module: package in _top(_imports(module, when_loaded=False)))
    assert importing <= allowed


def test_only_config_and_manifests_edit_toml() -> None:
    importing = _modules_that(lambda module: "tomlkit" in _top(_imports(module, when_loaded=False)))
    assert {module for module in importing if not module.startswith("buildlib.config.")} == {"buildlib.rust.manifest"}


def test_only_process_starts_programs() -> None:
    starting = _modules_that(
        lambda module: any(
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "os"
            and node.attr.startswith(("exec", "fork", "popen", "posix_spawn", "spawn", "system"))
            for node in ast.walk(_tree(module))
        )
    )
    assert starting == set()


def test_only_environment_reads_the_environment() -> None:
    assert _modules_that(_reads_environment) == {"buildlib.environment", "buildlib.nvcc_job"}


def test_dodo_imports_nothing_but_tasks() -> None:
    tree = ast.parse((_ROOT / "dodo.py").read_text(encoding="utf-8"))
    imported = {
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= {"collections.abc", "pathlib", "buildlib.tasks"}


# --- what is loaded for every command ---

_HEAVY = {"torch", "jinja2", "kernels", "tvm_ffi", "huggingface_hub", "tomlkit", "pytest", "numpy", "cmake", "ninja"}


@pytest.mark.parametrize(
    "module", ["buildlib.tasks", "buildlib.commands", "buildlib.commands_ci", "buildlib.commands_publish"]
)
def test_loading_what_doit_loads_loads_nothing_heavy(module: str) -> None:
    assert {package: by for package, by in _loaded_with(module).items() if package in _HEAVY} == {}


@pytest.mark.parametrize("stage", ["discover", "config", "matrix", "plan", "variant", "selection", "digest"])
def test_the_stages_that_every_command_runs_are_pure(stage: str) -> None:
    # The toolchain is asked for its version once; what asks it is not followed.
    loaded = _loaded_with(f"buildlib.{stage}", stop_at=frozenset({"buildlib.process"}))
    assert {package: by for package, by in loaded.items() if package in _HEAVY | {"subprocess", "doit"}} == {}


@pytest.mark.parametrize(
    ("module", "stages"),
    [
        ("variant", {"variant"}),
        ("selection", {"selection", "errors"}),
        ("discover", {"discover", "files"}),
        ("matrix", {"matrix", "errors", "variant"}),
    ],
)
def test_the_pure_modules_stand_on_few_others(module: str, stages: set[str]) -> None:
    imported = {name for name in _imports(f"buildlib.{module}", when_loaded=False) if name in _FILES}
    assert {name.removeprefix("buildlib.") for name in imported} - {"buildlib", module} <= stages


def test_config_knows_nothing_of_later_stages() -> None:
    imported = {
        name
        for module in _FILES
        if module.startswith("buildlib.config")
        for name in _imports(module, when_loaded=False)
        if name in _FILES and not name.startswith("buildlib.config")
    }
    assert imported <= {"buildlib", "buildlib.errors", "buildlib.variant"}


def test_no_two_modules_import_each_other() -> None:
    graph = {
        module: {name for name in _imports(module, when_loaded=True) if name in _FILES and name != module}
        for module in _FILES
    }

    def reach(start: str) -> set[str]:
        waiting, seen = [start], set[str]()
        while waiting:
            for name in graph[waiting.pop()] - seen:
                # A package stands for its __init__, which may gather its own modules.
                if not start.startswith(f"{name}."):
                    seen.add(name)
                    waiting.append(name)
        return seen

    assert [module for module in graph if module in reach(module)] == []


# --- form ---


@pytest.mark.parametrize("module", _FILES)
def test_no_file_is_too_long(module: str) -> None:
    assert len(_FILES[module].read_text(encoding="utf-8").splitlines()) <= _MAX_LINES


def test_dodo_is_short() -> None:
    assert len((_ROOT / "dodo.py").read_text(encoding="utf-8").splitlines()) <= _MAX_LINES_OF_DODO


@pytest.mark.parametrize("module", _FILES)
def test_nothing_prints(module: str) -> None:
    assert _calls(module, "print") == []


@pytest.mark.parametrize("module", _FILES)
def test_every_module_says_what_it_is_for(module: str) -> None:
    assert ast.get_docstring(_tree(module))


@pytest.mark.parametrize("module", _FILES)
def test_no_template_text_in_python(module: str) -> None:
    """CMake, C++ and Python that is generated stands in templates."""
    texts = [
        node.value for node in ast.walk(_tree(module)) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    marks = ("add_library(", "target_link_libraries(", "cmake_minimum_required", 'extern "C"', "PyObject*")
    assert [text for text in texts if any(mark in text for mark in marks)] == []
