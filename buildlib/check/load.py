"""A real load: the `kernels` client loads a copy of an artifact in a child that knows nothing of the checkout."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from buildlib import environment, process
from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.subject import Subject
from buildlib.workspace import Workspace

_CHILD = Path(__file__).with_name("_load_child.py")


def check(subject: Subject, workspace: Workspace) -> Iterator[Outcome]:
    """Yield a finding where the artifact cannot be loaded by path, and by repository id through LOCAL_KERNELS."""
    if subject.spec.toolchain and (torch := subject.spec.toolchain.torch_elsewhere):
        yield NotChecked(check="load", reason=f"{torch} is not the torch of this environment")
        return
    artifact = subject.artifact
    log = workspace.log("check", subject.spec)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="kernelyard-load-") as scratch:
        copy = Path(scratch) / "elsewhere" / artifact.folder.name
        shutil.copytree(artifact.folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
        env = environment.child(
            workspace.settings,
            HF_HUB_OFFLINE="1",
            LOCAL_KERNELS=f"kernelyard/check={copy}",
            PYTHONDONTWRITEBYTECODE="1",
            PYTHONFAULTHANDLER="1",
        )
        argv = (sys.executable, "-I", str(_CHILD), str(copy), artifact.metadata.id, str(workspace.root))
        with workspace.jobs.slot():
            status = workspace.processes.run(argv, cwd=Path(scratch), env=env, log=log)
    if status != 0:
        said = "\n".join(log.read_text(encoding="utf-8").splitlines()[-20:])
        yield Finding(
            check="load",
            where=".",
            message=f"cannot be loaded ({process.describe(status)}); the whole log is {workspace.shown(log)}\n{said}",
        )
