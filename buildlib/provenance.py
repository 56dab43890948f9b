"""Which commit an artifact's sources come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from buildlib import process


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """The last commit that touched a kernel's folder, and whether the folder differs from it.

    Only the folder counts, and those of crates that it shares with other kernels: a commit or an edit elsewhere in the
    repository says nothing about this kernel.
    """

    commit: str
    dirty: bool


def changed(folder: Path, env: Mapping[str, str]) -> frozenset[str] | None:
    """The names in `folder` below which something differs from the last commit, or None outside of git."""
    argv = ["git", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", "."]
    status = process.output(argv, cwd=folder, env=env)
    prefix = process.output(["git", "rev-parse", "--show-prefix"], cwd=folder, env=env)
    if status is None or prefix is None:
        return None
    paths = (entry[3:] for entry in status.split("\0") if entry)
    return frozenset(path.removeprefix(prefix.rstrip("\n")).partition("/")[0] for path in paths)


def of(folder: Path, env: Mapping[str, str], beside: Sequence[str] = ()) -> Provenance | None:
    """The provenance of a kernel's folder, or None outside of git and before the first commit of the folder.

    `beside` are other folders that the kernel is made of, relative to its own.
    """
    commit = process.output(["git", "log", "-1", "--format=%H", "--", ".", *beside], cwd=folder, env=env)
    status = process.output(["git", "status", "--porcelain", "--", ".", *beside], cwd=folder, env=env)
    if not commit or status is None:
        return None
    return Provenance(commit=commit.strip(), dirty=bool(status.strip()))


def uncommitted(folder: Path, env: Mapping[str, str]) -> tuple[str, ...] | None:
    """The files below a folder that differ from the last commit, relative to it and sorted; None outside of git."""
    prefix = process.output(["git", "rev-parse", "--show-prefix"], cwd=folder, env=env)
    status = process.output(["git", "status", "--porcelain", "-z", "--untracked-files=all", "."], cwd=folder, env=env)
    if prefix is None or status is None:
        return None
    entries = iter(status.split("\0"))
    paths = set()
    for entry in entries:
        if entry:
            paths.add(entry[3:])
        if entry[:1] in {"R", "C"}:
            # The name before follows as an entry of its own.
            paths.add(next(entries))
    return tuple(sorted(path.removeprefix(prefix.strip()) for path in paths))
