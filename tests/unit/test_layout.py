"""Copies that are written only where they differ."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from buildlib import layout
from buildlib.errors import StepError
from buildlib.workspace import Workspace

from .factories import write_files


@pytest.fixture
def source(workspace: Workspace) -> Path:
    return write_files(workspace.root / "kernels" / "relu", {"a.cpp": "a", "deep/b.h": "b", "../_rust/c.rs": "c"})


def _times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_what_is_laid_out_is_what_was_hashed(workspace: Workspace, source: Path) -> None:
    target = workspace.build / "work" / "relu"
    hashes = layout.lay_out(["a.cpp", "deep/b.h", "../_rust/c.rs"], source, target, workspace)
    assert hashes["deep/b.h"] == hashlib.sha256(b"b").hexdigest()
    assert (target / "a.cpp").read_bytes() == b"a"
    assert (workspace.build / "work" / "_rust" / "c.rs").read_bytes() == b"c"


def test_only_what_differs_is_written(workspace: Workspace, source: Path) -> None:
    target = workspace.build / "work"
    layout.lay_out(["a.cpp", "deep/b.h"], source, target, workspace)
    before = _times(target)
    (source / "a.cpp").write_text("edited")
    for folder in (source, target):
        workspace.cache.forget(folder)
    layout.lay_out(["a.cpp", "deep/b.h"], source, target, workspace)
    after = _times(target)
    assert {name for name in after if after[name] != before[name]} == {"a.cpp"}
    assert (target / "a.cpp").read_text() == "edited"


def test_an_edited_copy_has_the_hash_of_its_original(workspace: Workspace, source: Path) -> None:
    target = workspace.build / "work"
    edits = {"a.cpp": lambda content: content + b"!"}
    for _ in range(2):
        hashes = layout.lay_out(["a.cpp"], source, target, workspace, edits)
        assert hashes == {"a.cpp": hashlib.sha256(b"a").hexdigest()}
        assert (target / "a.cpp").read_bytes() == b"a!"


def test_what_is_not_wanted_is_swept_away(workspace: Workspace) -> None:
    folder = write_files(workspace.build / "work", {"kept/a": "", "stale/b": "", ".hidden": ""})
    layout.sweep(folder, ["kept/a"], workspace)
    assert [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*"))] == ["kept", "kept/a"]
    layout.sweep(workspace.build / "nowhere", [], workspace)


def test_a_file_that_is_gone_is_named(workspace: Workspace, source: Path) -> None:
    with pytest.raises(StepError, match=r"^kernels/_rust/gone.rs: cannot be read \(No such file or directory\)"):
        layout.lay_out(["../_rust/gone.rs"], source, workspace.build, workspace)
