"""The rows that a command's options select: what changed since a commit, or what is in a file of another job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from buildlib import changes, rows, travel
from buildlib.errors import SelectionError
from buildlib.plan import Plan
from buildlib.rows import Row, Status
from buildlib.workspace import Workspace

# How many problems of one kind a message lists.
_SHOWN = 10


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`--changed-since`, `--rows` and `--shard`, as they were given."""

    since: str | None = None
    file: str | None = None
    shard: int | None = None


def chosen(options: Options, plan: Plan, workspace: Workspace, *, built: bool, portable: bool) -> list[Row] | None:
    """The rows that the options select, or None where they select nothing in particular, and so everything.

    `built` says that the rows' artifacts must be there already, `portable` what they are planned for.

    Raises:
        SelectionError: the commit or the file is not there, or the file is of other sources than this checkout.
    """
    if options.file is None:
        if options.shard is not None:
            raise SelectionError("--shard: which rows? add --rows with the file that 'doit matrix' wrote")
        earlier = None if options.since is None else changes.before(options.since, workspace, portable=portable)
        return None if earlier is None else changes.changed(earlier, rows.rows(plan, workspace.sources))
    if options.since is not None:
        raise SelectionError("--changed-since and --rows: both select rows; give one of the two")
    found = in_shard(options)
    if problems := list(_strangers(found, plan, workspace, built=built)):
        more = f"\n(and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
        raise SelectionError(f"{options.file}: not of this checkout:\n" + "\n".join(problems[:_SHOWN]) + more)
    return found


def in_shard(options: Options) -> list[Row]:
    """The rows in the file, those of the shard where one is given.

    Raises:
        SelectionError: the file is not there, or holds something else.
    """
    assert options.file is not None
    return [row for row in rows.read(Path(options.file)) if options.shard is None or row.shard == options.shard]


def _strangers(found: list[Row], plan: Plan, workspace: Workspace, *, built: bool) -> Iterator[str]:
    """Why rows are not of this checkout, or why their artifacts are not there where they should be."""
    specs = {spec.name: spec for spec in plan.specs}
    for row in found:
        if row.status is not Status.BUILD:
            continue
        if built:
            if problem := travel.mismatch(row, workspace):
                yield problem
        elif row.name not in specs:
            yield f"{row.name}: is not built on this machine; 'doit matrix {row.name}' says why"
        elif workspace.digest(specs[row.name]) != row.digest:
            yield f"{row.name}: has other sources or another toolchain here; make the file anew with 'doit matrix'"
