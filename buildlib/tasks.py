"""The tasks and the reporter of doit. Only this module, commands.py and dodo.py import doit."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from doit import get_var
from doit.exceptions import BaseFail, InvalidDodoFile, TaskFailed, UnmetDependency
from doit.task import Task

from buildlib import (
    authoring,
    build,
    changes,
    check,
    chosen,
    config,
    environment,
    inventory,
    linting,
    loading,
    plan,
    rows,
    summary,
    testing,
    travel,
)
from buildlib.changes import Before
from buildlib.check import foreign
from buildlib.config.grammar import NEWEST_EDITION
from buildlib.config.model import Kernel
from buildlib.discover import discover
from buildlib.errors import BuildError, ConfigError, ToolchainError, UnavailableError
from buildlib.jobs import budget
from buildlib.plan import BuildSpec, Plan
from buildlib.reporter import Report
from buildlib.rows import Row
from buildlib.rust import linting as rust_linting
from buildlib.rust.update import update
from buildlib.testing import Outcome
from buildlib.toolchain import Host
from buildlib.workspace import Workspace

TaskDict = dict[str, Any]

# Conditions of the system that a user can mend: a full disk, a quota, a folder that may not be written.
_CONDITIONS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})


class Session:
    """The plan of a checkout, and the tasks that carry it out."""

    def __init__(
        self,
        workspace: Workspace,
        host: Host,
        paths: tuple[Path, ...],
        kernels: tuple[Kernel, ...],
        planned: Plan,
        *,
        built: bool = False,
    ) -> None:
        """`built` says that artifacts were built elsewhere, and are taken as they are."""
        self.workspace = workspace
        self.host = host
        self.paths = paths
        self.kernels = kernels
        self.plan = planned
        self.built = built

    @classmethod
    def open(cls, root: Path) -> Session:
        """Discover, load and plan. No compiler runs (but to say its version, once), and only `build/` is made.

        Raises:
            InvalidDodoFile: the data files about toolchains, or what the environment asks for, cannot be used.
        """
        paths = discover(root)
        kernels, broken = loading.load(paths, root, config.load)
        try:
            settings = environment.read()
            found = loading.planned(
                kernels,
                broken,
                root / "toolchains",
                settings,
                portable=_portable(),
                devices=str(get_var("cuda_capabilities") or ""),
            )
        except ToolchainError as error:
            raise InvalidDodoFile(str(error)) from None
        workspace = Workspace(root, settings)
        try:
            workspace.build.mkdir(exist_ok=True)
        except FileExistsError:
            raise InvalidDodoFile("build: a file is where the folder of all that is built goes; move it away") from None
        workspace.crates = tuple(found.crates.values())
        built = get_var("built", "no") == "yes"
        planned = travel.built(found.plan, found.kernels, workspace) if built else found.plan
        return cls(workspace, found.host, paths, found.kernels, planned, built=built)

    def rows(self) -> list[Row]:
        """The plan as rows."""
        return rows.rows(self.plan, self.workspace.sources)

    def before(self, since: str) -> Before | None:
        """The plan of an earlier commit or run, made for the same machine; None where `since` names nothing.

        Raises:
            SelectionError: there is no such commit or file.
        """
        return changes.before(since, self.workspace, portable=_portable())

    def chosen(self, options: chosen.Options) -> list[Row] | None:
        """The rows that options select, or None where they select nothing in particular.

        Raises:
            SelectionError: the commit or the file is not there, or the file is of other sources than this checkout.
        """
        return chosen.chosen(options, self.plan, self.workspace, built=self.built, portable=_portable())

    def nothing_to_do(self) -> None:
        """End a run without a task as one with tasks ends."""
        summary.save((), self.record)
        self.workspace.close()

    @property
    def record(self) -> Path:
        """Where the outcome of the last run is kept."""
        return self.workspace.build / "reports" / "last-run.json"

    @property
    def doit_config(self) -> dict[str, object]:
        """DOIT_CONFIG. Threads, because all the work is in child processes."""
        return {
            "default_tasks": ["build"],
            "reporter": _reporter(self.workspace, self.record),
            "par_type": "thread",
            "num_process": budget(self.workspace.settings),
            "continue": True,
            "verbosity": 0,
        }

    def build_tasks(self) -> Iterator[TaskDict]:
        """`build:<kernel>:<variant>` for everything in the plan, skipped and failed included, and `build:<kernel>`."""
        for spec in self.plan.specs:
            if self.built:
                doc = f"Verify the artifact {spec.name}, which was built elsewhere."
                yield _task(spec.name, doc, travel.verify, spec, self.workspace)
                continue
            yield {
                **_task(spec.name, f"Build the artifact {spec.name}.", _build, spec, self.workspace),
                "uptodate": [(build.up_to_date, [spec, self.workspace])],
            }
        for skipped in self.plan.skipped:
            meta = {"skipped": skipped.reason}
            yield {"name": plan.name(skipped), "actions": None, "meta": meta, "doc": f"Skipped: {skipped.reason}."}
        for failed in self.plan.failed:
            yield _task(plan.name(failed), "Say why it cannot be planned.", _fail, failed.message)
        yield from self._groups("build", "Build")

    def check_tasks(self) -> Iterator[TaskDict]:
        """`check:<kernel>:<variant>` for each artifact, `check:<kernel>:build.toml`, and `check:<kernel>`.

        A folder among the artifacts that no spec makes has a task too.
        """
        more: list[str] = []
        for kernel in self.kernels:
            more.append(f"{kernel.key}:build.toml")
            doc = f"Check {self.workspace.shown(kernel.folder / 'build.toml')}."
            yield {
                **_task(more[-1], doc, check.check_build_toml, kernel, self.workspace),
                "uptodate": [(check.build_toml_is_up_to_date, [kernel, self.workspace])],
            }
        for name, folders in foreign.find(self.plan, self.workspace).items():
            more.append(name)
            yield _task(name, "Say what it is that no spec makes.", foreign.check, folders, self.workspace)
        for spec in self.plan.specs:
            yield {
                **_task(spec.name, f"Check the artifact {spec.name}.", _if_built, spec, self.workspace, check.check),
                "uptodate": [(check.up_to_date, [spec, self.workspace])],
                "task_dep": [f"build:{spec.name}"],
            }
        yield from self._groups("check", "Check", more)

    def test_tasks(self) -> Iterator[TaskDict]:
        """`test:<kernel>:<variant>` for each artifact, `test:<kernel>`, and the builder's own tests where they are."""
        for name in loading.OWN_TESTS:
            folder = self.workspace.root / "tests" / name
            if folder.is_dir():
                log = self.workspace.build / "logs" / f"test-{name}.log"
                yield _task(name, f"Run the builder's {name} tests.", testing.run_own, folder, log, self.workspace)
        used = {kernel.key: [other.key for other in testing.uses(kernel, self.kernels)] for kernel in self.kernels}
        in_rust = [
            spec for spec in self.plan.specs if spec.crates and any(each.is_shared for each in spec.crates.crates)
        ]
        if in_rust:
            doc = "Run the tests of the crates that kernels share."
            yield _task("crates", doc, testing.run_shared_crates, in_rust, self.workspace)
        for spec in self.plan.specs:
            doc = f"Test the artifact {spec.name}."
            yield {
                **_task(spec.name, doc, _if_built, spec, self.workspace, testing.run_kernel, self.plan.specs),
                "task_dep": [f"build:{spec.name}", *(f"build:{other}" for other in used[spec.kernel.key])],
            }
        yield from self._groups("test", "Test")

    def toolchain_tasks(self) -> Iterator[TaskDict]:
        """`toolchain:<id>` for each that can be provisioned; builds provision what they need by themselves."""
        for name, locked in self.host.locked.items():
            doc = f"Provision {name}, {locked.size / 1e6:.0f} MB to fetch."
            made = _task(name, doc, inventory.provision_and_say, locked, self.workspace)
            # No members of a group: doit would want a task `toolchain`, and that is a command.
            yield {"basename": f"toolchain:{made.pop('name')}", **made}

    def migrate_tasks(self) -> Iterator[TaskDict]:
        """`migrate:<kernel>` for each build.toml, one that cannot be loaded included: an old edition is such a one."""
        for path in self.paths:
            if not loading.can_be_task(path.parent.name):
                continue
            edition = {"name": "to", "long": "to", "type": int, "default": NEWEST_EDITION, "help": "the edition wanted"}
            doc = f"Rewrite {self.workspace.shown(path)} in another edition."
            yield {"name": path.parent.name, "doc": doc, "params": [edition], "actions": [(_migrate, [path])]}

    def lint_tasks(self) -> Iterator[TaskDict]:
        """What a reviewer need not look for: `lint:python`, and `lint:crates` where kernels are in Rust."""
        doc = "Lint and type-check the Python, and see that the CI workflows are current."
        yield _task("python", doc, linting.lint, self.workspace)
        if in_rust := [spec for spec in self.plan.specs if spec.crates and spec.crates.own is None]:
            yield _task("crates", "Run rustfmt and clippy.", rust_linting.lint, in_rust, self.workspace)

    def dist_task(self) -> TaskDict:
        """The builder as a package, where this is its repository."""
        doc = "Make the sdist and the wheel of the builder itself, in dist/"
        return _single(_task("dist", doc, linting.dist, self.workspace))

    def schema_task(self) -> TaskDict:
        """What is generated from the model of build.toml for its authors and their editors."""
        root = self.workspace.root
        return {
            "doc": "Write kernels/build.schema.json and docs/build-toml.md from the model of build.toml",
            "actions": [
                (
                    _act,
                    [authoring.write_schema, root / "kernels" / "build.schema.json", root / "docs" / "build-toml.md"],
                )
            ],
        }

    def lock_task(self) -> TaskDict:
        """What pins the crates that kernels in Rust depend on, or the packages of toolchains."""
        flags = {"upgrade": "to newest versions", "toolchains": "write toolchains/lock.toml, not Cargo.lock"}
        return {
            "doc": "Take what new crates need into Cargo.lock; with --upgrade, move to the newest versions",
            "params": [
                {"name": name, "long": name, "type": bool, "default": False, "help": text}
                for name, text in flags.items()
            ],
            "actions": [(_lock, [self])],
            "io": {"capture": False},
        }

    def _groups(self, stage: str, verb: str, more: Sequence[str] = ()) -> Iterator[TaskDict]:
        """`<stage>:<kernel>`: everything that the plan says about one kernel, the reasons of what is skipped too.

        `more` are names of tasks of the stage beside those for specs.
        """
        members: dict[str, list[str]] = {spec.kernel.key: [] for spec in self.plan.specs}
        for name in more:
            members.setdefault(name.partition(":")[0], []).append(f"{stage}:{name}")
        for spec in self.plan.specs:
            members[spec.kernel.key].append(f"{stage}:{spec.name}")
        for entry in self.plan.entries:
            # A kernel that could not be planned at all has its message under `build:<kernel>` already.
            if not isinstance(entry, BuildSpec) and (stage != "build" or entry.variant is not None):
                members.setdefault(entry.kernel, []).append(f"build:{plan.name(entry)}")
        for kernel, names in sorted(members.items()):
            yield {"name": kernel, "actions": None, "task_dep": names, "doc": f"{verb} all variants of {kernel}."}


