"""What all commands of doit have in common here: options anywhere, and one line for what a user did or can mend."""

from __future__ import annotations

import difflib
import getopt
import re
import sqlite3

from doit.cmd_base import DoitCmdBase
from doit.cmdparse import CmdParseError
from doit.dependency import DatabaseException
from doit.exceptions import InvalidCommand

from buildlib.tasks import condition

_BAD_OPTION = re.compile(r"Error parsing (?:Command|Task): option (?P<option>\S+) (?P<what>.*?) \(parsing options: ")
_BAD_VALUE = re.compile(r"Error parsing parameter '(?P<name>\w+)' <class 'int'>\.\n.*: (?P<value>'.*')\n")
_LONG_NAME = re.compile(r"'long':'([\w-]+)'")


class Command(DoitCmdBase):  # type: ignore[misc]
    """A command whose options may stand after names too, `doit build -n 4`, and whose errors are for people."""

    def parse_execute(self, in_args: list[str]) -> int:
        """Run the command with the words of the command line.

        Raises:
            InvalidCommand: with one line, of which doit makes an error without a traceback.
        """
        try:
            return int(super().parse_execute(self._options_first(in_args)))
        except CmdParseError as error:
            raise InvalidCommand(_of_an_option(str(error), self.get_name())) from None
        except (DatabaseException, sqlite3.Error) as error:
            raise InvalidCommand(of_the_database(error)) from None
        except OSError as error:
            raise InvalidCommand(condition(error)) from None

    def _options_first(self, in_args: list[str]) -> list[str]:
        """The words with the options first, where doit looks for them."""
        try:
            options, names = getopt.gnu_getopt(in_args, self.cmdparser.get_short(), self.cmdparser.get_long())
        except getopt.GetoptError:
            return in_args  # It may be an option of a task, which doit knows.
        # A value may be empty, as that of an unset variable is; a flag has none.
        valued = {f"--{name.removesuffix('=')}" for name in self.cmdparser.get_long() if name.endswith("=")}
        words = [
            word
            for name, value in options
            for word in ((f"{name}={value}",) if name in valued else (name, value) if value else (name,))
        ]
        return words + names


def of_the_database(error: Exception) -> str:
    """One line for doit's own database that cannot be used. Nothing that matters is in it."""
    cause = error if isinstance(error, sqlite3.Error) else error.__context__
    full_or_closed = isinstance(cause, sqlite3.OperationalError)
    todo = "make room or give access, and run again" if full_or_closed else "remove it, as nothing in it is needed"
    return f"build/doit.sqlite3: {cause or 'cannot be used'}; {todo}"


def _of_an_option(said: str, command: str) -> str:
    """What doit says about an option, without its list of all that it knows of each."""
    if found := _BAD_OPTION.match(said):
        todo = f"'doit help {command}' shows the options"
        if found["what"] != "not recognized":
            return f"{found['option']}: {found['what']}; {todo}"
        if close := difflib.get_close_matches(found["option"].lstrip("-"), _LONG_NAME.findall(said), n=1):
            todo = f"did you mean --{close[0]}?"
        return f"{found['option']}: there is no such option here; {todo}"
    if found := _BAD_VALUE.match(said):
        return f"option '{found['name']}': {found['value']} is no whole number; write one"
    return said
