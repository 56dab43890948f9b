"""The commands of doit: run, list and clean as this repository needs them, and its own. See tasks.py for the tasks."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import getopt
import itertools
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from doit import get_var
from doit.cmd_base import DoitCmdBase
from doit.cmd_clean import Clean as DoitClean
from doit.cmd_list import List as DoitList
from doit.cmd_run import Run as DoitRun
from doit.doit_cmd import set_var
from doit.exceptions import InvalidCommand, InvalidDodoFile
from doit.task import Task

from buildlib import inventory
from buildlib.errors import PublishError, SelectionError
from buildlib.plan import BuildSpec
from buildlib.selection import select
from buildlib.tasks import Session, choose, condition, matrix_rows

_INTERRUPTED, _TERMINATED = 130, 143
_PUBLISH_OPTIONS = ("to", "dry-run", "create-pr", "allow-dirty", "private", "repo-prefix", "output-json")


def _option(name: str, kind: type, default: object, help_text: str) -> dict[str, object]:
    """An option of a command, as doit wants it described."""
    return {"name": name, "long": name, "type": kind, "default": default, "help": help_text}


def _session(command: DoitCmdBase) -> Session:
    session = command.loader.namespace.get("SESSION")
    if not isinstance(session, Session):
        raise InvalidDodoFile("dodo.py: SESSION is missing; set it with Session.open")
    return session


_NO_PORTABLE = {
    "name": "no_portable",
    "long": "no-portable",
    "type": bool,
    "default": False,
    "help": "link for this machine alone; such an artifact cannot be published",
}


_CUDA_CAPABILITIES = {
    "name": "cuda_capabilities",
    "long": "cuda-capabilities",
    "type": str,
    "default": "",
    "help": "compile CUDA code for these devices only, as in 9.0,12.0 or native; such an artifact cannot be published",
}


class Run(DoitRun):  # type: ignore[misc]
    """`doit run`, with errors for empty selections, one run at a time, and an orderly end on signals."""

    cmd_options = (*DoitRun.cmd_options, _NO_PORTABLE, _CUDA_CAPABILITIES)

    def execute(self, params: dict[str, object], args: list[str]) -> int:
        """Tell dodo.py, which is about to be loaded, what it must plan for."""
        set_var("portable", "no" if params["no_portable"] else get_var("portable", "yes"))
        set_var("cuda_capabilities", str(params["cuda_capabilities"]) or get_var("cuda_capabilities", ""))
        return int(super().execute(params, args))

    def parse_execute(self, in_args: list[str]) -> int:
        """Let options stand after names too, `doit build -n 4`, and `doit publish:relu` mean `doit publish relu`."""
        for command in (Publish, Sign):
            if any(word.startswith(f"{command.get_name()}:") for word in in_args) and not isinstance(self, command):
                other = command(task_loader=self.loader, config=self.config, bin_name=self.bin_name)
                return other.parse_execute(in_args)
        try:
            options, names = getopt.gnu_getopt(in_args, self.cmdparser.get_short(), self.cmdparser.get_long())
        except getopt.GetoptError:
            return int(super().parse_execute(in_args))  # For doit's own words about it.
        return int(super().parse_execute([word for option in options for word in option if word] + names))

    @functools.wraps(DoitRun._execute)  # doit reads the names of the options from this signature.
    def _execute(self, *args: object, **kwargs: object) -> int:
        session = _session(self)
        try:
            self._select(session)
        except SelectionError as error:
            raise InvalidCommand(str(error)) from None
        workspace = session.workspace
        previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
        status = 1
        try:
            with _alone(workspace.build / "lock"), _reader_may_leave():
                status = self._work(session, functools.partial(super()._execute, *args, **kwargs))
        except KeyboardInterrupt:
            sys.stderr.write("interrupted; what was finished is kept\n")
            return _INTERRUPTED
        except OSError as error:
            sys.stderr.write(f"ERROR: {condition(error)}\n")
            return 1
        except sqlite3.OperationalError as error:
            sys.stderr.write(f"ERROR: build/doit.sqlite3: {error}; make room or give access, and run again\n")
            return 1
        finally:
            workspace.close()
            signal.signal(signal.SIGTERM, previous)
        return status

    def _select(self, session: Session) -> None:  # noqa: ARG002 - for those who override it
        """Turn the words of the command line into names of tasks.

        Raises:
            SelectionError: a word selects nothing.
        """
        # Options of a task stand behind its name, and doit hands them to it.
        words = list(itertools.takewhile(lambda word: not word.startswith("-"), self.sel_tasks))
        selected = select(words, [task.name for task in self.task_list])
        self.sel_tasks: list[str] = selected + self.sel_tasks[len(words) :]

    def _work(self, session: Session, run: Callable[[], int]) -> int:  # noqa: ARG002 - for those who override it
        """Do the command's work, of which `run` runs the selected tasks; the exit status."""
        # doit tells a failed task (1) from one that could not start because of it (2); users need not.
        return min(1, int(run()))