def _portable() -> bool:
    return bool(get_var("portable", "yes") != "no")


def _task(name: str, doc: str, function: Callable[..., object], *arguments: object) -> TaskDict:
    # Nothing prints, and capturing would swap sys.stdout under the feet of tasks that run beside this one.
    return {"name": name, "doc": doc, "actions": [(_act, [function, *arguments])], "io": {"capture": False}}


def _single(task: TaskDict) -> TaskDict:
    """A task without subtasks, whose name is that of its creator in dodo.py."""
    return {key: value for key, value in task.items() if key != "name"}


def _act(function: Callable[..., object], *arguments: object) -> dict[str, object] | TaskFailed:
    """The action of every task: errors for the user become a message without a traceback."""
    try:
        result = function(*arguments)
    except UnavailableError as error:
        return {"skipped": str(error)}
    except BuildError as error:
        return TaskFailed(_from_checkout(str(error)))
    except OSError as error:
        return TaskFailed(condition(error))
    if isinstance(result, str):
        return {"summary": result}
    if isinstance(result, Outcome):
        return {"summary": result.summary, "tested": result.passed > 0}
    return {}


def _if_built(spec: BuildSpec, workspace: Workspace, function: Callable[..., object], *arguments: object) -> object:
    """Call `function`, unless the artifact could not be made in this run: an older one is not what was asked about."""
    if reason := workspace.unavailable.get(spec.name):
        raise UnavailableError(reason)
    return function(spec, *arguments, workspace)


