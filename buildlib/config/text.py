"""The text of a build.toml → the TOML document in it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import tomli

from buildlib.errors import ConfigError

# tomli is compiled and several times faster than tomllib, but it reads TOML 1.1, which the reference parser refuses.
# Only text with one of these can be TOML 1.1 and not 1.0, and be a build.toml.
_MAYBE_NEWER_TOML = re.compile(r"\{|\\[ex]")

_POSITION = re.compile(
    r"(?P<message>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL
)

# How a message of the TOML libraries starts → what is wrong, and what to do, in our words.
_SYNTAX = (
    ("Cannot declare", "this table is there already", "merge the two tables"),
    ("Cannot overwrite", "this key has a value already", "keep one of the two"),
    ("Duplicate inline table key", "this key has a value already", "keep one of the two"),
    ("Cannot mutate", "this table is closed already", "write all of its keys in one place"),
    ("Cannot redefine", "this table is closed already", "write all of its keys in one place"),
    ("Expected '='", "a key without a value", "write key = value"),
    ("Expected newline", "something follows the value", "write one key to a line, and put strings in quotes"),
    ("Expected ']", "the table's header is not closed", "write [table] on a line of its own"),
    ("Unclosed array", "the list is not closed", "put commas between its items and ] at its end"),
    ("Unclosed inline table", "the inline table is not closed", "put commas between its keys and } at its end"),
    ("Unterminated string", "the string is not closed", "put a quote at its end"),
    ("Illegal character '\\n'", "the string is not closed on its line", "put a quote at its end"),
    ("Illegal character", "a control character in a string", "write it as an escape, such as \\t"),
    ("Found invalid character", "a control character in a comment", "drop it"),
    ("Unescaped '\\'", "a backslash that starts no escape", "write \\\\, or put the string in single quotes"),
    ("Invalid hex value", "an escape without its hexadecimal digits", "write \\uXXXX"),
    ("Escaped character", "an escape for what is no character", "write another"),
    ("Invalid date", "a date that does not exist", "put strings in quotes"),
    ("Invalid initial character", "this cannot start a key", "use A-Z, a-z, 0-9, _ and -, or put the key in quotes"),
    ("Invalid value", "this is not a value", "put strings in quotes"),
)
_END = ("the file ends where a value is expected", "write the value, and close the brackets that are open")
_OTHER = ("this is not TOML", "write [table], or key = value")


def read(file: Path) -> str:
    """The text of a file, without a byte order mark.

    Raises:
        ConfigError: the file is missing, unreadable or not UTF-8.
    """
    try:
        return decode(file, file.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"{file}: there is no such file; each folder under kernels/ needs one") from None
    except OSError as fault:
        reason = (fault.strerror or "unknown reason").lower()
        raise ConfigError(f"{file}: cannot be read ({reason}); make it a readable file") from None


def decode(file: Path, content: bytes) -> str:
    """The text in a file's content, without a byte order mark.

    Raises:
        ConfigError: the content is not UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = fault.object.count(b"\n", 0, fault.start) + 1
        bad = fault.object[fault.start]
        raise ConfigError(f"{file}:{line}: the byte 0x{bad:02x} is not UTF-8; save the file as UTF-8") from None


def parse(file: Path, text: str) -> dict[str, object]:
    """The TOML document in a file's text.

    Raises:
        ConfigError: the text is not TOML 1.0.
    """
    loads = tomllib.loads if _MAYBE_NEWER_TOML.search(text) else tomli.loads
    try:
        return loads(text)
    except RecursionError:
        raise ConfigError(f"{file}: too many brackets within brackets; no key needs more than two") from None
    except ValueError as fault:
        raise _syntax_error(file, text, str(fault)) from None


def _syntax_error(file: Path, text: str, message: str) -> ConfigError:
    match = _POSITION.fullmatch(message)
    if match is None:
        return ConfigError(f"{file}: {_OTHER[0]}; {_OTHER[1]}")
    known = next(((what, todo) for start, what, todo in _SYNTAX if match["message"].startswith(start)), _OTHER)
    line, column = match["line"], match["column"]
    if line is None:
        last = text.rstrip("\n").split("\n")
        line, column = str(len(last)), str(len(last[-1]) + 1)
        known = _END if match["message"].startswith("Invalid value") else known
    what, todo = known
    return ConfigError(f"{file}:{line}:{column}: {what}; {todo}")
