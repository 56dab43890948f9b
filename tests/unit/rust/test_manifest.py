from __future__ import annotations

from pathlib import Path

import pytest

from buildlib.errors import ConfigError
from buildlib.rust import manifest

from .factories import manifest as text_of


def _crate(text: str) -> manifest.Crate:
    return manifest.crate(manifest.parse(text.encode(), "Cargo.toml"), "", "Cargo.toml")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[package\n", "x/Cargo.toml: .*line 1.*; correct it"),
        (b"\xff", "x/Cargo.toml: not UTF-8; save it as UTF-8"),
    ],
)
def test_what_is_no_toml_says_where(content: bytes, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        manifest.parse(content, "x/Cargo.toml")


def test_a_manifest_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x/Cargo.toml: cannot be read \(No such file"):
        manifest.read(tmp_path / "Cargo.toml", "x/Cargo.toml")


@pytest.mark.parametrize("text", ["", "[package]\n", "[package]\nname = 3\n", "package = 3\n"])
def test_a_crate_needs_a_name(text: str) -> None:
    with pytest.raises(ConfigError, match=r"Cargo.toml: \[package\] name: missing"):
        _crate(text)


def test_what_a_crate_requires() -> None:
    crate = _crate(
        text_of(
            "x",
            """
            [dependencies]
            half = "2"
            renamed = { package = "real-name", version = "1" }
            beside = { path = "beside" }
            [build-dependencies]
            cc = "1"
            [dev-dependencies]
            only-for-tests = "1"
            [target.'cfg(unix)'.dependencies]
            libc = { version = "0.2" }
            """,
        )
    )
    assert crate.requires == ("cc", "half", "libc", "real-name")


@pytest.mark.parametrize(
    ("more", "script"), [("", "build.rs"), ('build = "make.rs"\n', "make.rs"), ("build = false\n", "build.rs")]
)
def test_where_the_build_script_is(more: str, script: str) -> None:
    assert _crate(text_of("x", more)).script == script


def test_dependencies_by_path_of_all_kinds() -> None:
    document = manifest.parse(
        b"""
        [dependencies]
        a = { path = "a" }
        no = "1"
        [dev-dependencies]
        b = { path = "b" }
        [target.'cfg(unix)'.build-dependencies]
        c = { path = "c" }
        [workspace.dependencies]
        d = { path = "d" }
        """,
        "Cargo.toml",
    )
    assert sorted(manifest.path_dependencies(document)) == [("a", "a"), ("b", "b"), ("c", "c"), ("d", "d")]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("[profile.release]\nlto = false\n", r"\[profile\]: has no effect in a member"),
        ('[patch.crates-io]\nx = { path = "x" }\n', r"\[patch\]: has no effect"),
        ("[workspace]\n", r"\[workspace\]: Cargo.lock is missing beside it; run 'cargo generate-lockfile'"),
        ("[dependencies]\nx.workspace = true\n", "dependency 'x': there is no workspace to take it from"),
        ("license.workspace = true\n", r"\[package\] license: there is no workspace"),
        ("[lints]\nworkspace = true\n", r"\[lints\]: there is no workspace"),
    ],
)
def test_what_a_member_of_a_workspace_may_not_say(more: str, expected: str) -> None:
    document = manifest.parse(text_of("x", more).encode(), "Cargo.toml")
    with pytest.raises(ConfigError, match=f"^x/Cargo.toml: {expected}"):
        manifest.check_member(document, "x/Cargo.toml")


def test_a_plain_crate_may_be_a_member() -> None:
    manifest.check_member(manifest.parse(text_of("x", '[dependencies]\nhalf = "2"\n').encode(), ""), "")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", r"\[lib\] path: 'src/lib.rs' does not exist"),
        ('[lib]\npath = "other.rs"\n', r"\[lib\] path: 'other.rs' does not exist"),
        ("[lib]\nproc-macro = true\n", r"\[lib\]: a proc-macro is no part"),
    ],
)
def test_an_extension_needs_a_library(tmp_path: Path, more: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        manifest.check_library(manifest.parse(text_of("x", more).encode(), ""), tmp_path, "Cargo.toml")


def test_a_library_under_another_path(tmp_path: Path) -> None:
    (tmp_path / "lib.rs").touch()
    manifest.check_library(manifest.parse(b'[lib]\npath = "lib.rs"\n', ""), tmp_path, "Cargo.toml")


def test_a_static_library_becomes_a_dependency_and_nothing_else_changes() -> None:
    text = text_of("x", '# Words.\n[lib]\ncrate-type = ["staticlib", "cdylib"]  # more\n\n[dependencies]\nhalf = "2"\n')
    expected = text.replace('["staticlib", "cdylib"]', '["rlib"]')
    assert manifest.as_library(text.encode()) == expected.encode()
    assert manifest.as_library(text_of("x").encode()) == text_of("x").encode()


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ('[workspace]\nmembers = ["a"]\n', ["a", "../x"]),
        ('[workspace]\nresolver = "2"\n', ["../x"]),
        (text_of("root"), ["../x"]),
    ],
)
def test_a_workspace_gets_more_members(text: str, members: list[str]) -> None:
    document = manifest.parse(manifest.with_members(text.encode(), ["../x"]), "")
    assert document["workspace"]["members"] == members
