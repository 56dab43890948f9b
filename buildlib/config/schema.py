"""The grammar of build.toml → a JSON Schema, for editors, and a reference page, for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from buildlib.config.grammar import COMPONENTS, DOCUMENT, FRAMEWORKS, NEWEST_EDITION
from buildlib.config.tables import Components, Table
from buildlib.config.values import (
    BACKEND,
    KERNEL_NAME,
    VERSION,
    Choice,
    GitUrl,
    KernelName,
    ListOf,
    Natural,
    PerBackend,
    SourcePath,
    Text,
    Type,
    VersionText,
)

Schema: TypeAlias = dict[str, object]

# From the newest, which an editor offers first.
_EDITIONS = (6, 5, 4)
# What a regular expression of ECMAScript can tell of a Git URL.
_GIT_URL = r"^((https?|git|ssh|git\+https?|git\+ssh)://\S+|[^\s:/?#@]*@[^\s:/?#@]+:[^\s/]\S*)$"
_SOURCE_PATH = r"^[^/;][^;]*$"


def render() -> str:
    """The JSON Schema as the text of its file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> Schema:
    """The JSON Schema of the editions that are built, in draft 7, which editors know best."""
    definitions: Schema = {f"edition-{edition}": _document(edition) for edition in _EDITIONS}
    for edition in _EDITIONS:
        definitions[_component_name(edition)] = _component(edition)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "build.toml",
        "description": DOCUMENT.about,
        "oneOf": [{"$ref": f"#/definitions/edition-{edition}"} for edition in _EDITIONS],
        "definitions": definitions,
    }


def _document(edition: int) -> Schema:
    document = _table(DOCUMENT, edition)
    document["title"] = f"build.toml of edition {edition}"
    document["oneOf"] = [{"required": [name]} for name in FRAMEWORKS]
    return document


def _table(table: Table, edition: int, fixed: Mapping[str, object] | None = None) -> Schema:
    """A table, in which a few keys have a fixed value."""
    values = {"edition": edition, **(fixed or {})}
    properties = {
        name: {**({"const": values[name]} if name in values else _type(key.type, edition)), "description": key.about}
        for key in table.keys_of(edition)
        for name in (key.name, key.alias)
        if name is not None
    }
    schema: Schema = {
        "type": "object",
        "description": table.about,
        "properties": properties,
        "required": [key.name for key in table.keys_of(edition) if key.required],
        "additionalProperties": False,
    }
    if table.exactly_one_of:
        schema["oneOf"] = [{"required": [name]} for name in table.exactly_one_of]
    return schema


def _type(value: Type, edition: int) -> Schema:
    match value:
        case Table():
            return _table(value, edition)
        case Components():
            return {"type": "object", "additionalProperties": {"$ref": f"#/definitions/{_component_name(edition)}"}}
        case ListOf(item=item):
            return {"type": "array", "items": _type(item, edition)}
        case Choice(options=options):
            return {"enum": list(options)}
        case _:
            return _SIMPLE[type(value)]


_VERSION: Schema = {"type": "string", "pattern": rf"^\s*{VERSION.pattern}\s*$"}
_SIMPLE: dict[type, Schema] = {
    Text: {"type": "string"},
    SourcePath: {"type": "string", "pattern": _SOURCE_PATH},
    KernelName: {"type": "string", "pattern": f"^{KERNEL_NAME.pattern}$"},
    GitUrl: {"type": "string", "pattern": _GIT_URL},
    Natural: {"type": "integer", "minimum": 0},
    VersionText: _VERSION,
    PerBackend: {
        "anyOf": [
            _VERSION,
            {"type": "object", "properties": dict.fromkeys(BACKEND.options, _VERSION), "additionalProperties": False},
        ]
    },
}


def _component_name(edition: int) -> str:
    decider, _ = COMPONENTS.kinds(edition)
    return f"component-by-{decider}"


def _component(edition: int) -> Schema:
    """A component of any kind. It is the same in all editions that tell the kinds apart by the same key."""
    decider, tables = COMPONENTS.kinds(edition)
    return {"oneOf": [_table(table, edition, {decider: kind}) for kind, table in tables.items()]}


def reference() -> str:
    """A reference of the newest edition in Markdown: a section for each table, and in it a row for each key."""
    lines = [f"# build.toml, edition {NEWEST_EDITION}", "", DOCUMENT.about, ""]
    for key in DOCUMENT.keys_of(NEWEST_EDITION):
        match key.type:
            case Table():
                lines += _section(f"[{key.name}]", key.type)
            case Components():
                _, tables = COMPONENTS.kinds(NEWEST_EDITION)
                for language, table in tables.items():
                    lines += _section(f'[kernel.<name>], language = "{language}"', table)
    return "\n".join(lines)


def _section(title: str, table: Table) -> list[str]:
    keys = table.keys_of(NEWEST_EDITION)
    lines = [f"## `{title}`", "", table.about, "", "| key | example | meaning |", "| --- | --- | --- |"]
    for key in keys:
        if not isinstance(key.type, Table):
            required = " Required." if key.required else ""
            lines.append(f"| `{key.name}` | `{key.type.example}` | {key.about}{required} |")
    lines.append("")
    for key in keys:
        if isinstance(key.type, Table):
            lines += _section(f"{title[:-1]}.{key.name}]", key.type)
        if isinstance(key.type, ListOf) and isinstance(key.type.item, Table):
            lines += _section(f"{title[:-1]}] {key.name} items", key.type.item)
    return lines
