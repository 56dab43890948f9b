"""What counts as changed between two plans, and why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buildlib import changes, rows
from buildlib.changes import Before
from buildlib.digest import PARTS
from buildlib.errors import SelectionError
from buildlib.rows import Row, Status
from buildlib.workspace import Workspace

_CPU = "torch213-cxx11-cpu-x86_64-linux"


def _row(kernel: str = "relu", variant: str | None = _CPU, **more: Any) -> Row:
    fields: dict[str, Any] = {
        "status": Status.BUILD,
        "digest": "d1",
        "parts": dict.fromkeys(PARTS, "p1"),
        "backend": "cpu" if variant else None,
        "framework": "torch" if variant else None,
        "reason": None,
    }
    return Row(**{"kernel": kernel, "variant": variant, **fields, **more})


def _edited(*parts: str) -> Row:
    return _row(digest="d2", parts={**dict.fromkeys(PARTS, "p1"), **dict.fromkeys(parts, "p2")})


def _broken(reason: str = "kernels/relu/build.toml:1: no\nmore") -> Row:
    return _row(variant=None, status=Status.ERROR, digest=None, parts={}, reason=reason)


def _skipped(variant: str = _CPU, **more: Any) -> Row:
    return _row(variant=variant, status=Status.SKIP, digest=None, parts={}, reason="no toolchain", **more)


def _changed(before: list[Row], now: list[Row]) -> list[tuple[str, str, str | None, tuple[str, ...]]]:
    found = changes.changed(Before(since="main", rows=tuple(before)), now)
    return [(row.name, row.status.value, row.reason, row.changed) for row in found]


def test_the_same_digest_is_no_change() -> None:
    assert _changed([_row()], [_row()]) == []


@pytest.mark.parametrize("part", PARTS)
def test_the_part_that_differs_is_the_reason(part: str) -> None:
    assert _changed([_row()], [_edited(part)]) == [
        (f"relu:{_CPU}", "build", f"changed since main: {part}", (part,)),
    ]


def test_all_parts_that_differ_are_named() -> None:
    ((_, _, reason, parts),) = _changed([_row()], [_edited("toolchain", "sources")])
    assert (reason, parts) == ("changed since main: sources, toolchain", ("sources", "toolchain"))


def test_a_new_kernel_and_a_new_variant_are_told_apart() -> None:
    found = _changed([_row("relu")], [_row("relu"), _row("relu", "torch-cpu"), _row("gelu")])
    assert [(name, reason) for name, _, reason, _ in found] == [
        ("relu:torch-cpu", "new variant since main"),
        (f"gelu:{_CPU}", "new kernel since main"),
    ]


def test_what_did_not_parse_counts_as_changed() -> None:
    assert _changed([_broken()], [_row()]) == [
        (f"relu:{_CPU}", "build", "cannot be compared: in main, kernels/relu/build.toml:1: no", ("build.toml",)),
    ]


def test_what_was_not_built_before_counts_as_changed() -> None:
    ((_, _, reason, _),) = _changed([_skipped()], [_row()])
    assert reason == "not built in main: no toolchain"


def test_what_this_machine_does_not_build_cannot_be_compared() -> None:
    assert _changed([_row()], [_skipped()]) == []


def test_a_kernel_that_breaks_is_reported_and_not_taken_for_deleted() -> None:
    assert [(name, status) for name, status, _, _ in _changed([_row()], [_broken()])] == [("relu", "error")]


def test_a_kernel_that_is_as_broken_as_before_is_no_change() -> None:
    assert _changed([_broken()], [_broken()]) == []
    assert len(_changed([_broken("else")], [_broken()])) == 1


def test_a_deleted_kernel_is_reported_also_where_it_was_never_built() -> None:
    found = _changed([_row("gone"), _skipped("torch-cuda", kernel="gone"), _row()], [_row()])
    assert [(name, status, reason) for name, status, reason, _ in found] == [
        (f"gone:{_CPU}", "deleted", "kernel deleted since main"),
        ("gone:torch-cuda", "deleted", "kernel deleted since main"),
    ]


def test_a_variant_that_is_dropped_is_reported() -> None:
    ((name, status, reason, _),) = _changed([_row(), _row(variant="torch-cpu")], [_row()])
    assert (name, status, reason) == ("relu:torch-cpu", "deleted", "variant dropped since main")


def test_without_a_plan_to_compare_with_everything_counts() -> None:
    found = changes.changed(Before(since="main", trouble="cannot be compared: no"), [_row(), _skipped("torch-cuda")])
    assert [(row.name, row.reason) for row in found] == [(f"relu:{_CPU}", "cannot be compared: no")]


@pytest.mark.parametrize("nothing", ["", "0" * 40])
def test_nothing_to_compare_with(workspace: Workspace, nothing: str) -> None:
    assert changes.before(nothing, workspace, portable=True) is None


def test_rows_of_an_earlier_run(workspace: Workspace) -> None:
    file = workspace.root / "matrix.json"
    file.write_bytes(rows.encode([_row()]))
    found = changes.before(str(file), workspace, portable=True)
    assert found == Before(since=str(file), rows=(_row(),))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read (No such file or directory); write it with 'doit matrix'"),
        (b"{}", "not the rows of 'doit matrix'"),
        (b'[{"kernel": 1}]', "not the rows of 'doit matrix'"),
        (b'{"include": []}', "not the rows of 'doit matrix'"),
        (b"\xff", "not the rows of 'doit matrix'"),
    ],
)
def test_a_file_that_is_no_matrix(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "matrix.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SelectionError, match=re.escape(message)):
        rows.read(file)


def test_rows_can_be_read_back(tmp_path: Path) -> None:
    written = [_row(), _skipped(), _broken(), msgspec.structs.replace(_edited("sources"), shard=2, cost=1.5)]
    (tmp_path / "rows.json").write_bytes(rows.encode(written))
    assert rows.read(tmp_path / "rows.json") == written
