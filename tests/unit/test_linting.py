"""What `doit lint` and `doit dist` run, and what they say when it fails."""

from __future__ import annotations

import importlib.util
import types
from pathlib import Path
from typing import Any

import pytest

from buildlib import linting, workflows
from buildlib.errors import ConfigError, StepError
from buildlib.workspace import Workspace


@pytest.fixture
def started(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is run, without the interpreter; everything is installed, and succeeds but for `mypy`."""
    runs: list[list[str]] = []

    def run(argv: tuple[str, ...], *, cwd: Path, env: dict[str, str], log: Path) -> int:
        runs.append(list(argv[2:]))
        log.write_text("line 1\nbuildlib/x.py:3: error: no\n")
        return int(argv[2] == "mypy")

    monkeypatch.setattr(workspace.processes, "run", run)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: types.SimpleNamespace(origin=name))
    return runs


def test_lint_runs_what_the_repository_has_set_up(workspace: Workspace, started: list[list[str]]) -> None:
    (workspace.root / "pyproject.toml").write_text("[project]\n")
    workflows.write(workspace.root)
    assert linting.lint(workspace) == "ruff check ., ruff format --check ."
    assert started == [["ruff", "check", "."], ["ruff", "format", "--check", "."]]


def test_lint_shows_what_was_found(workspace: Workspace, started: list[list[str]]) -> None:
    (workspace.root / "pyproject.toml").write_text("[project]\n\n[tool.mypy]\n")
    with pytest.raises(StepError) as caught:
        linting.lint(workspace)
    assert str(caught.value) == (
        "mypy: exit status 1; the whole log is build/logs/mypy.log\nline 1\nbuildlib/x.py:3: error: no"
    )
    assert started[-1] == ["mypy"]


def test_lint_wants_current_workflows(workspace: Workspace, started: list[list[str]]) -> None:
    (workspace.root / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(ConfigError, match="not what 'doit ci' writes; run 'doit ci', and commit the files"):
        linting.lint(workspace)


def test_dist_is_made_in_the_checkout(workspace: Workspace, started: list[list[str]]) -> None:
    assert linting.dist(workspace) == "in dist"
    assert started == [["build", "--outdir", str(workspace.root / "dist"), str(workspace.root)]]


@pytest.mark.parametrize("found", [None, types.SimpleNamespace(origin=None)], ids=["nothing", "a folder"])
def test_a_tool_that_is_missing_is_named(
    workspace: Workspace, started: list[list[str]], monkeypatch: pytest.MonkeyPatch, found: Any
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: found)
    with pytest.raises(StepError, match=r"^build: not in this Python environment; install it with 'pip install build'"):
        linting.dist(workspace)
    assert started == []
