"""build.toml of one edition → the same kernel in another, with comments, order and formatting kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast

import tomlkit
from tomlkit.container import Container
from tomlkit.items import InlineTable, Item, Key, SingleKey, Table

from buildlib.config import editions, problems, text
from buildlib.config.grammar import FRAMEWORKS, NEWEST_EDITION
from buildlib.config.locate import KeyPath
from buildlib.config.model import Kernel, RustCpu, RustCuda
from buildlib.config.problems import Problem, Reading
from buildlib.config.values import as_table

Edition: TypeAlias = Literal[5, 6]

_BOM = "\ufeff"
# What edition 3 leaves out, as its own reader fills it in.
_LEGACY_VERSION = 1
_LEGACY_FRAMEWORK = "torch-noarch"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """One key, with its value, where it stands: the `index`-th entry of its table's body."""

    path: KeyPath
    container: Container
    index: int

    @property
    def key(self) -> Key:
        return cast("Key", self.container.body[self.index][0])

    @property
    def item(self) -> Item:
        return self.container.body[self.index][1]

    @property
    def value(self) -> object:
        return self.item.unwrap()


def migrate(content: str, file: Path, to: Edition = NEWEST_EDITION) -> str:
    """Rewrite the content of a build.toml to an edition; content of that edition comes back as it is.

    Raises:
        ConfigError: the content is wrong, or it uses what the edition does not have.
    """
    mark, content = (_BOM, content[1:]) if content.startswith(_BOM) else ("", content)
    document = text.parse(file, content)
    if editions.edition_of(document) == to:
        return mark + content
    before = _kernel(document, file, content)
    if to < NEWEST_EDITION and (refusals := _refusals(before, to)):
        raise problems.error(file, content, refusals)
    rewritten = _rewrite(content, document, to)
    after = editions.read(text.parse(file, rewritten), file.parent)
    if before is not None and after != before:
        raise AssertionError(f"{file}: edition {to} would describe another kernel than the file does now")
    if isinstance(after, list):
        raise problems.error(file, rewritten, after)
    return mark + rewritten


def _kernel(document: Mapping[str, object], file: Path, content: str) -> Kernel | None:
    """The kernel that a document describes, but for one of edition 3, which no longer describes any."""
    kernel = editions.read(document, file.parent)
    if isinstance(kernel, Kernel):
        return kernel
    if not editions.is_legacy(document):
        raise problems.error(file, content, kernel)
    if "license" not in (as_table(document.get("general")) or {}):
        reading = Reading(NEWEST_EDITION)
        what = "the key 'license' is missing, which editions after 3 require"
        reading.at_table(("general",), what, 'add license = "Apache-2.0", or another SPDX expression')
        raise problems.error(file, content, reading.problems)
    return None


def _refusals(kernel: Kernel | None, to: Edition) -> list[Problem]:
    """Why a kernel cannot be said in an older edition."""
    reading = Reading(to)
    for component in () if kernel is None else kernel.components:
        if isinstance(component, RustCpu | RustCuda):
            what = f"a Rust component, which edition {to} does not have"
            reading.at_key(("kernel", component.name, "language"), what, "stay with edition 6, or drop the component")
    return reading.problems


def _rewrite(content: str, document: Mapping[str, object], to: Edition) -> str:
    toml = tomlkit.parse(content)
    general = as_table(document["general"]) or {}
    for entry in list(_entries(toml)):
        match entry.path:
            case ("general", "edition"):
                _put(entry, "edition", to)
            case ("general", "version") if "edition" not in general:
                _insert(entry, "edition", to)
            case ("general", "name") if "version" not in general:
                _insert(entry, "edition", to)
                _insert(entry, "version", _LEGACY_VERSION)
            case ("kernel", _, "backend") if to == NEWEST_EDITION:
                _put(entry, "language", f"cpp-{entry.value}")
            case ("kernel", _, "language") if to < NEWEST_EDITION:
                _put(entry, "backend", str(entry.value).removeprefix("cpp-"))
            case ("torch-noarch", str(key)):
                _put(entry, key.replace("_", "-") if to == NEWEST_EDITION else key.replace("-", "_"))
            case ("tvm-ffi",) if to < NEWEST_EDITION and "src" not in (as_table(document["tvm-ffi"]) or {}):
                _prepend(entry, "src", [])
    if not any(name in document for name in FRAMEWORKS):
        toml.append(_LEGACY_FRAMEWORK, tomlkit.table())
    return _with_line_ends_of(content, toml.as_string())


def _entries(container: Container, path: KeyPath = ()) -> Iterator[_Entry]:
    """Every key of a document, the last of a table first, so that an insertion moves none that is still to come."""
    for index in reversed(range(len(container.body))):
        key, item = container.body[index]
        if key is None:
            continue
        entry = _Entry(path=(*path, key.key), container=container, index=index)
        yield entry
        if isinstance(item, Table | InlineTable):
            yield from _entries(item.value, entry.path)


def _put(entry: _Entry, name: str, value: object = None) -> None:
    """Give an entry another name, and another value where there is one, and leave all else around them."""
    key, item = entry.key, entry.item
    if key.key != name:
        space = key.as_string()[len(key.as_string().rstrip()) :]
        key = SingleKey(name, sep=key.sep, original=name + space)
    if value is not None:
        old, item = item, tomlkit.item(value)
        item.trivia.indent, item.trivia.comment_ws = old.trivia.indent, old.trivia.comment_ws
        item.trivia.comment, item.trivia.trail = old.trivia.comment, old.trivia.trail
    entry.container.body[entry.index] = (key, item)


def _insert(entry: _Entry, name: str, value: object) -> None:
    """Add a key on the line after an entry's."""
    item = tomlkit.item(value)
    item.trivia.indent, item.trivia.trail = entry.item.trivia.indent, entry.item.trivia.trail
    entry.item.trivia.trail = entry.item.trivia.trail or "\n"
    entry.container.body.insert(entry.index + 1, (tomlkit.key(name), item))


def _prepend(entry: _Entry, name: str, value: object) -> None:
    """Add a key on the first line of the table that an entry is."""
    table = entry.item
    if isinstance(table, Table | InlineTable):
        table.value.body.insert(0, (tomlkit.key(name), tomlkit.item(value)))


def _with_line_ends_of(content: str, rewritten: str) -> str:
    """Text in which the lines that are new end as all of the others do."""
    if content.count("\n") != content.count("\r\n") or "\n" not in content:
        return rewritten
    return rewritten.replace("\r\n", "\n").replace("\n", "\r\n")
