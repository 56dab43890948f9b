"""The commands of doit: run, list, info and clean as this repository needs them. See tasks.py for the tasks."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from doit import get_var
from doit.cmd_base import DoitCmdBase
from doit.cmd_clean import Clean as DoitClean
from doit.cmd_info import Info as DoitInfo
from doit.cmd_list import List as DoitList
from doit.cmd_run import Run as DoitRun
from doit.doit_cmd import set_var
from doit.exceptions import InvalidCommand, InvalidDodoFile
from doit.task import Task

from buildlib import build, inventory
from buildlib.chosen import Options
from buildlib.commands_base import Command, of_the_database
from buildlib.errors import BuildError, SelectionError
from buildlib.rows import Row
from buildlib.selection import narrow, select
from buildlib.tasks import Session, condition


def session_of(command: DoitCmdBase) -> Session:
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
_BUILT = {
    "name": "built",
    "long": "built",
    "type": bool,
    "default": False,
    "help": "build nothing: take the artifacts that are there, once they are verified; needs no compiler",
}
_SINCE = {
    "name": "changed_since",
    "long": "changed-since",
    "type": str,
    "default": None,
    "help": "only what differs from this commit, or from this matrix.json of an earlier run",
}
_ROWS = {
    "name": "rows",
    "long": "rows",
    "type": str,
    "default": None,
    "help": "only the rows in this file, which 'doit matrix --output' wrote",
}
_SHARD = {
    "name": "shard",
    "long": "shard",
    "type": int,
    "default": None,
    "help": "of the rows in the file, only those of this shard",
}
# The options by which commands take the same rows.
SELECTING = (_SINCE, _ROWS, _SHARD)


class Run(Command, DoitRun):  # type: ignore[misc]
    """`doit run`, with errors for empty selections, one run at a time, and an orderly end on signals."""

    cmd_options = (*DoitRun.cmd_options, _NO_PORTABLE, _CUDA_CAPABILITIES, _BUILT, *SELECTING)
    _selecting = Options()

    def parse_execute(self, in_args: list[str]) -> int:
        """Let `doit publish:relu` mean `doit publish relu`."""
        from buildlib import commands_publish  # noqa: PLC0415 - those commands build on this module

        for command in commands_publish.OF_ARTIFACTS:
            if any(word.startswith(f"{command.get_name()}:") for word in in_args) and not isinstance(self, command):
                other = command(task_loader=self.loader, config=self.config, bin_name=self.bin_name)
                return int(other.parse_execute(in_args))
        return super().parse_execute(in_args)

    def execute(self, params: dict[str, Any], args: list[str]) -> int:
        """Tell dodo.py, which is about to be loaded, what it must plan for."""
        if params["num_process"] < 0:
            raise InvalidCommand(f"-n {params['num_process']}: not a number of jobs; use 1 or more")
        set_var("portable", "no" if params["no_portable"] else get_var("portable", "yes"))
        set_var("cuda_capabilities", str(params["cuda_capabilities"]) or get_var("cuda_capabilities", ""))
        set_var("built", "yes" if params["built"] else "no")
        self._selecting = Options(since=params["changed_since"], file=params["rows"], shard=params["shard"])
        return int(super().execute(params, args))

    @functools.wraps(DoitRun._execute)  # doit reads the names of the options from this signature.
    def _execute(self, *args: object, **kwargs: object) -> int:
        session = session_of(self)
        try:
            rows = session.chosen(self._selecting)
            something_to_do = self._select(session, rows)
        except SelectionError as error:
            raise InvalidCommand(str(error)) from None
        if not something_to_do:
            session.nothing_to_do()
            self.outstream.write("nothing to do: no row is selected\n")
            return 0
        workspace = session.workspace
        status = 1
        try:
            with _orderly_end(), alone(workspace.build / "lock") as held, reader_may_leave():
                workspace.held = (held,)
                status = self._work(session, functools.partial(super()._execute, *args, **kwargs))
        except KeyboardInterrupt:
            sys.stderr.write("interrupted; what was finished is kept\n")
            return 128 + signal.SIGINT
        except BuildError as error:
            sys.stderr.write(f"ERROR: {error}\n")
            return 1
        except OSError as error:
            sys.stderr.write(f"ERROR: {condition(error)}\n")
            return 1
        except sqlite3.OperationalError as error:
            sys.stderr.write(f"ERROR: {of_the_database(error)}\n")
            return 1
        finally:
            workspace.close()
        return status

    def _select(self, session: Session, rows: list[Row] | None) -> bool:  # noqa: ARG002 - for those who override it
        """Turn the words of the command line into names of tasks, of the given rows alone; whether there are any.

        Raises:
            SelectionError: a word selects nothing.
        """
        # Options of a task stand behind its name, and doit hands them to it.
        words = list(itertools.takewhile(lambda word: not word.startswith("-"), self.sel_tasks))
        names = [task.name for task in self.task_list]
        selected = select(words, names)
        if rows is not None:
            selected = narrow(selected, [(row.kernel, row.name) for row in rows], frozenset(names))
        self.sel_tasks: list[str] = selected + self.sel_tasks[len(words) :]
        return rows is None or bool(selected)

    def _work(self, session: Session, run: Callable[[], int]) -> int:  # noqa: ARG002 - for those who override it
        """Do the command's work, of which `run` runs the selected tasks; the exit status."""
        # doit tells a failed task (1) from one that could not start because of it (2); users need not.
        return min(1, int(run()))


