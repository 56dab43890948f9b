"""What is written for the authors of build.toml: the file itself in another edition, its schema and its reference."""

from __future__ import annotations

from pathlib import Path

from buildlib.config.grammar import NEWEST_EDITION
from buildlib.errors import ConfigError
from buildlib.files import write, write_if_changed


def rewrite(path: Path, to: int) -> str:
    """Rewrite a build.toml in edition `to`; comments, order and formatting stay.

    Raises:
        ConfigError: the file cannot be read, or not be written in that edition.
    """
    from buildlib.config import text  # noqa: PLC0415 - as below
    from buildlib.config.migrate import migrate  # noqa: PLC0415 - tomlkit takes longer to import than doit to list

    if to not in {5, NEWEST_EDITION}:
        raise ConfigError(f"--to {to}: there is no such edition to write; use 5 or {NEWEST_EDITION}")
    text.read(path)  # For what it says of a file that cannot be read; it drops a byte order mark.
    content = path.read_bytes().decode("utf-8")
    migrated = migrate(content, path, 5 if to == 5 else NEWEST_EDITION)  # noqa: PLR2004
    if migrated == content:
        return f"edition {to} already"
    write(path, migrated.encode("utf-8"))
    return f"rewritten in edition {to}"


def write_schema(schema_file: Path, reference_file: Path) -> None:
    from buildlib.config import schema  # noqa: PLC0415 - as above

    write_if_changed(schema_file, schema.render().encode("utf-8"))
    write_if_changed(reference_file, schema.reference().encode("utf-8"))
