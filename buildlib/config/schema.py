"""The grammar of build.toml → a JSON Schema, for editors, and a reference page, for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

from buildlib.config.grammar import COMPONENTS, DOCUMENT, FRAMEWORKS, NEWEST_EDITION
from buildlib.config.tables import Components, Key, Table
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

_UNNAMED_EDITION = 4
# What a regular expression of ECMAScript can tell of a Git URL.
_GIT_URL = r"^((https?|git|ssh|git\+https?|git\+ssh)://\S+|[^\s:/?#@]*@[^\s:/?#@]+:[^\s/]\S*)$"
_SOURCE_PATH = r"^[^/;][^;]*$"


def text() -> str:
    """The JSON Schema as it stands in its file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> Schema:
    """The JSON Schema (draft 7, which editors know best) of the editions that are built: 4, 5 and 6."""
    editions = range(NEWEST_EDITION, _UNNAMED_EDITION - 1, -1)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "build.toml",
        "description": DOCUMENT.about,
        "oneOf": [{"$ref": f"#/definitions/edition-{edition}"} for edition in editions],
        "definitions": {f"edition-{edition}": _document(edition) for edition in editions},
    }


def _document(edition: int) -> Schema:
    document = _table(DOCUMENT, edition)
    document["title"] = f"build.toml of edition {edition}"
    document["oneOf"] = [{"required": [name]} for name in FRAMEWORKS]
    return document


def _table(table: Table, edition: int) -> Schema:
    properties: Schema = {}
    for key in table.keys_of(edition):
        for name in filter(None, (key.name, key.alias)):
            properties[name] = _key(key, edition)
    closed: Schema = {
        "type": "object",
        "description": table.about,
        "properties": properties,
        "required": [key.name for key in table.keys_of(edition) if key.required],
        "additionalProperties": False,
    }
    if table.exactly_one_of:
        closed["oneOf"] = [{"required": [name]} for name in table.exactly_one_of]
    return closed


def _key(key: Key, edition: int) -> Schema:
    if key.name == "edition":
        return {"const": edition, "description": key.about}
    return {**_type(key.type, edition), "description": key.about}


def _type(value: Type, edition: int) -> Schema:
    match value:
        case Table():
            return _table(value, edition)
        case Components():
            return {"type": "object", "additionalProperties": {"oneOf": list(_components(value, edition))}}
        case ListOf(item=item):
            return {"type": "array", "items": _type(item, edition)}
        case PerBackend():
            version = _type(VersionText(), edition)
            by_backend = {"type": "object", "additionalProperties": False}
            return {"anyOf": [version, {**by_backend, "properties": dict.fromkeys(BACKEND.options, version)}]}
        case Natural():
            return {"type": "integer", "minimum": 0}
        case Choice(options=options):
            return {"type": "string", "enum": list(options)}
        case _:
            return {"type": "string", **_PATTERNS[type(value)]}


_PATTERNS: dict[type, Schema] = {
    Text: {},
    SourcePath: {"pattern": _SOURCE_PATH},
    KernelName: {"pattern": f"^{KERNEL_NAME.pattern}$"},
    GitUrl: {"pattern": _GIT_URL},
    VersionText: {"pattern": rf"^\s*{VERSION.pattern}\s*$"},
}


def _components(components: Components, edition: int) -> Iterator[Schema]:
    decider, tables = components.kinds(edition)
    for kind, table in tables.items():
        component = _table(table, edition)
        properties = component["properties"]
        assert isinstance(properties, dict)
        properties[decider] = {"const": kind, "description": properties[decider]["description"]}
        yield component


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
