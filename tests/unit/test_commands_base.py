"""What doit says about options and its database, in our words."""

from __future__ import annotations

import sqlite3

import pytest
from doit import doit_cmd
from doit.cmd_base import DodoTaskLoader, DoitCmdBase
from doit.cmd_run import Run as DoitRun
from doit.cmdparse import CmdOption, CmdParseError, TaskParse
from doit.dependency import DatabaseException
from doit.exceptions import InvalidCommand

from buildlib.commands import Run
from buildlib.commands_base import Command, of_the_database


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--foo"], "--foo: there is no such option here; 'doit help run' shows the options"),
        (["build", "--no-portabel"], "--no-portabel: there is no such option here; did you mean --no-portable?"),
        (["--shard"], "--shard: requires argument; 'doit help run' shows the options"),
        (["-n", "x"], "option 'num_process': 'x' is no whole number; write one"),
        (["-n", "-3"], "-n -3: not a number of jobs; use 1 or more"),
    ],
)
def test_a_wrong_option_is_one_line(monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    # As doit does with the options of a task, whose names stand before them.
    def of_a_task(_: object, __: object, args: list[str]) -> int:
        TaskParse([CmdOption({"name": "np", "long": "no-portable", "type": bool, "default": False})]).parse(args[1:])
        return 0

    monkeypatch.setattr(DoitRun, "execute", of_a_task)
    monkeypatch.setattr(doit_cmd, "_CMDLINE_VARS", {})
    with pytest.raises(InvalidCommand) as caught:
        Run(task_loader=DodoTaskLoader(), config={}).parse_execute(words)
    assert str(caught.value) == said


def test_other_words_of_doit_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise CmdParseError("another reason")

    monkeypatch.setattr(DoitCmdBase, "parse_execute", refuse)
    with pytest.raises(InvalidCommand, match=r"^another reason$"):
        Command(task_loader=DodoTaskLoader(), config={}).parse_execute([])


def _chained(cause: sqlite3.Error) -> Exception:
    """As doit raises it: its own error, while another is handled."""
    try:
        try:
            raise cause
        except sqlite3.Error:
            raise DatabaseException("long words of doit")  # noqa: B904 - as doit does
    except Exception as error:  # noqa: BLE001 - doit has no types
        return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            sqlite3.OperationalError("unable to open database file"),
            "unable to open database file; make room or give access, and run again",
        ),
        (
            _chained(sqlite3.OperationalError("database or disk is full")),
            "database or disk is full; make room or give access, and run again",
        ),
        (
            _chained(sqlite3.DatabaseError("file is not a database")),
            "file is not a database; remove it, as nothing in it is needed",
        ),
        (DatabaseException("long words"), "cannot be used; remove it, as nothing in it is needed"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_line(error: Exception, said: str) -> None:
    assert of_the_database(error) == f"build/doit.sqlite3: {said}"