class List(Command, DoitList):  # type: ignore[misc]
    """`doit list`, with the commands that take kernels too, and with what is wrong with any kernel."""

    @functools.wraps(DoitList._execute)
    def _execute(self, *args: object, **kwargs: object) -> int:
        if words := kwargs["pos_args"]:
            assert isinstance(words, list)
            kwargs["pos_args"] = _names(words, [task.name for task in self.task_list])
        elif not kwargs["subtasks"]:
            self.task_list: list[Task] = [task for task in self.task_list if ":" not in task.name]
        with reader_may_leave():
            super()._execute(*args, **kwargs)
            if not kwargs["pos_args"]:
                # Imported here because those commands build on this module.
                from buildlib import commands_ci, commands_publish  # noqa: PLC0415

                for command in (Clean, *commands_ci.COMMANDS, *commands_publish.COMMANDS, Toolchains):
                    self.outstream.write(f"{command.get_name():<10}{command.doc_purpose}\n")
        for failed in session_of(self).plan.failed:
            sys.stderr.write(f"ERROR: {failed.message}\n")
        return 0


class Info(Command, DoitInfo):  # type: ignore[misc]
    """`doit info`, with the reason why a task would run in words."""

    @functools.wraps(DoitInfo._execute)
    def _execute(self, pos_args: list[str], **kwargs: object) -> int:
        names = _names(pos_args, [task.name for task in self.task_list])
        if len(names) != 1:
            raise InvalidCommand(f"doit info: {len(names)} tasks; name one, 'doit list --all' shows all names")
        return int(super()._execute(names, **kwargs))

    @staticmethod
    def get_reasons(reasons: dict[str, Any]) -> str:
        """Why a task is not up to date. doit itself would show the whole build spec."""
        why = [f" * {_why(function, *arguments)}" for function, arguments, _ in reasons["uptodate_false"]]
        return "\n".join(why or [" * It runs whenever it is asked for."])


class Toolchains(Command):
    """`doit toolchain`: what variants are built with. (`doit toolchain:<id>` is a task.)"""

    doc_purpose = "List the compilers and libraries that are provisioned, or can be, and those of this machine"
    doc_usage = ""
    doc_description = "For each: its name, its state, its size in MB, and what it is."
    cmd_options = ()

    @classmethod
    def get_name(cls) -> str:
        return "toolchain"

    def _execute(self) -> int:
        session = session_of(self)
        self.dep_manager.close()
        rows = inventory.rows(session.host, session.workspace.settings)
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        with reader_may_leave():
            for name, state, size, what in rows:
                self.outstream.write(f"{name:<{widths[0]}}  {state:<{widths[1]}}  {size:>{widths[2]}}  {what}\n")
        return 0


class Clean(Command, DoitClean):  # type: ignore[misc]
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
        with alone(session_of(self).workspace.build / "lock"):
            return int(super()._execute(*args, **kwargs) or 0)

    def clean_tasks(self, tasks: Iterable[Task], dryrun: bool, cleanforget: bool) -> None:  # noqa: FBT001 - doit's
        """Remove what tasks made, each once. doit itself would name the function that does it, and not what is gone."""
        session = session_of(self)
        specs = {f"build:{spec.name}": spec for spec in session.plan.specs}
        removed = False
        for name in dict.fromkeys(task.name for task in tasks):
            if name in specs and build.remove(specs[name], session.workspace, dryrun=dryrun):
                removed = True
                self.outstream.write(f"{'would remove' if dryrun else 'removed'} {specs[name].name}\n")
            if cleanforget and not dryrun:
                self.dep_manager.remove(name)
        if not removed:
            self.outstream.write("nothing to remove\n")
        self.dep_manager.close()


def _why(function: Callable[..., bool], *arguments: Any) -> str:  # noqa: ANN401 - what doit was given
    """Why one of the functions that tell doit whether a task is up to date says that it is not."""
    if function is build.up_to_date:
        return build.stale(*arguments) or "It is up to date by now."
    return "It was not checked as it is now, or did not pass."


def _names(words: Iterable[str], names: Collection[str]) -> list[str]:
    """The names of tasks that words select.

    Raises:
        InvalidCommand: a word selects nothing.
    """
    try:
        return select(words, names)
    except SelectionError as error:
        raise InvalidCommand(str(error)) from None


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Write to a pipe whose reader may go before the end, as `head` does: no error, and nothing more is written."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _orderly_end() -> Iterator[None]:
    """Let SIGTERM, and the SIGHUP of a terminal that is closed, end the run as Ctrl-C does: with its compilers."""

    def end(number: int, _: object) -> None:
        # The terminal may be gone.
        with contextlib.suppress(OSError):
            sys.stderr.write("stopped; what was finished is kept\n")
        sys.exit(128 + number)

    # Under nohup, SIGHUP is ignored, and stays so.
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[int]:
    """Hold the checkout's lock: two runs would build in the same folders. The second one says so, and waits.

    Gives the file descriptor that holds it. Programs that get it hold it too: the compilers of a run that is killed,
    which cannot stop them, go on writing into those folders.
    """
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            sys.stderr.write(f"waiting for {_holder(file.read().strip())} to end\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield file.fileno()
        finally:
            # Only a run that was killed leaves its number behind.
            file.truncate(0)


def _holder(process: str) -> str:
    """Who holds the lock, by the number of a process that did; none where it has not yet said who it is."""
    if not process.isdecimal():
        return "another doit in this checkout"
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return f"the compilers of a doit in this checkout that was killed (process {process})"
    except PermissionError:
        pass  # It lives, and is somebody else's.
    return f"another doit in this checkout (process {process})"
