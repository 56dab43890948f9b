"""The commands of doit: run, list and clean as this repository needs them, and matrix. See tasks.py for the tasks."""

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
from collections.abc import Iterator
from pathlib import Path

import msgspec
from doit import get_var
from doit.cmd_base import DoitCmdBase
from doit.cmd_clean import Clean as DoitClean
from doit.cmd_list import List as DoitList
from doit.cmd_run import Run as DoitRun
from doit.doit_cmd import set_var
from doit.exceptions import InvalidCommand, InvalidDodoFile

from buildlib.errors import SelectionError
from buildlib.selection import select
from buildlib.tasks import Session, condition, matrix_rows

_INTERRUPTED, _TERMINATED = 130, 143


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


class Run(DoitRun):  # type: ignore[misc]
    """`doit run`, with errors for empty selections, one run at a time, and an orderly end on signals."""

    cmd_options = (*DoitRun.cmd_options, _NO_PORTABLE)

    def execute(self, params: dict[str, object], args: list[str]) -> int:
        """Tell dodo.py, which is about to be loaded, what it must plan for."""
        set_var("portable", "no" if params["no_portable"] else get_var("portable", "yes"))
        return int(super().execute(params, args))

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
        # Options of a task stand behind its name, and doit hands them to it.
        words = list(itertools.takewhile(lambda word: not word.startswith("-"), self.sel_tasks))
        try:
            selected = select(words, [task.name for task in self.task_list])
        except SelectionError as error:
            raise InvalidCommand(str(error)) from None
        self.sel_tasks: list[str] = selected + self.sel_tasks[len(words) :]
        workspace = session.workspace
        previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
        status = 1
        try:
            with _alone(workspace.build / "lock"), _reader_may_leave():
                # doit tells a failed task (1) from one that could not start because of it (2); users need not.
                status = min(1, int(super()._execute(*args, **kwargs)))
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


class List(DoitList):  # type: ignore[misc]
    """`doit list`, with the commands that take kernels too, and with what is wrong with any kernel."""

    @functools.wraps(DoitList._execute)
    def _execute(self, *args: object, **kwargs: object) -> int:
        with _reader_may_leave():
            super()._execute(*args, **kwargs)
            if not kwargs["pos_args"]:
                for command in (Clean, Matrix):
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
        with _reader_may_leave():
            self.outstream.write(msgspec.json.format(msgspec.json.encode(rows)).decode() + "\n")
        return 0


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
