"""Where kernels are looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buildlib.discover import discover

from .factories import write_files


def _found(root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in discover(root)]


def test_kernels_are_sorted_by_folder(tmp_path: Path) -> None:
    write_files(tmp_path, {f"kernels/{name}/build.toml": "" for name in ("relu", "Zeta", "gelu", "a b", "é")})
    assert _found(tmp_path) == [f"kernels/{name}/build.toml" for name in ("Zeta", "a b", "gelu", "relu", "é")]


def test_only_folders_directly_below_kernels_count(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"build.toml": "", "kernels/build.toml": "", "kernels/a/build.toml": "", "other/build.toml": ""}
    )
    write_files(tmp_path, {"kernels/a/nested/build.toml": ""})
    assert _found(tmp_path) == ["kernels/a/build.toml"]


def test_a_folder_without_build_toml_is_found_so_that_loading_can_say_so(tmp_path: Path) -> None:
    write_files(tmp_path, {"kernels/relu/csrc/relu.cpp": ""})
    assert _found(tmp_path) == ["kernels/relu/build.toml"]


@pytest.mark.parametrize("leftover", ["__pycache__/a.pyc", "tests/__pycache__/a.pyc", ".ruff_cache/CACHEDIR.TAG"])
def test_what_tools_leave_of_a_deleted_kernel_is_no_kernel(tmp_path: Path, leftover: str) -> None:
    write_files(tmp_path, {f"kernels/gone/{leftover}": ""})
    assert _found(tmp_path) == []


@pytest.mark.parametrize("folder", ["kernels/.hidden", "kernels/__pycache__"])
def test_hidden_folders_are_no_kernels(tmp_path: Path, folder: str) -> None:
    write_files(tmp_path, {f"{folder}/build.toml": ""})
    assert _found(tmp_path) == []


def test_a_build_toml_that_leads_nowhere_and_a_closed_folder_are_found_so_that_loading_can_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"kernels/closed/build.toml": "", "kernels/loop/a.cpp": ""})
    (tmp_path / "kernels/loop/build.toml").symlink_to("build.toml")
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "closed")
    assert _found(tmp_path) == ["kernels/closed/build.toml", "kernels/loop/build.toml"]


def test_an_empty_folder_is_no_kernel(tmp_path: Path) -> None:
    (tmp_path / "kernels" / "empty").mkdir(parents=True)
    assert _found(tmp_path) == []


def test_a_linked_folder_is_a_kernel(tmp_path: Path) -> None:
    elsewhere = write_files(tmp_path / "elsewhere", {"build.toml": ""})
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "linked").symlink_to(elsewhere, target_is_directory=True)
    assert _found(tmp_path) == ["kernels/linked/build.toml"]


def test_a_checkout_without_kernels_has_none(tmp_path: Path) -> None:
    assert discover(tmp_path) == ()


@pytest.mark.parametrize("name", ["_rust", "_shared", ".hidden"])
def test_what_kernels_share_is_no_kernel(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {f"kernels/{name}/common/Cargo.toml": "", f"kernels/{name}/build.toml": ""})
    assert _found(tmp_path) == []
