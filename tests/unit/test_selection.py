"""The words of the command line."""

from __future__ import annotations

import pytest

from buildlib.errors import SelectionError
from buildlib.selection import narrow, select

_NAMES = (
    "build",
    "build:relu",
    "build:relu:torch-cpu",
    "build:relu:torch-cuda",
    "build:gelu:torch-cpu",
    "check:relu",
    "test:unit",
)


@pytest.mark.parametrize(
    ("patterns", "selected"),
    [
        ([], []),
        (["build:relu"], ["build:relu"]),
        (["build:*"], ["build:relu", "build:relu:torch-cpu", "build:relu:torch-cuda", "build:gelu:torch-cpu"]),
        (["*-cuda"], ["build:relu:torch-cuda"]),
        (["*:?elu:*-cpu"], ["build:relu:torch-cpu", "build:gelu:torch-cpu"]),
        (["*:[g]elu:*"], ["build:gelu:torch-cpu"]),
        # The order is that of the patterns, and a name that two of them select comes once.
        (["test:unit", "*relu", "build:relu"], ["test:unit", "build:relu", "check:relu"]),
    ],
)
def test_select(patterns: list[str], selected: list[str]) -> None:
    assert select(patterns, _NAMES) == selected


def test_a_name_with_wildcards_in_it_selects_itself_alone() -> None:
    assert select(["build:a[0]"], ["build:a[0]", "build:a0"]) == ["build:a[0]"]


def test_wildcards_tell_upper_from_lower_case() -> None:
    assert select(["build:R*"], ["build:relu", "build:Relu"]) == ["build:Relu"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("build:rleu", "build:rleu: selects nothing; did you mean build:relu, build, build:relu:torch-cpu?"),
        ("relu", "relu: selects nothing; did you mean build:relu, check:relu?"),
        ("buidl:*", "buidl:*: selects nothing; did you mean build, build:relu?"),
        ("torch-cuda", "torch-cuda: selects nothing; did you mean build:relu:torch-cuda?"),
        ("qqq", "qqq: selects nothing; 'doit list --all' shows all names"),
        ("*qqq*", "*qqq*: selects nothing; 'doit list --all' shows all names"),
        ("", ": selects nothing; 'doit list --all' shows all names"),
    ],
)
def test_a_pattern_that_selects_nothing_is_an_error_with_what_is_close(pattern: str, message: str) -> None:
    with pytest.raises(SelectionError) as caught:
        select(["build", pattern], _NAMES)
    assert str(caught.value) == message


def test_a_word_inside_of_long_names_finds_at_most_three() -> None:
    names = [f"build:flash-attention-{number}" for number in range(9)]
    with pytest.raises(SelectionError, match=r"did you mean (?:build:flash-attention-\d(?:, )?){3}\?$"):
        select(["attention"], names)


# --- the tasks of rows ---

_TASKS = frozenset(
    f"{stage}{name}"
    for stage in ("build", "check", "test")
    for name in ("", ":relu", ":relu:cpu", ":relu:cuda", ":gelu", ":gelu:cpu")
) | {"build:bad", "test:unit", "lint"}
_RELU, _GELU, _BAD = ("relu", "relu:cpu"), ("gelu", "gelu:cpu"), ("bad", "bad")


@pytest.mark.parametrize(
    ("selected", "rows", "tasks"),
    [
        (["build"], [_RELU], ["build:relu:cpu"]),
        (["check", "test"], [_RELU, _GELU], ["check:relu:cpu", "check:gelu:cpu", "test:relu:cpu", "test:gelu:cpu"]),
        (["test:relu"], [_RELU, _GELU], ["test:relu:cpu"]),
        (["build:relu:cuda"], [_RELU], []),
        (["build:relu:cpu"], [_RELU], ["build:relu:cpu"]),
        (["build", "build:relu"], [_RELU], ["build:relu:cpu"]),
        (["test"], [_BAD], ["build:bad"]),
        (["test"], [("gone", "gone:cpu")], []),
        (["test"], [], []),
        (["lint", "test:unit", "test"], [_RELU], ["lint", "test:unit", "test:relu:cpu"]),
    ],
)
def test_tasks_of_rows(selected: list[str], rows: list[tuple[str, str]], tasks: list[str]) -> None:
    assert narrow(selected, rows, _TASKS) == tasks
