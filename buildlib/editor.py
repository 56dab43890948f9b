"""`build/compile_commands.json`: how each of the author's files is compiled, for clangd and other editors' servers."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

import msgspec

from buildlib.files import write_if_changed


class _FromCMake(msgspec.Struct, frozen=True):
    directory: str
    command: str
    file: str


class _Command(msgspec.Struct, frozen=True):
    directory: str
    arguments: list[str]
    file: str


def write_compile_commands(root: Path) -> None:
    """Join the commands of all projects under `build/work`, with the laid-out sources named as the author's own.

    A file that several variants compile appears once, with the first variant's command.
    """
    joined: dict[str, _Command] = {}
    for path in sorted((root / "build" / "work").glob("*/*/cmake/compile_commands.json")):
        work = path.parent.parent
        laid_out, own = f"{work}/src/", f"{root}/kernels/{work.parent.name}/"
        with contextlib.suppress(OSError, msgspec.DecodeError):
            for command in msgspec.json.decode(path.read_bytes(), type=list[_FromCMake]):
                file = command.file.replace(laid_out, own)
                arguments = [argument.replace(laid_out, own) for argument in shlex.split(command.command)]
                joined.setdefault(file, _Command(command.directory, arguments, file))
    content = msgspec.json.format(msgspec.json.encode([joined[file] for file in sorted(joined)]))
    write_if_changed(root / "build" / "compile_commands.json", content + b"\n")
