"""What cargo and rustc leave for whoever called them: messages in JSON, and files that name all that was read."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from buildlib.errors import StepError
from buildlib.plan import BuildSpec
from buildlib.rust.crates import PTX_FOLDER
from buildlib.rust.workspace import CargoWorkspace
from buildlib.workspace import Workspace


class _Target(msgspec.Struct):
    name: str = ""


class Message(msgspec.Struct):
    """A line of what cargo answers."""

    reason: str
    manifest_path: str = ""
    target: _Target = msgspec.field(default_factory=_Target)
    filenames: list[str] = []


def messages(answer: Path) -> Iterator[Message]:
    """What cargo answered."""
    for line in answer.read_bytes().splitlines():
        with contextlib.suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line, type=Message)


def check_reads(depfile: Path, spec: BuildSpec, cargo: CargoWorkspace, workspace: Workspace) -> None:
    """Check that rustc read no laid-out file that the digest does not cover: those are there for tests alone.

    Raises:
        StepError: it read one; the message names it.
    """
    kernel = cargo.folder / "kernels" / spec.kernel.key
    covered = {os.path.normpath(kernel / path) for path in workspace.inputs(spec).crates}
    _, _, listed = depfile.read_text(encoding="utf-8").partition(": ")
    for path in re.split(r"(?<!\\) ", listed.strip()):
        read = os.path.normpath(path.replace("\\ ", " "))
        made = read.startswith(f"{kernel}/{PTX_FOLDER}/")
        if read.startswith(f"{cargo.folder}/kernels/") and read not in covered and not made:
            shown = os.path.relpath(read, kernel)
            raise StepError(
                f"{workspace.shown(spec.kernel.folder)}: its crates read {shown}, which is taken for a file of tests; "
                "list it in src of the component in build.toml"
            )