class Toolchains(DoitCmdBase):  # type: ignore[misc]
    """`doit toolchain`: what variants are built with. (`doit toolchain:<id>` is a task.)"""

    doc_purpose = "List the compilers and libraries that are provisioned, or can be, and those of this machine"
    doc_usage = ""
    doc_description = "For each: its name, its state, its size in MB, and what it is."
    cmd_options = ()

    @classmethod
    def get_name(cls) -> str:
        return "toolchain"

    def _execute(self) -> int:
        session = _session(self)
        self.dep_manager.close()
        rows = inventory.rows(session.host, session.workspace.settings)
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        with _reader_may_leave():
            for name, state, size, what in rows:
                self.outstream.write(f"{name:<{widths[0]}}  {state:<{widths[1]}}  {size:>{widths[2]}}  {what}\n")
        return 0


class List(DoitList):  # type: ignore[misc]
    """`doit list`, with the commands that take kernels too, and with what is wrong with any kernel."""

    @functools.wraps(DoitList._execute)
    def _execute(self, *args: object, **kwargs: object) -> int:
        if not kwargs["subtasks"] and not kwargs["pos_args"]:
            self.task_list: list[Task] = [task for task in self.task_list if ":" not in task.name]
        with _reader_may_leave():
            super()._execute(*args, **kwargs)
            if not kwargs["pos_args"]:
                for command in (Clean, Matrix, Publish, Sign, Verify, Toolchains):
                    self.outstream.write(f"{command.get_name():<10}{command.doc_purpose}\n")
        for failed in _session(self).plan.failed:
            sys.stderr.write(f"ERROR: {failed.message}\n")
        return 0


class Clean(DoitClean):  # type: ignore[misc]
    """`doit clean`, which also takes what the other commands take: a kernel, a kernel:variant or a wildcard."""

    doc_purpose = "Remove what was built: [KERNEL | KERNEL:VARIANT | wildcard ...]"

    @functools.wraps(DoitClean._execute)
    def _execute(self, *args: object, **kwargs: object) -> int:
        if words := kwargs["pos_args"]:
            assert isinstance(words, list)
            names = sorted(task.name for task in self.task_list if task.name.startswith("build:"))
            try:
                wanted = [word if word in names else f"build:{word}" for word in words]
                kwargs["pos_args"] = select(wanted, names)
            except SelectionError as error:
                raise InvalidCommand(str(error).replace("build:", "")) from None
            # A kernel's group is cleaned by cleaning what it stands for.
            kwargs["cleandep"] = True
        with _alone(_session(self).workspace.build / "lock"):
            return int(super()._execute(*args, **kwargs) or 0)


