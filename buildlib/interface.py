"""What users of an artifact can call, and whether a newer artifact can take an older one's place. Pure.

The interface is read from text: Python signatures from the syntax tree of the package, op schemas from the `def(...)`
calls of the C++ sources, names of tvm-ffi functions from the library's symbol table. Loading the artifact would see op
schemas that a macro puts together, too. But it costs seconds for each build, it is impossible where the backend's
libraries are missing, and for what is already published it would mean running foreign binaries. So the interface is
read when an artifact is made, and kept in its metadata.json: both sides of a comparison are then at hand as text, on
any machine.
"""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

# Follows a chain of re-exports this far; a package that imports in a circle ends here.
_DEPTH = 8
_LITERAL = r'"(?:\\.|[^"\\])*"'
_COMMENT_OR_LITERAL = re.compile(rf"//[^\n]*|/\*.*?\*/|({_LITERAL})", re.DOTALL)
_DEFINITION = re.compile(rf"\bdef\s*\(\s*((?:{_LITERAL}\s*)+)")
_SCHEMA = re.compile(r"(?:\w+::)?(\w+(?:\.\w+)?)\s*(\(.*\)\s*->.*)?")
_EXPORT_PREFIX = "__tvm_ffi_"
_OP_DECORATORS = frozenset({"custom_op", "triton_op"})


