"""What doit needs to know: tasks, commands and the reporter. Only this module and dodo.py import doit."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import getopt
import os
import re
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec
from doit.cmd_base import DoitCmdBase
from doit.cmd_clean import Clean as DoitClean
from doit.cmd_list import List as DoitList
from doit.cmd_run import Run as DoitRun
from doit.exceptions import BaseFail, InvalidCommand, InvalidDodoFile, TaskFailed, UnmetDependency
from doit.task import Task

from buildlib import build, check, config, environment, matrix, plan, testing, toolchain
from buildlib import variant as variants
from buildlib.config.model import Kernel
from buildlib.discover import discover
from buildlib.errors import BuildError, ConfigError, SelectionError, ToolchainError
from buildlib.jobs import budget
from buildlib.plan import BuildSpec, Failed, Plan, Skipped
from buildlib.reporter import Report
from buildlib.selection import select
from buildlib.testing import Outcome
from buildlib.workspace import Workspace

TaskDict = dict[str, Any]

# Conditions of the system that a user can mend: a full disk, a quota, a folder that may not be written.
_CONDITIONS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})
_INTERRUPTED, _TERMINATED = 130, 143
# `test:<name>` for the builder's own tests; no kernel's folder may be called so.
_OWN_TESTS = ("unit", "integration")


class Session:
    """The plan of a checkout, and the tasks that carry it out."""

    def __init__(self, workspace: Workspace, kernels: tuple[Kernel, ...], planned: Plan) -> None:
        self.workspace = workspace
        self.kernels = kernels
        self.plan = planned

    @classmethod
    def open(cls, root: Path) -> Session:
        """Discover, load and plan. No compiler runs (but to say its version, once), and only `build/` is made.

        Raises:
            InvalidDodoFile: the data files about toolchains cannot be used.
        """
        settings = environment.read()
        kernels, broken = _load(discover(root), root)
        try:
            host = toolchain.probe(settings, root / "toolchains" / "host.toml")
            rows = matrix.load(root / "toolchains" / "variants.toml")
        except ToolchainError as error:
            raise InvalidDodoFile(str(error)) from None
        workspace = Workspace(root, settings)
        workspace.build.mkdir(exist_ok=True)
        return cls(workspace, kernels, plan.plan(kernels, broken, rows, host))

    @property
    def doit_config(self) -> dict[str, object]:
        """DOIT_CONFIG. Threads, because all the work is in child processes."""
        return {
            "default_tasks": ["build"],
            "reporter": Reporter,
            "par_type": "thread",
            "num_process": budget(self.workspace.settings),
            "continue": True,
            "verbosity": 0,
        }

    def build_tasks(self) -> Iterator[TaskDict]:
        """`build:<kernel>:<variant>` for everything in the plan, skipped and failed included, and `build:<kernel>`."""
        for spec in self.plan.specs:
            shown = self.workspace.shown(self.workspace.artifact(spec))
            yield {
                **_task(spec.name, f"Build {shown}.", build.build, spec, self.workspace),
                "uptodate": [(build.up_to_date, [spec, self.workspace])],
                "clean": [(_remove, [self._generated(spec)])],
            }
        for skipped in self.plan.skipped:
            meta = {"skipped": skipped.reason}
            yield {"name": plan.name(skipped), "actions": None, "meta": meta, "doc": f"Skipped: {skipped.reason}."}
        for failed in self.plan.failed:
            yield _task(plan.name(failed), "Say why it cannot be planned.", _fail, failed.message)
        yield from self._groups("build", "Build")

    def check_tasks(self) -> Iterator[TaskDict]:
        """`check:<kernel>:<variant>` for each artifact, and `check:<kernel>`."""
        for spec in self.plan.specs:
            shown = self.workspace.shown(self.workspace.artifact(spec))
            yield {
                **_task(spec.name, f"Check {shown}.", check.check, spec, self.workspace),
                "uptodate": [(check.up_to_date, [spec, self.workspace])],
                "task_dep": [f"build:{spec.name}"],
            }
        yield from self._groups("check", "Check")

    def test_tasks(self) -> Iterator[TaskDict]:
        """`test:<kernel>:<variant>` for each artifact, `test:<kernel>`, and the builder's own tests where they are."""
        for name in _OWN_TESTS:
            folder = self.workspace.root / "tests" / name
            if folder.is_dir():
                log = self.workspace.build / "logs" / f"test-{name}.log"
                yield _task(name, f"Run the builder's {name} tests.", testing.run_own, folder, log, self.workspace)
        for spec in self.plan.specs:
            doc = f"Run the tests of {self.workspace.shown(spec.kernel.folder)}."
            yield {
                **_task(spec.name, doc, testing.run_kernel, spec, self.kernels, self.workspace),
                "task_dep": [f"build:{spec.name}"],
            }
        yield from self._groups("test", "Test")

    def _groups(self, stage: str, verb: str) -> Iterator[TaskDict]:
        """`<stage>:<kernel>`: everything that the plan says about one kernel, the reasons of what is skipped too."""
        members: dict[str, list[str]] = {spec.kernel.key: [] for spec in self.plan.specs}
        for spec in self.plan.specs:
            members[spec.kernel.key].append(f"{stage}:{spec.name}")
        for entry in self.plan.entries:
            # A kernel that could not be planned at all has its message under `build:<kernel>` already.
            if not isinstance(entry, BuildSpec) and (stage != "build" or entry.variant is not None):
                members.setdefault(entry.kernel, []).append(f"build:{plan.name(entry)}")
        for kernel, names in sorted(members.items()):
            yield {"name": kernel, "actions": None, "task_dep": names, "doc": f"{verb} all variants of {kernel}."}

    def _generated(self, spec: BuildSpec) -> list[Path]:
        workspace = self.workspace
        logs, reports = workspace.log("build", spec).parent, workspace.report("check", spec).parent
        return [workspace.work(spec), workspace.artifact(spec), logs, reports]