class Matrix(DoitCmdBase):  # type: ignore[misc]
    """`doit matrix`: the plan as JSON."""

    doc_purpose = "Print the plan as JSON for CI: [KERNEL | KERNEL:VARIANT | wildcard ...]"
    doc_usage = "[KERNEL | KERNEL:VARIANT | wildcard ...]"
    doc_description = (
        "An object for each kernel × variant: kernel, variant, backend, framework, status, reason, notes, digest."
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
        with _reader_may_leave():
            self.outstream.write(msgspec.json.format(msgspec.json.encode(rows)).decode() + "\n")
        return 0


class _OfArtifacts(Run):
    """A command that builds and checks what it is told, and then does something with the artifacts."""

    doc_usage = "[KERNEL | KERNEL:VARIANT | wildcard ...]"

    def execute(self, params: dict[str, Any], args: list[str]) -> int:
        """Keep the options that doit's own `run` does not know."""
        self._given = params
        return int(super().execute(params, args))

    def _select(self, session: Session) -> None:
        words = [] if self.sel_default_tasks else self.sel_tasks
        self._chosen = choose(session, [word.removeprefix(f"{self.get_name()}:") for word in words])
        self.sel_tasks = []

    def _check(self, specs: Iterable[BuildSpec], run: Callable[[], int]) -> int:
        """Build and check, through doit; the exit status."""
        self.sel_tasks = [f"check:{spec.name}" for spec in specs]
        return min(1, int(run())) if self.sel_tasks else 0


class Publish(_OfArtifacts):
    """`doit publish`: build, check, and bring a destination exactly what it lacks."""

    name = "publish"
    doc_purpose = "Build, check, and publish what changed to the Hub or a folder: [KERNEL[:VARIANT] ...]"
    doc_description = (
        "What changed is decided by the digests at the destination alone; where nothing did, nothing is written."
    )
    cmd_options = (
        *Run.cmd_options,
        _option("to", str, "file:dist/hub", "destination: hub, or file:FOLDER"),
        _option("dry-run", bool, default=False, help_text="show what would be published, and write nothing"),
        _option("create-pr", bool, default=False, help_text="open a pull request for each branch"),
        _option("allow-dirty", bool, default=False, help_text="publish uncommitted sources; the commit will say so"),
        _option("private", bool, default=False, help_text="make new repositories private"),
        _option("repo-prefix", str, "", "publish to ORG/name, or to ORG/PREFIXname, in place of the repo-id's owner"),
        _option("output-json", str, "", "write the outcome for each kernel to this file"),
    )

    def _work(self, session: Session, run: Callable[[], int]) -> int:
        # Imported here because only this command needs them.
        from buildlib.publish import Options, stage  # noqa: PLC0415
        from buildlib.publish.report import FAILED, SKIPPED, Show, write_json  # noqa: PLC0415

        names = {name.replace("-", "_"): name for name in _PUBLISH_OPTIONS}
        options = Options(**{field: self._given[name] for field, name in names.items()})
        show = Show(self.outstream)
        working: stage.Stage | None = None
        try:
            where = stage.destination(options, session.workspace.root, show, bars=self.outstream.isatty())
            working = stage.Stage(where, options, session.workspace, show)
            for failed in self._chosen.failed:
                working.refuse(failed.kernel, failed.message, FAILED)
            kernels = {kernel.key: kernel for kernel in session.kernels}
            specs = stage.by_kernel(self._chosen.specs)
            for kernel in {skipped.kernel for skipped in self._chosen.skipped} - specs.keys():
                working.refuse(kernel, "no variant of it is built on this machine", SKIPPED)
            jobs = working.prepare([(kernels[key], found) for key, found in specs.items()])
            self._check([spec for job in jobs for spec in job.specs], run)
            working.carry_out(jobs)
        except PublishError as error:
            sys.stderr.write(f"ERROR: {error}\n")
            return 1
        finally:
            if options.output_json:
                write_json(Path(options.output_json), working.rows if working else [])
        show.rows(working.rows)
        return 1 if any(row.is_failure for row in working.rows) else 0


class Sign(_OfArtifacts):
    """`doit sign`: metadata.json.sigstore beside the metadata.json of each artifact."""

    name = "sign"
    doc_purpose = "Build, check, and sign artifacts where there is an identity to sign with: [KERNEL[:VARIANT] ...]"
    doc_description = (
        "The identity is the one that a CI job has by OIDC. Without one nothing is signed, and it is said."
    )

    def _work(self, session: Session, run: Callable[[], int]) -> int:
        from buildlib.publish import sign  # noqa: PLC0415 - as above

        status = self._check(self._chosen.specs, run)
        try:
            for line in sign.sign_all(self._chosen.specs, session.workspace):
                self.outstream.write(f"{line}\n")
        except PublishError as error:
            sys.stderr.write(f"ERROR: {error}\n")
            return 1
        return status


class Verify(DoitCmdBase):  # type: ignore[misc]
    """`doit verify`: whether artifacts are what their metadata.json says, and who signed it."""

    name = "verify"
    doc_purpose = "Compare artifacts with their digests, and check signatures: [KERNEL[:VARIANT] | FOLDER ...]"
    doc_usage = "[KERNEL | KERNEL:VARIANT | wildcard | FOLDER ...]"
    doc_description = "Builds nothing and needs no network. A folder may be any that holds artifacts, such as dist/hub."
    cmd_options = (
        _option("identity", str, "", "the signer that signatures must be of, such as the address of a CI workflow"),
        _option("issuer", str, "https://token.actions.githubusercontent.com", "who vouches for the signer"),
    )

    def _execute(self, pos_args: list[str], identity: str, issuer: str) -> int:
        from buildlib.publish import sign  # noqa: PLC0415 - as above

        session = _session(self)
        self.dep_manager.close()
        folders = [word for word in pos_args if Path(word).is_dir()]
        words = [word for word in pos_args if word not in folders]
        try:
            chosen = choose(session, words) if words or not folders else None
        except SelectionError as error:
            raise InvalidCommand(str(error)) from None
        built = [session.workspace.artifact(spec) for spec in chosen.specs] if chosen else []
        found = sign.verify_all(built, [Path(folder) for folder in folders], session.workspace, identity, issuer)
        for verdict in found:
            self.outstream.write(f"{verdict.line}\n")
        return 0 if all(verdict.good for verdict in found) else 1


@contextlib.contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Write to a pipe whose reader may go before the end, as `head` does: no error, and nothing more is written."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