class Interface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Signatures by exported name (`Class.method` for a method), and op schemas by op name.

    The text is empty for what cannot be called, and for an op whose schema is not in the sources.
    """

    python: dict[str, str] = {}
    ops: dict[str, str] = {}


def of(package: Mapping[str, bytes], sources: Iterable[bytes] = (), library: bytes | None = None) -> Interface:
    """The interface of an artifact: its Python files by path, the text of its C++ sources, and a tvm-ffi library."""
    ops: dict[str, str] = {}
    for source in sources:
        ops |= dict(_registered(source.decode("utf-8", "replace")))
    for path in sorted(path for path in package if path.endswith(".py")):
        ops |= dict(_registered_in_python(_parse(package[path])))
    if library is not None:
        ops |= dict.fromkeys(_exported(library), "")
    return Interface(python=python(package), ops=dict(sorted(ops.items())))


def python(package: Mapping[str, bytes]) -> dict[str, str]:
    """The signature of each name in `__all__`, or of each public function and class where there is no `__all__`."""
    tree = _parse(package.get("__init__.py", b""))
    names = exports(tree)
    if names is None:
        defined = (node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
        names = [name for name in defined if not name.startswith("_")]
    found: dict[str, str] = {}
    for name in names:
        found |= _resolve(package, "__init__.py", name, _DEPTH)
    return dict(sorted(found.items()))


def exports(tree: ast.Module) -> list[str] | None:
    """The strings that are spelt out in `__all__`, or None where there are none."""
    names: list[str] | None = None
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                names = _strings(value)
            case ast.AugAssign(target=ast.Name(id="__all__"), op=ast.Add(), value=value):
                names = [*(names or ()), *(_strings(value) or ())]
    return names


def _strings(value: ast.expr) -> list[str] | None:
    """The strings in a literal list, or in a sum of which a part is one; None for any other expression."""
    match value:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [found for found in (_strings(left), _strings(right)) if found is not None]
            return [name for part in parts for name in part] if parts else None
        case _:
            return None


def losses(old: Interface, new: Interface) -> list[str]:
    """How `new` fails those who use `old`, a line each; empty where every old call still works."""
    problems = []
    for kind, before, after in (("", old.python, new.python), ("op ", old.ops, new.ops)):
        for name, signature in before.items():
            if name not in after:
                problems.append(f"{kind}{name} is gone")
            elif not _accepts(after[name], signature):
                problems.append(f"{kind}{name}{signature} became {name}{after[name]}")
    return problems


def _parse(source: bytes) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        # The load check reports a package that is not Python.
        return ast.Module(body=[], type_ignores=[])


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module, those under `if` and `try` included."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if isinstance(node, ast.If | ast.Try):
            waiting += node.body
            waiting += node.orelse


def _resolve(package: Mapping[str, bytes], path: str, name: str, depth: int) -> dict[str, str]:
    """The signatures behind a name of the module at `path`, following imports within the package."""
    if depth == 0 or path not in package:
        return {name: ""}
    for node in _statements(_parse(package[path])):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                return {name: _signature(node.args)}
            case ast.ClassDef() if node.name == name:
                return dict(_class(node))
            case ast.ImportFrom(level=level) if level > 0:
                if (found := _imported(package, path, node, name, depth)) is not None:
                    return found
    return {name: ""}


def _imported(
    package: Mapping[str, bytes], path: str, node: ast.ImportFrom, name: str, depth: int
) -> dict[str, str] | None:
    """The signatures behind `name` if this import brings it in."""
    folder = path.split("/")[: -node.level]
    base = "/".join([*folder, *(node.module.split(".") if node.module else ())])
    for alias in node.names:
        if (alias.asname or alias.name) == name:
            submodule = _module(package, f"{base}/{alias.name}".lstrip("/"))
            if submodule is not None:
                return {name: "", **_module_members(package, submodule, name)}
            module = _module(package, base)
            found = _resolve(package, module, alias.name, depth - 1) if module else {alias.name: ""}
            return {name + each.removeprefix(alias.name): text for each, text in found.items()}
        if alias.name == "*" and (module := _module(package, base)) is not None:
            found = _resolve(package, module, name, depth - 1)
            if found != {name: ""}:
                return found
    return None


def _module(package: Mapping[str, bytes], base: str) -> str | None:
    candidates = (f"{base}.py", f"{base}/__init__.py") if base else ("__init__.py",)
    return next((path for path in candidates if path in package), None)


def _module_members(package: Mapping[str, bytes], path: str, name: str) -> dict[str, str]:
    """The classes of an exported module, such as `layers`, which the client reaches by name."""
    found: dict[str, str] = {}
    for node in _parse(package[path]).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found |= {f"{name}.{each}": signature for each, signature in _class(node)}
    return found


def _class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    methods = {each.name: each.args for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    yield node.name, _signature(methods["__init__"]) if "__init__" in methods else ""
    for name, arguments in methods.items():
        if not name.startswith("_"):
            yield f"{node.name}.{name}", _signature(arguments)


def _signature(arguments: ast.arguments) -> str:
    """The parameters as text, without annotations."""
    bare = ast.arguments(
        posonlyargs=[ast.arg(each.arg) for each in arguments.posonlyargs],
        args=[ast.arg(each.arg) for each in arguments.args],
        vararg=ast.arg(arguments.vararg.arg) if arguments.vararg else None,
        kwonlyargs=[ast.arg(each.arg) for each in arguments.kwonlyargs],
        kw_defaults=arguments.kw_defaults,
        kwarg=ast.arg(arguments.kwarg.arg) if arguments.kwarg else None,
        defaults=arguments.defaults,
    )
    return f"({ast.unparse(bare)})"


def _registered(source: str) -> Iterator[tuple[str, str]]:
    """The ops that C++ registers by `def("schema")` or `def("name", function)`."""
    text = _COMMENT_OR_LITERAL.sub(lambda match: match[1] or " ", source)
    for definition in _DEFINITION.finditer(text):
        literals = re.findall(_LITERAL, definition[1])
        said = " ".join("".join(literal[1:-1].replace("\\n", " ") for literal in literals).split())
        if (schema := _SCHEMA.fullmatch(said)) is not None:
            yield schema[1], schema[2] or ""


def _registered_in_python(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The ops that Python registers by a decorator; their schema follows from the function's signature."""
    for node in _statements(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called), args=[first, *_]) if (
                    called in _OP_DECORATORS
                ):
                    for text in (each.value for each in ast.walk(first) if isinstance(each, ast.Constant)):
                        if isinstance(text, str):
                            yield text.rpartition("::")[2], _signature(node.args)


