"""What publishing did, for people and for CI."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

import msgspec

from buildlib.files import write
from buildlib.publish.plan import BranchPlan, Kind

# The first three are upstream's, and so is the meaning of the fields that stand beside them.
NO_CHANGES, UPLOADED, PULL_REQUEST = "no_changes", "uploaded", "pull_request_created"
PLANNED, REFUSED, FAILED, SKIPPED = "planned", "refused", "failed", "skipped"
_MARKS = {Kind.ADD: "+", Kind.REPLACE: "~", Kind.DELETE: "-"}
_DONE = {Kind.ADD: "added", Kind.REPLACE: "replaced", Kind.DELETE: "deleted"}
_SHOWN = 40


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request, and the branch that it is for."""

    branch: str
    url: str


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, or would be, on one branch; `size` is in bytes."""

    branch: str
    reasons: tuple[str, ...]
    added: tuple[str, ...]
    replaced: tuple[str, ...]
    deleted: tuple[str, ...]
    size: int
    commit: str | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one kernel."""

    kernel: str
    status: str
    repo_id: str | None = None
    branch: str | None = None
    url: str | None = None
    pull_requests: tuple[Opened, ...] = ()
    branches: tuple[Branch, ...] = ()
    message: str | None = None

    @property
    def is_failure(self) -> bool:
        return self.status in {REFUSED, FAILED}


def branch_of(plan: BranchPlan, commit: str | None = None) -> Branch:
    """A plan as the report tells it."""
    by_kind = {kind: tuple(change.path for change in plan.changes if change.kind is kind) for kind in Kind}
    return Branch(
        branch=plan.branch,
        reasons=plan.reasons,
        added=by_kind[Kind.ADD],
        replaced=by_kind[Kind.REPLACE],
        deleted=by_kind[Kind.DELETE],
        size=plan.size,
        commit=commit,
    )


def overall(rows: Sequence[Row]) -> str:
    """One status for all rows: the gravest, and else the one that tells of the most change."""
    for status in (FAILED, REFUSED, PULL_REQUEST, UPLOADED, PLANNED):
        if any(row.status == status for row in rows):
            return FAILED if status == REFUSED else status
    return NO_CHANGES


def write_json(path: Path, rows: Sequence[Row]) -> None:
    """Upstream's object, and in it a row for each kernel; repository, branch and address only where there is one."""
    only = rows[0] if len(rows) == 1 else None
    document = {
        "status": overall(rows),
        "repo_id": only.repo_id if only else None,
        "branch": only.branch if only else None,
        "url": only.url if only else None,
        "pull_requests": [each for row in rows for each in row.pull_requests],
        "kernels": list(rows),
    }
    write(path, msgspec.json.format(msgspec.json.encode(document)) + b"\n")


class Show:
    """The lines that a person sees."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def line(self, text: str) -> None:
        with self._lock:
            self._out.write(f"{text}\n")
            self._out.flush()

    def wait(self, seconds: float, why: str) -> None:
        """Wait, and say so where it takes long enough for someone to wonder."""
        if seconds >= 1:
            self.line(f"waiting {seconds:.0f} s; {why}")
        time.sleep(seconds)

    def plan(self, kernel: str, repo_id: str, plan: BranchPlan, *, dry_run: bool) -> None:
        """What is about to happen to one branch, and why."""
        counts = {kind: [each for each in plan.changes if each.kind is kind] for kind in Kind}
        told = ", ".join(f"{len(changes)} {_DONE[kind]}" for kind, changes in counts.items() if changes)
        verb = "would publish" if dry_run else "publishing"
        lines = [f"{verb} {kernel} to {repo_id}, branch {plan.branch}: {told}, {readable(plan.size)}"]
        lines += [f"    {reason}" for reason in plan.reasons]
        if dry_run:
            lines += [f"  {_MARKS[each.kind]} {each.path}" for each in plan.changes[:_SHOWN]]
            if len(plan.changes) > _SHOWN:
                lines.append(f"    and {len(plan.changes) - _SHOWN} more")
        self.line("\n".join(lines))

    def rows(self, rows: Iterable[Row]) -> None:
        """The table at the end."""
        for row in rows:
            self.line(f"{row.status:<20} {row.kernel}{_tail(row)}")


def readable(size: int) -> str:
    """A number of bytes: `512 bytes`, `1.5 MB`."""
    if size < 1000:  # noqa: PLR2004
        return f"{size} bytes"
    value = float(size)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 1000 or unit == "GB":  # noqa: PLR2004
            return f"{value:.1f} {unit}"
    raise AssertionError(size)


def _tail(row: Row) -> str:
    if row.message is not None:
        return f": {row.message}"
    urls = [opened.url for opened in row.pull_requests] or ([row.url] if row.url else [])
    return f"  {'  '.join(urls)}" if urls else ""
