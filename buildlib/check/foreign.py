"""Folders among the artifacts that no spec of the plan makes: copied in, or left over.

They are loaded, and would be published, like any other. So each is looked at, as far as one can tell without a spec
what it should be: whether it describes itself, and whether its files are those it describes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from buildlib import package
from buildlib.errors import CheckError
from buildlib.package import METADATA, Metadata
from buildlib.plan import Plan
from buildlib.variant import Backend
from buildlib.workspace import Workspace


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    """A folder where artifacts are that no spec makes; `skipped` is why its variant is not built here, if known."""

    kernel: str
    folder: Path
    skipped: str | None = None

    @property
    def name(self) -> str:
        """`<kernel>:<folder>`, without what a task's name may not hold."""
        return ":".join(re.sub(r"[:=*?[\]]", "_", part) for part in (self.kernel, self.folder.name))


def find(plan: Plan, workspace: Workspace) -> Mapping[str, tuple[Foreign, ...]]:
    """The foreign folders by name; two names of folders may come to one name of a task."""
    owned = {workspace.artifact(spec) for spec in plan.specs}
    skipped = {
        workspace.variant(entry.kernel, entry.variant): entry
        for entry in plan.skipped
        if not isinstance(entry.variant, Backend)  # All of a backend, for which no variant is known.
    }
    found: dict[str, tuple[Foreign, ...]] = {}
    for kernel in _folders(workspace.build / "kernels"):
        for folder in _folders(kernel / "build"):
            if folder not in owned:
                entry = skipped.get(folder)
                foreign = Foreign(kernel=kernel.name, folder=folder, skipped=entry.reason if entry else None)
                found[foreign.name] = (*found.get(foreign.name, ()), foreign)
    return found


def check(folders: tuple[Foreign, ...], workspace: Workspace) -> str:
    """Look at foreign folders; what to say of them where all are whole and of a variant that is built elsewhere.

    Raises:
        CheckError: a folder is damaged, or nothing here accounts for it; the message holds all that was found.
    """
    found: list[str] = []
    for foreign in folders:
        shown = workspace.shown(foreign.folder)
        workspace.cache.forget(foreign.folder)
        found += (f"{shown}/{problem}" for problem in _problems(foreign.folder, workspace))
        if foreign.skipped is None:
            found.append(f"{shown}: neither this machine nor, by the plan, any other makes it; remove it")
    if found:
        raise CheckError("\n".join(found))
    return f"not built here ({folders[0].skipped}); its files are as they were built"


def _problems(folder: Path, workspace: Workspace) -> list[str]:
    """What is wrong with a folder's files, each with the path within it."""
    from buildlib.check.client import digest_problem  # noqa: PLC0415 - to be loaded with the tasks this module is light

    try:
        metadata = msgspec.json.decode((folder / METADATA).read_bytes(), type=Metadata)
    except OSError as error:
        return [f"{METADATA}: cannot be read ({error.strerror}); build the kernel again, or remove the folder"]
    except msgspec.DecodeError as error:
        return [f"{METADATA}: not as this version writes it ({error}); build the kernel again, or remove the folder"]
    problems = package.damage(folder, metadata, workspace.cache)
    if not problems and (refused := digest_problem(folder)):
        problems = [f"{METADATA}: the client does not accept the digest ({refused})"]
    return [f"{problem}; build the kernel again, or remove the folder" for problem in problems]


def _folders(parent: Path) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return sorted(parent / entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
