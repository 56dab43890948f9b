"""The steps of CI that are about Python rather than kernels: linting, and packing the builder itself."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from buildlib import environment, process, workflows
from buildlib.errors import StepError
from buildlib.workspace import Workspace

_LOG_TAIL = 60


def lint(workspace: Workspace) -> str:
    """Run ruff and, where pyproject.toml sets it up, mypy; then see that the workflow files are current.

    Raises:
        StepError: something was found; the message holds it.
    """
    steps = [("ruff", "check", "."), ("ruff", "format", "--check", ".")]
    if "\n[tool.mypy]" in (workspace.root / "pyproject.toml").read_text(encoding="utf-8"):
        steps.append(("mypy",))
    for step in steps:
        _run(step, workspace)
    workflows.check(workspace.root)
    return ", ".join(" ".join(step) for step in steps)


def dist(workspace: Workspace) -> str:
    """Make the sdist and the wheel of the builder itself.

    Raises:
        StepError: the `build` package is missing or failed.
    """
    target = workspace.root / "dist"
    _run(("build", "--outdir", str(target), str(workspace.root)), workspace)
    return f"in {workspace.shown(target)}"


def _run(step: tuple[str, ...], workspace: Workspace) -> None:
    found = importlib.util.find_spec(step[0])
    # A folder of that name, as build/ is, passes for a package without an origin.
    if found is None or found.origin is None:
        raise StepError(f"{step[0]}: not in this Python environment; install it with 'pip install {step[0]}'")
    log = workspace.build / "logs" / f"{step[0]}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    with workspace.jobs.slot():
        status = workspace.processes.run(
            (sys.executable, "-m", *step), cwd=workspace.root, env=environment.child(workspace.settings), log=log
        )
    if status != 0:
        said = "\n".join(log.read_text(encoding="utf-8").splitlines()[-_LOG_TAIL:])
        shown = _shown(step, workspace.root)
        raise StepError(f"{shown}: {process.describe(status)}; the whole log is {workspace.shown(log)}\n{said}")


def _shown(step: tuple[str, ...], root: Path) -> str:
    return " ".join(step).replace(str(root), ".")