def _lock(session: Session, upgrade: bool, toolchains: bool) -> dict[str, object] | TaskFailed:  # noqa: FBT001 - by doit
    if toolchains:
        from buildlib import relock  # noqa: PLC0415 - what it imports is of no use to any other task

        return _act(lambda: relock.update(session.workspace, upgrade=upgrade))
    lost = {failed.kernel: failed.message for failed in session.plan.failed if failed.variant is None}
    return _act(lambda: update(session.host.rust, lost, session.workspace, upgrade=upgrade))


def _migrate(path: Path, to: int) -> dict[str, object] | TaskFailed:
    return _act(authoring.rewrite, path, to)


def condition(error: OSError) -> str:
    """One line for a condition that the user can mend; any other error of the system is raised again, as our fault."""
    if error.errno not in _CONDITIONS:
        raise error
    return (
        f"{_from_checkout(str(error.filename or 'build'))}: {error.strerror}; make room or give access, and run again"
    )


def _from_checkout(text: str) -> str:
    """A text in which paths are from the checkout, which doit makes the current folder."""
    return text.replace(f"{Path.cwd()}{os.sep}", "")


def _build(spec: BuildSpec, workspace: Workspace) -> str:
    """Build, note how long it took where it began from nothing, and say how big the artifact is and what is notable."""
    from_nothing = not workspace.work(spec).exists()
    start = time.monotonic()
    artifact = build.build(spec, workspace)
    if from_nothing:
        workspace.times.record(spec.name, time.monotonic() - start)
    return "; ".join((summary.size(artifact.folder), *spec.notes))


def _fail(message: str) -> None:
    raise ConfigError(message)


def _reporter(workspace: Workspace, kept: Path) -> type[Reporter]:
    """A reporter that also shows what the steps of a workspace say while they run, and keeps the outcome in a file."""

    class Attached(Reporter):
        record = kept

        def __init__(self, outstream: TextIO, options: dict[str, object]) -> None:
            super().__init__(outstream, options)
            workspace.notify = self._report.note

    return Attached


class Reporter:
    """doit's view of a `Report`."""

    desc = "a line for each task that ran, and a table"
    # Where the outcome of the run is kept for `doit summary`.
    record: Path | None = None

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
            if reason := values.get("skipped"):
                self._report.skip(task.name, reason)
                return
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
        if self.record is not None:
            summary.save(self._report.entries, self.record)
