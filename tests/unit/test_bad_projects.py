"""Projects that cannot be built, each with the message that says so.

A case is a folder of tests/projects/bad: a checkout's `kernels/`, and `expected.txt` with a line for each message.
The cases whose names start with `config-` are about one build.toml each, and are tested with the configuration. Those
that start with `check-` can be built: what is wrong with them the checks find, in tests/integration/test_checks.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from buildlib import build, process, tasks
from buildlib import plan as planning
from buildlib.discover import discover
from buildlib.errors import StepError
from buildlib.workspace import Workspace

from .factories import HOST, MATRIX

_PROJECTS = Path(__file__).parents[1] / "projects" / "bad"
_CASES = sorted(
    path.name for path in _PROJECTS.iterdir() if path.is_dir() and not path.name.startswith(("config-", "check-"))
)


@pytest.mark.parametrize("case", _CASES)
def test_message(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    # No case gets as far as a compiler; git is not asked.
    monkeypatch.setattr(process, "output", lambda *_, **__: None)
    shutil.copytree(_PROJECTS / case / "kernels", workspace.root / "kernels")
    kernels, broken = tasks._load(discover(workspace.root), workspace.root)
    plan = planning.plan(kernels, broken, MATRIX, HOST)
    messages = [failed.message for failed in plan.failed]
    for spec in plan.specs:
        with pytest.raises(StepError) as caught:
            build.build(spec, workspace)
        messages.append(str(caught.value))
        assert not workspace.artifact(spec).exists()
    assert messages == (_PROJECTS / case / "expected.txt").read_text(encoding="utf-8").splitlines()
