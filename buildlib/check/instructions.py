"""Instruction sets: no instruction beyond a platform's baseline where nobody asked for it.

The artifact's library is disassembled, as it is what users run. Only where it has such instructions are the objects
that it was linked from looked at, to tell a translation unit that asked for them from one that did not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from buildlib import environment, process
from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.policy import Instructions
from buildlib.check.subject import Subject
from buildlib.config.model import RustCpu, RustCuda
from buildlib.files import listing
from buildlib.variant import TorchNoarchVariant
from buildlib.workspace import Workspace

_CHECK = "instructions"
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$", re.MULTILINE)
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".cuh")


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A translation unit: its object, its source, and the options that it was compiled with."""

    object: Path
    source: Path
    options: tuple[str, ...]


class _Command(msgspec.Struct, frozen=True):
    directory: str
    command: str
    file: str
    output: str


def check(subject: Subject, workspace: Workspace) -> Iterator[Outcome]:
    """Yield a finding for each set of instructions that a translation unit uses without having asked for it."""
    variant = subject.spec.variant
    if isinstance(variant, TorchNoarchVariant) or not subject.libraries:
        yield NotChecked(check=_CHECK, reason="no compiled library")
        return
    sets = [known for known in subject.policy.instructions if known.platform is variant.platform]
    for library in subject.libraries:
        code = _disassembly(subject.artifact.folder / library.path, workspace)
        if code is None:
            yield NotChecked(check=_CHECK, reason=f"objdump cannot read {library.path}; install binutils")
            continue
        for known in sets:
            if function := user(code, known):
                yield from _attribute(known, function, library.path, subject, workspace)


def _attribute(
    known: Instructions, function: str, library: str, subject: Subject, workspace: Workspace
) -> Iterator[Outcome]:
    """Say who uses instructions that were found in a library, unless all who do have asked for them."""
    work = workspace.work(subject.spec)
    if any(asks(work / "src" / path, known) for path in _headers(work / "src")):
        return
    # Rust has such instructions only in functions that ask for them, and lets nobody call these by accident.
    in_rust = any(isinstance(component, RustCpu | RustCuda) for component in subject.spec.components)
    built = units(work / "cmake")
    if not built and in_rust:
        return
    if not built or not all(unit.object.exists() for unit in built):
        reason = f"{library} has {known.name} instructions, and the objects that it was linked from are gone"
        yield NotChecked(check=_CHECK, reason=f"{reason}; 'doit clean {subject.spec.name}' and build it again")
        return
    silent = [unit for unit in built if not _asked(unit, known)]
    guilty = [
        (str(unit.source).removeprefix(f"{work}/").removeprefix("src/"), where)
        for unit in silent
        if (code := _disassembly(unit.object, workspace)) and (where := user(code, known))
    ]
    if not guilty and len(silent) == len(built) and not in_rust:
        guilty = [("a static library", function)]
    for source, where in guilty:
        message = (
            f"{known.name} instructions in {where}, from {source}, which not every CPU of {known.platform} has; keep "
            "them to a component that has the flag for them, which -march=native is not, and call it only where the "
            "CPU has them"
        )
        yield Finding(check=_CHECK, where=library, message=message)


def user(code: str, known: Instructions) -> str | None:
    """The first function in a disassembly that uses a set of instructions."""
    match = re.search(known.found, code)
    if match is None:
        return None
    before = list(_FUNCTION.finditer(code, 0, match.start()))
    return before[-1][1] if before else "?"


def units(folder: Path) -> tuple[Unit, ...]:
    """The translation units of a CMake build folder, none where it is gone."""
    try:
        commands = msgspec.json.decode((folder / "compile_commands.json").read_bytes(), type=tuple[_Command, ...])
    except OSError:
        return ()
    return tuple(
        Unit(
            object=Path(command.directory, command.output),
            source=Path(command.file),
            options=tuple(shlex.split(command.command)),
        )
        for command in commands
    )


def _asked(unit: Unit, known: Instructions) -> bool:
    return any(re.match(known.option, option) for option in unit.options) or asks(unit.source, known)


def asks(source: Path, known: Instructions) -> bool:
    """Whether a source asks for instructions by itself, with an attribute of a function or with a pragma."""
    try:
        return re.search(known.source, source.read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:
        return False


def _headers(folder: Path) -> list[str]:
    return [path for path in listing(folder) if path.endswith(_HEADERS)] if folder.is_dir() else []


def _disassembly(file: Path, workspace: Workspace) -> str | None:
    argv = ("objdump", "--disassemble", "--no-show-raw-insn", "--wide", str(file))
    with workspace.jobs.slot():
        return process.output(argv, env=environment.child(workspace.settings))
