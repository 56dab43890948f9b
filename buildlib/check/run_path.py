"""RPATH and RUNPATH: folders of the machine that built an artifact, in which another machine has who knows what."""

from __future__ import annotations

from collections.abc import Iterator

from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.subject import Subject

_CHECK = "run-path"


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield a finding for each library that brings folders of its own to search."""
    if not subject.libraries:
        yield NotChecked(check=_CHECK, reason="no compiled library")
    for library in subject.libraries:
        for folders in library.run_paths:
            message = f"makes the loader search {folders}; drop -rpath from what it is linked with"
            yield Finding(check=_CHECK, where=library.path, message=message)