def _exported(library: bytes) -> list[str]:
    """The functions that a tvm-ffi library exports."""
    # Imported here because `doit list` needs none of it.
    from elftools.common.exceptions import ELFError  # noqa: PLC0415
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415
    from elftools.elf.sections import SymbolTableSection  # noqa: PLC0415

    try:
        table = ELFFile(io.BytesIO(library)).get_section_by_name(".dynsym")
    except ELFError:
        return []
    symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
    names = (symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF")
    return sorted(name.removeprefix(_EXPORT_PREFIX) for name in names if name.startswith(_EXPORT_PREFIX))


def _accepts(new: str, old: str) -> bool:
    """Whether every call that fits the signature or schema `old` fits `new`, with the same meaning."""
    if new == old or not old:
        return True
    if not new or ("->" in old) != ("->" in new):
        return False
    return _schema_accepts(new, old) if "->" in old else _signature_accepts(new, old)


def _schema_accepts(new: str, old: str) -> bool:
    (old_arguments, old_result), (new_arguments, new_result) = _schema_parts(old), _schema_parts(new)
    if old_result != new_result or len(new_arguments) < len(old_arguments):
        return False
    kept, added = new_arguments[: len(old_arguments)], new_arguments[len(old_arguments) :]
    same = all(now in (was, f"{was}={now.partition('=')[2]}") for was, now in zip(old_arguments, kept, strict=True))
    return same and all("=" in argument or argument == "*" for argument in added)


def _schema_parts(schema: str) -> tuple[list[str], str]:
    """The arguments of `(arguments) -> result`, and the result."""
    head, _, result = schema.partition("->")
    # A comma inside of brackets, as in `int[2] size=[1, 2]` or `Dict(str, int) d`, does not end an argument.
    arguments = re.split(r",(?![^\[]*\])(?![^(]*\))", head.strip()[1:-1])
    bare = [re.sub(r"\s*([=,])\s*", r"\1", argument.strip()) for argument in arguments]
    return [argument for argument in bare if argument], "".join(result.split())


class _Parameters(msgspec.Struct, frozen=True):
    """Parameters by name in order, each with the text of its default or None."""

    only_by_position: frozenset[str]
    positional: dict[str, str | None]
    keywords: dict[str, str | None]
    more: tuple[bool, bool]


def _signature_accepts(new: str, old: str) -> bool:
    was, now = _parameters(old), _parameters(new)
    names = list(now.positional)
    for position, (name, default) in enumerate(was.positional.items()):
        if position >= len(names):
            return False
        found = names[position]
        by_name_too = name not in was.only_by_position
        if by_name_too and (found != name or found in now.only_by_position):
            return False
        if default is not None and now.positional[found] != default:
            return False
    added = {name: now.positional[name] for name in names[len(was.positional) :]}
    # What was taken up by *args must not fall to a new parameter now.
    if added and was.more[0]:
        return False
    by_name = {**{name: text for name, text in added.items() if name not in now.only_by_position}, **now.keywords}
    for name, default in was.keywords.items():
        if name not in by_name or (default is not None and by_name[name] != default):
            return False
    new_ones = {**added, **{name: text for name, text in now.keywords.items() if name not in was.keywords}}
    required = any(text is None for name, text in new_ones.items() if name not in was.keywords)
    return not required and all(have or not had for had, have in zip(was.more, now.more, strict=True))


def _parameters(signature: str) -> _Parameters:
    function = ast.parse(f"def _{signature}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    return _Parameters(
        frozenset(argument.arg for argument in arguments.posonlyargs),
        _with_defaults(positional, [*defaults, *arguments.defaults]),
        _with_defaults(arguments.kwonlyargs, arguments.kw_defaults),
        (arguments.vararg is not None, arguments.kwarg is not None),
    )


def _with_defaults(arguments: Iterable[ast.arg], defaults: Iterable[ast.expr | None]) -> dict[str, str | None]:
    pairs = zip(arguments, defaults, strict=True)
    return {argument.arg: None if default is None else ast.unparse(default) for argument, default in pairs}
