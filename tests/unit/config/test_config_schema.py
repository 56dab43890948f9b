"""The JSON Schema accepts what loads, and refuses what does not."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from buildlib.config import schema
from buildlib.config.grammar import DOCUMENT
from buildlib.config.migrate import migrate
from buildlib.config.tables import Components, Table
from buildlib.config.values import ListOf, Type

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is among the dev dependencies")

RUST = """\
[general]
name = "crate"
version = 1
edition = 6
license = "MIT"
backends = ["cuda"]
[tvm-ffi]
[kernel.one]
language = "rust-cuda"
cargo-manifest = "one/Cargo.toml"
dsl = "nvptx"
"""


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema.Draft7Validator.check_schema(schema.schema())
    return jsonschema.Draft7Validator(json.loads(schema.render()))


def test_accepts_the_samples(validator: Any, samples: dict[str, str]) -> None:
    for name, text in samples.items():
        assert validator.is_valid(tomllib.loads(text)) is (name != "edition-3")
        newest = migrate(text, Path("build.toml"))
        assert validator.is_valid(tomllib.loads(newest))
    assert validator.is_valid(tomllib.loads(RUST))


def test_accepts_the_corpus(validator: Any, corpus: list[Path]) -> None:
    for file in corpus:
        text = file.read_bytes().decode()
        assert validator.is_valid(tomllib.loads(text))
        assert validator.is_valid(tomllib.loads(migrate(text, file)))


WRONG = {
    "a missing key": ("version = 1\n", ""),
    "an unknown key": ("version = 1\n", "version = 1\nzzz = 1\n"),
    "a wrong type": ('["cuda"]', '"cuda"'),
    "a bad name": ('"crate"', '"Crate"'),
    "a bad backend": ('["cuda"]', '["npu"]'),
    "a bad URL": ("version = 1\n", 'version = 1\nupstream = "a"\n'),
    "a negative version": ("version = 1\n", "version = -1\n"),
    "a bad version": ("[tvm-ffi]", '[general.cuda]\nminver = "12"\n[tvm-ffi]'),
    "another edition": ("edition = 6", "edition = 5"),
    "no edition": ("edition = 6\n", ""),
    "no framework": ("[tvm-ffi]\n", ""),
    "two frameworks": ("[tvm-ffi]\n", "[tvm-ffi]\n[torch]\n"),
    "a bad language": ("rust-cuda", "rust-rocm"),
    "a bad device language": ("nvptx", "ptx"),
    "a key of another language": ("dsl =", "sycl-flags =  []\ndsl ="),
    "an absolute path": ("one/Cargo.toml", "/one/Cargo.toml"),
    "a dependency without a version": ("version = 1\n", 'version = 1\nkernel-depends = [{ repo-id = "a/b" }]\n'),
    "a dependency with both": (
        "version = 1\n",
        'version = 1\nkernel-depends = [{ repo-id = "a/b", version = 1, revision = "a" }]\n',
    ),
    "a bad stable ABI": ("[tvm-ffi]", '[torch]\nstable-abi = { npu = "2.10" }'),
}


@pytest.mark.parametrize(("old", "new"), [*WRONG.values()], ids=[*WRONG])
def test_refuses_what_is_wrong(validator: Any, old: str, new: str) -> None:
    assert old in RUST
    assert not validator.is_valid(tomllib.loads(RUST.replace(old, new)))


def test_reference_describes_every_key() -> None:
    reference = schema.reference()
    for key, about in _described(DOCUMENT):
        assert f"`{key}`" in reference or f"{key}]`" in reference
        assert about in reference


def _described(value: Type) -> set[tuple[str, str]]:
    match value:
        case Table():
            keys = value.keys_of(6)
            own = {(key.name, key.about) for key in keys if not isinstance(key.type, Components)}
            return own.union(*(_described(key.type) for key in keys))
        case Components():
            return set().union(*(_described(table) for table in value.by_language.values()))
        case ListOf(item=item):
            return _described(item)
        case _:
            return set()
