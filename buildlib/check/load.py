"""A real load: the `kernels` client loads a copy of an artifact in a child that knows nothing of the checkout."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from buildlib import environment, process
from buildlib.check import client, imports
from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.source import loaded
from buildlib.check.subject import Subject
from buildlib.digest import python_depends
from buildlib.plan import BuildSpec
from buildlib.workspace import Workspace

_CHILD = Path(__file__).with_name("_load_child.py")
# Lines of the log that a message repeats.
_SHOWN = 20
# How Python and tvm-ffi begin to tell of a crash.
_CRASH = ("Fatal Python error", "!!!!!!! Segfault")


def unloadable(spec: BuildSpec) -> NotChecked | None:
    """Why the client cannot load a spec's artifact in this environment, whatever is in it."""
    if spec.toolchain and (torch := spec.toolchain.torch_elsewhere):
        return NotChecked(check="load", reason=f"{torch} is not the torch of this environment")
    if lacking := client.missing(python_depends(spec)):
        packages = " ".join(lacking.values())
        reason = f"the kernel needs {packages}, which this environment lacks; pip install {packages}"
        return NotChecked(check="load", reason=reason, lacking=tuple(lacking))
    return None


def _without_backend(subject: Subject) -> NotChecked | None:
    """The same where a kernel imports what comes with its backend's torch, and with no other."""
    brought = imports.brought(subject)
    at_load = loaded(subject.modules)
    names = {
        name
        for module in subject.modules
        if module.path in at_load
        for _, name in imports.absolute(module.tree, at_once=True)
        if name in brought and not client.is_here(name)
    }
    if not names:
        return None
    lacking = tuple(sorted(names))
    reason = f"the torch of this environment brings no {', '.join(lacking)}, which the kernel imports"
    return NotChecked(check="load", reason=reason, lacking=lacking)


def check(subject: Subject, workspace: Workspace) -> Iterator[Outcome]:
    """Yield a finding where the artifact cannot be loaded by path, and by repository id through LOCAL_KERNELS."""
    if without := unloadable(subject.spec) or _without_backend(subject):
        yield without
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
            # tvm-ffi would bind a function when it is first called: one that nothing provides is to be found here.
            LD_BIND_NOW="1",
        )
        # A kernel that ends the process ends it without this file, whatever the exit status.
        loaded = Path(scratch) / "loaded"
        argv = (
            sys.executable, "-I", str(_CHILD), str(copy), artifact.metadata.id, str(workspace.root), str(loaded),
        )  # fmt: skip
        shown = {str(copy): workspace.shown(artifact.folder)}
        with workspace.jobs.slot():
            status = workspace.processes.run(argv, cwd=Path(scratch), env=env, log=log, rename=shown)
        if status == 0 and loaded.exists():
            return
    how = process.describe(status) if status != 0 else "importing it ends the process"
    said = _said(log.read_text(encoding="utf-8").splitlines())
    message = f"cannot be loaded ({how}); mend what follows, the whole log is {workspace.shown(log)}\n{said}"
    yield Finding(check="load", where="", message=message)


def _said(lines: list[str]) -> str:
    """The end of what the child said; of a crash the beginning, for its frames are told innermost first."""
    crash = next((number for number, line in enumerate(lines) if line.startswith(_CRASH)), None)
    return "\n".join(lines[-_SHOWN:] if crash is None else lines[crash : crash + _SHOWN])
