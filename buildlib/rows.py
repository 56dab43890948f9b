"""The plan as rows: what `doit matrix` prints, what another job reads, and what two commits are compared by."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from buildlib import plan as planning
from buildlib import variant as variants
from buildlib.errors import SelectionError
from buildlib.plan import BuildSpec, Entry, Failed, Plan, Skipped
from buildlib.selection import select
from buildlib.sources import Sources
from buildlib.variant import Backend


class Status(enum.StrEnum):
    """What is to be done about a row; `deleted` appears only where two plans are compared."""

    BUILD = "build"
    SKIP = "skip"
    ERROR = "error"
    DELETED = "deleted"


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kernel × variant; `variant` is None for a kernel that cannot be planned at all, and for a backend
    that has no variant.

    `parts` tells what the digest is made of (`digest.PARTS`). `changed` names those parts that differ, where the row is
    the outcome of a comparison; `shard` and `cost`, in seconds, are there where the rows were split.
    """

    kernel: str
    variant: str | None
    backend: str | None
    framework: str | None
    status: Status
    reason: str | None
    digest: str | None
    notes: tuple[str, ...] = ()
    parts: dict[str, str] = {}
    changed: tuple[str, ...] = ()
    shard: int | None = None
    cost: float | None = None

    @property
    def name(self) -> str:
        """`<kernel>:<variant>`, the second half of the row's task names; without a variant as in `plan.name`."""
        last = self.variant or self.backend
        return self.kernel if last is None else f"{self.kernel}:{last}"


def rows(plan: Plan, sources: Sources) -> list[Row]:
    """A row for each entry of a plan, sorted by name."""
    return [_row(entry, sources) for entry in sorted(plan.entries, key=planning.name)]


def matching(patterns: Sequence[str], among: Sequence[Row]) -> list[Row]:
    """The rows that a user's words name: a kernel, a kernel:variant or a wildcard each; all where there are none.

    Raises:
        SelectionError: a pattern selects nothing.
    """
    if not patterns:
        return list(among)
    chosen = set(select(patterns, sorted({row.kernel for row in among} | {row.name for row in among})))
    return [row for row in among if row.name in chosen or row.kernel in chosen]


def read(path: Path) -> list[Row]:
    """The rows in a file that `doit matrix` wrote.

    Raises:
        SelectionError: there is no such file, or it holds something else.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Row])
    except OSError as error:
        raise SelectionError(f"{path}: cannot be read ({error.strerror}); write it with 'doit matrix'") from None
    except msgspec.DecodeError as error:
        raise SelectionError(
            f"{path}: not the rows of 'doit matrix' ({error}); write it anew with 'doit matrix --output {path}'"
        ) from None


def encode(wanted: Iterable[Row]) -> bytes:
    """The rows as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(list(wanted))) + b"\n"


def _row(entry: Entry, sources: Sources) -> Row:
    # A backend that has no variant at all stands in the plan by itself.
    variant = None if isinstance(entry.variant, Backend) else entry.variant
    alone = entry.variant if isinstance(entry.variant, Backend) else None
    status, reason, digest, parts = Status.BUILD, None, None, {}
    match entry:
        case BuildSpec():
            digest, parts = sources.digest(entry), sources.parts(entry)
        case Skipped():
            status, reason = Status.SKIP, entry.reason
        case Failed():
            status, reason = Status.ERROR, entry.message
    return Row(
        kernel=entry.kernel.key if isinstance(entry, BuildSpec) else entry.kernel,
        variant=variants.name(variant) if variant else None,
        backend=variants.backend(variant) if variant else alone,
        framework=variants.framework(variant) if variant else None,
        status=status,
        reason=reason,
        digest=digest,
        notes=entry.notes if isinstance(entry, BuildSpec) else (),
        parts=parts,
    )
