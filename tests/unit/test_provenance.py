"""The commit that an artifact names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from buildlib import process, provenance
from buildlib.provenance import Provenance

_FOLDER = Path("/checkout/kernels/relu")
_COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("log", "status", "expected"),
    [
        (f"{_COMMIT}\n", "", Provenance(commit=_COMMIT, dirty=False)),
        (f"{_COMMIT}\n", " M csrc/relu.cpp\n", Provenance(commit=_COMMIT, dirty=True)),
        (f"{_COMMIT}\n", "?? new.cpp\n", Provenance(commit=_COMMIT, dirty=True)),
        ("", "?? ./\n", None),
        (None, None, None),
        (f"{_COMMIT}\n", None, None),
    ],
    ids=["clean", "edited", "a new file", "never committed", "no git", "git fails"],
)
def test_provenance(
    monkeypatch: pytest.MonkeyPatch, log: str | None, status: str | None, expected: Provenance | None
) -> None:
    monkeypatch.setattr(process, "output", lambda argv, **_: {"log": log, "status": status}[argv[1]])
    assert provenance.of(_FOLDER, {}) == expected


def test_only_the_kernels_folder_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[str], object]] = []

    def output(argv: Sequence[str], *, env: object, cwd: object) -> str:
        asked.append((list(argv[-2:]), cwd))
        return ""

    monkeypatch.setattr(process, "output", output)
    provenance.of(_FOLDER, {})
    assert asked == [(["--", "."], _FOLDER)] * 2


@pytest.mark.parametrize(
    ("status", "prefix", "names"),
    [
        ("", "kernels/\n", frozenset()),
        (" M kernels/relu/csrc/relu.cpp\0", "kernels/\n", frozenset({"relu"})),
        ("?? kernels/a b/größe.h\0 D kernels/relu/x\0", "kernels/\n", frozenset({"a b", "relu"})),
        (" M more/kernels/relu/x\0", "more/kernels/\n", frozenset({"relu"})),
        (None, "kernels/\n", None),
        ("", None, None),
    ],
    ids=["clean", "edited", "new and deleted", "a deeper checkout", "git fails", "no git"],
)
def test_changed_kernels(
    monkeypatch: pytest.MonkeyPatch, status: str | None, prefix: str | None, names: frozenset[str] | None
) -> None:
    monkeypatch.setattr(process, "output", lambda argv, **_: {"status": status, "rev-parse": prefix}[argv[1]])
    assert provenance.changed(_FOLDER.parent, {}) == names


def test_folders_that_a_kernel_shares_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(process, "output", lambda argv, **_: asked.append(list(argv)))
    provenance.of(_FOLDER, {}, ["../_rust/common"])
    assert [argv[-3:] for argv in asked] == [["--", ".", "../_rust/common"]] * 2
