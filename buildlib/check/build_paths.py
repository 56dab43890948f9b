"""Paths of the machine that built an artifact: they change its bytes from one checkout to the next, and name people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from buildlib.check.elf import Library
from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.subject import Subject
from buildlib.workspace import Workspace

_CHECK = "build-paths"
# A file below somebody's home folder.
_HOME = re.compile(rb"/(?:home|Users)/[\w.-]+/[\x21-\x7e]*|/root/[\x21-\x7e]+")


def check(subject: Subject, workspace: Workspace) -> Iterator[Outcome]:
    """Yield a finding for each library in which the checkout, the cache, or anybody's home folder is spelled."""
    if not subject.libraries:
        yield NotChecked(check=_CHECK, reason="no compiled library")
    folders = (workspace.root, workspace.settings.cache, Path.home())
    for library in subject.libraries:
        if found := first(library, folders):
            message = f"contains the path {found}; do not spell it, or shorten it with -ffile-prefix-map"
            yield Finding(check=_CHECK, where=library.path, message=message)


def first(library: Library, folders: Iterable[Path]) -> str | None:
    """The first path in a library that is below one of the folders, or in a home folder."""
    # A folder such as / or /tmp says nothing about who built, and occurs in system libraries' own texts.
    longer = [re.escape(str(folder).encode()) for folder in folders if len(folder.parts) > 2]  # noqa: PLR2004
    named = re.compile(rb"(?:" + b"|".join(longer) + rb")(?=/)[\x21-\x7e]*") if longer else _HOME
    match = named.search(library.content) or _HOME.search(library.content)
    return match[0].decode() if match else None