def matrix_rows(session: Session, patterns: Sequence[str]) -> list[dict[str, object]]:
    """What CI reads: a row for each kernel × variant that the patterns select, all where there is none.

    Raises:
        SelectionError: a pattern selects nothing.
    """
    entries = {plan.name(entry): entry for entry in session.plan.entries}
    kernels = {name.partition(":")[0] for name in entries}
    chosen = set(select(patterns, sorted(kernels | entries.keys()))) if patterns else kernels
    return [
        _row(entry, session.workspace)
        for name, entry in sorted(entries.items())
        if name in chosen or name.partition(":")[0] in chosen
    ]


def _row(entry: plan.Entry, workspace: Workspace) -> dict[str, object]:
    variant = entry.variant
    status, reason, digest = "build", None, None
    match entry:
        case BuildSpec():
            digest = workspace.digest(entry)
        case Skipped():
            status, reason = "skip", entry.reason
        case Failed():
            status, reason = "error", entry.message
    return {
        "kernel": entry.kernel.key if isinstance(entry, BuildSpec) else entry.kernel,
        "variant": variants.name(variant) if variant else None,
        "backend": variants.backend(variant) if variant else None,
        "framework": variants.framework(variant) if variant else None,
        "status": status,
        "reason": reason,
        "digest": digest,
    }


def _load(paths: Iterable[Path], root: Path) -> tuple[tuple[Kernel, ...], tuple[Failed, ...]]:
    """Load each build.toml; one that is wrong becomes a failure of its own kernel and stops no other."""
    kernels, broken = [], []
    for path in paths:
        key = path.parent.name
        if key in _OWN_TESTS or not set(key).isdisjoint(":=*?["):
            message = f"kernels/{key}: a folder of this name cannot be a task of doit; rename it"
            broken.append(Failed(kernel=re.sub(r"[:=*?[]", "_", key), message=message))
            continue
        try:
            kernels.append(config.load(path))
        except ConfigError as error:
            broken.append(Failed(kernel=key, message=str(error).replace(f"{root}{os.sep}", "")))
    return tuple(kernels), tuple(broken)


def _task(name: str, doc: str, function: Callable[..., object], *arguments: object) -> TaskDict:
    # Nothing prints, and capturing would swap sys.stdout under the feet of tasks that run beside this one.
    return {"name": name, "doc": doc, "actions": [(_act, [function, *arguments])], "io": {"capture": False}}


def _act(function: Callable[..., object], *arguments: object) -> dict[str, object] | TaskFailed:
    """The action of every task: errors for the user become a message without a traceback."""
    try:
        result = function(*arguments)
    except BuildError as error:
        return TaskFailed(str(error))
    except OSError as error:
        return TaskFailed(_condition(error))
    if isinstance(result, Outcome):
        return {"summary": result.summary, "tested": result.passed > 0}
    return {}


def _condition(error: OSError) -> str:
    """One line for a condition that the user can mend; any other error of the system is raised again, as our fault."""
    if error.errno not in _CONDITIONS:
        raise error
    return f"{error.filename or 'build'}: {error.strerror}; make room or give access, and run again"


def _fail(message: str) -> None:
    raise ConfigError(message)


def _remove(paths: list[Path], dryrun: bool) -> None:  # noqa: FBT001 - doit passes it so
    if dryrun:
        return
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


class Reporter:
    """doit's view of a `Report`."""

    desc = "a line for each task that ran, and a table"

    def __init__(self, outstream: TextIO, options: dict[str, object]) -> None:  # noqa: ARG002 - doit's signature
        self._report = Report(outstream)

    def initialize(self, tasks: dict[str, Task], selected: list[str]) -> None:
        pass

    def get_status(self, task: Task) -> None:
        pass

    def execute_task(self, task: Task) -> None:
        if task.actions:
            self._report.start(task.name)

    def add_success(self, task: Task) -> None:
        if task.actions:
            values = task.values
            self._report.done(task.name, values.get("summary", ""), tested=values.get("tested", True))
        elif reason := (task.meta or {}).get("skipped"):
            self._report.skip(task.name, reason)

    def add_failure(self, task: Task, fail: BaseFail) -> None:
        if isinstance(fail, UnmetDependency):
            # A group is nothing but its members, and the member that failed has said why.
            if task.actions:
                self._report.block(task.name, f"{fail.message} failed")
        else:
            self._report.fail(task.name, fail.get_msg().strip())

    def skip_uptodate(self, task: Task) -> None:
        self._report.fresh(task.name)

    def skip_ignore(self, task: Task) -> None:
        self._report.skip(task.name, "told to by 'doit ignore'")

    def cleanup_error(self, exception: BaseFail) -> None:
        sys.stderr.write(exception.get_msg())

    def runtime_error(self, msg: str) -> None:
        sys.stderr.write(f"{msg}\n")

    def teardown_task(self, task: Task) -> None:
        pass

    def complete_run(self) -> None:
        self._report.finish()


