"""toolchains/variants.toml, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildlib import matrix
from buildlib.errors import ToolchainError
from buildlib.matrix import Matrix
from buildlib.variant import Backend, Platform, Version

from .factories import row, write_files

_FILE = Path(__file__).parents[2] / "toolchains" / "variants.toml"


def test_rows_are_in_the_order_of_the_file_and_then_of_the_platforms(tmp_path: Path) -> None:
    text = """
        [[torch]]
        version = "2.13"
        aarch64-darwin = ["metal"]
        x86_64-linux = ["cu130", "cpu"]
        [[torch]]
        version = "2.12"
        aarch64-linux = ["cpu"]
        [[tvm-ffi]]
        version = "0.1"
        x86_64-linux = ["cpu"]
    """
    file = write_files(tmp_path, {"variants.toml": text}) / "variants.toml"
    assert matrix.load(file) == Matrix(
        torch=(
            row("2.13", "cu130"),
            row("2.13", "cpu"),
            row("2.13", "metal", Platform.AARCH64_DARWIN),
            row("2.12", "cpu", Platform.AARCH64_LINUX),
        ),
        tvm_ffi=(row("0.1", "cpu"),),
    )


def test_an_empty_file_is_an_empty_matrix(tmp_path: Path) -> None:
    file = write_files(tmp_path, {"variants.toml": ""}) / "variants.toml"
    assert matrix.load(file) == Matrix()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[torch]", "Expected"),
        ('[[torch]]\nversion = "two"\nx86_64-linux = ["cpu"]', "'two' is not a version"),
        ('[[torch]]\nversion = "2.13"\nx86_64-linux = ["cuda"]', "'cuda' lacks a version"),
        ('[[torch]]\nversion = "2.13"\nx86_64-linux = ["gpu"]', "'gpu' is not a valid Backend"),
        ('[[torch]]\nversion = "2.13"\nriscv-linux = ["cpu"]', "unknown field `riscv-linux`"),
        ('[[jax]]\nversion = "1.0"', "unknown field `jax`"),
        ('[[torch]]\nx86_64-linux = ["cpu"]', "required field `version`"),
        ("[[torch]]\nversion = 2.13", "Expected `str`"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    file = write_files(tmp_path, {"variants.toml": text}) / "variants.toml"
    with pytest.raises(ToolchainError) as caught:
        matrix.load(file)
    said = str(caught.value)
    assert said.startswith(f"{file}: ")
    assert message in said
    assert said.endswith("; the comment at its top gives the format")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "variants.toml"
    with pytest.raises(ToolchainError) as caught:
        matrix.load(file)
    message = f"{file}: cannot be read (No such file or directory); restore it from version control"
    assert str(caught.value) == message


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = write_files(tmp_path, {"variants.toml": b"\xff"}) / "variants.toml"
    with pytest.raises(ToolchainError, match=r"variants\.toml: 'utf-8' codec"):
        matrix.load(file)


def test_the_repository_has_no_row_twice() -> None:
    rows = matrix.load(_FILE)
    assert [len(set(part)) for part in (rows.torch, rows.tvm_ffi)] == [len(rows.torch), len(rows.tvm_ffi)]


def test_the_repository_keeps_the_two_newest_torch_releases_for_each_backend() -> None:
    releases: dict[tuple[Platform, Backend], set[Version]] = {}
    for each in matrix.load(_FILE).torch:
        releases.setdefault((each.platform, each.compute.backend), set()).add(each.version)
    assert {len(versions) for versions in releases.values()} == {2}