def _session(command: DoitCmdBase) -> Session:
    session = command.loader.namespace.get("SESSION")
    if not isinstance(session, Session):
        raise InvalidDodoFile("dodo.py: SESSION is missing; set it with Session.open")
    return session


class Run(DoitRun):  # type: ignore[misc]
    """`doit run`, with errors for empty selections, one run at a time, and an orderly end on signals."""

    def parse_execute(self, in_args: list[str]) -> int:
        """Let options stand after names too: `doit build -n 4`."""
        try:
            options, names = getopt.gnu_getopt(in_args, self.cmdparser.get_short(), self.cmdparser.get_long())
        except getopt.GetoptError:
            return int(super().parse_execute(in_args))  # For doit's own words about it.
        return int(super().parse_execute([word for option in options for word in option if word] + names))

    @functools.wraps(DoitRun._execute)  # doit reads the names of the options from this signature.
    def _execute(self, *args: object, **kwargs: object) -> int:
        session = _session(self)
        try:
            self.sel_tasks: list[str] = select(self.sel_tasks, [task.name for task in self.task_list])
        except SelectionError as error:
            raise InvalidCommand(str(error)) from None
        workspace = session.workspace
        previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
        try:
            with _alone(workspace.build / "lock"):
                # doit tells a failed task (1) from one that could not start because of it (2); users need not.
                return min(1, super()._execute(*args, **kwargs))
        except KeyboardInterrupt:
            sys.stderr.write("interrupted; what was finished is kept\n")
            return _INTERRUPTED
        except OSError as error:
            sys.stderr.write(f"ERROR: {_condition(error)}\n")
            return 1
        except sqlite3.OperationalError as error:
            sys.stderr.write(f"ERROR: build/doit.sqlite3: {error}; make room or give access, and run again\n")
            return 1
        finally:
            workspace.close()
            signal.signal(signal.SIGTERM, previous)


class List(DoitList):  # type: ignore[misc]
    """`doit list`, with the commands that take kernels too, and with what is wrong with any kernel."""

    @functools.wraps(DoitList._execute)
    def _execute(self, *args: object, **kwargs: object) -> int:
        status = int(super()._execute(*args, **kwargs))
        if not kwargs["pos_args"]:
            for command in (Clean, Matrix):
                self.outstream.write(f"{command.get_name():<8}{command.doc_purpose}\n")
        for failed in _session(self).plan.failed:
            sys.stderr.write(f"ERROR: {failed.message}\n")
        return status


class Clean(DoitClean):  # type: ignore[misc]
    """`doit clean`, which also takes what the other commands take: a kernel, a kernel:variant or a wildcard."""

    doc_purpose = "Remove what was built: [KERNEL | KERNEL:VARIANT | wildcard ...]"

    @functools.wraps(DoitClean._execute)
    def _execute(self, *args: object, **kwargs: object) -> int:
        if words := kwargs["pos_args"]:
            assert isinstance(words, list)
            names = {task.name for task in self.task_list if task.name.startswith("build:")}
            try:
                wanted = [word if word in names else f"build:{word}" for word in words]
                kwargs["pos_args"] = select(wanted, names)
            except SelectionError as error:
                raise InvalidCommand(str(error).replace("build:", "")) from None
            # A kernel's group is cleaned by cleaning what it stands for.
            kwargs["cleandep"] = True
        return int(super()._execute(*args, **kwargs) or 0)


class Matrix(DoitCmdBase):  # type: ignore[misc]
    """`doit matrix`: the plan as JSON."""

    doc_purpose = "Print the plan as JSON for CI: [KERNEL | KERNEL:VARIANT | wildcard ...]"
    doc_usage = "[KERNEL | KERNEL:VARIANT | wildcard ...]"
    doc_description = (
        "An object for each kernel × variant: kernel, variant, backend, framework, status, reason, digest."
    )
    cmd_options = ()

    def _execute(self, pos_args: list[str]) -> int:
        session = _session(self)
        try:
            rows = matrix_rows(session, pos_args)
        except SelectionError as error:
            raise InvalidCommand(str(error)) from None
        finally:
            self.dep_manager.close()
        session.workspace.cache.save()
        self.outstream.write(msgspec.json.format(msgspec.json.encode(rows)).decode() + "\n")
        return 0


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold the checkout's lock: two runs would build in the same folders. The second one says so, and waits."""
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            sys.stderr.write(f"waiting for another doit in this checkout (process {file.read().strip()}) to end\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
