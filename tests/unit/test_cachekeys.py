"""What CI keeps between runs, and under which keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from buildlib import cachekeys
from buildlib.environment import Settings
from buildlib.rows import Row, Status

from .factories import write_files


def _row(toolchain: str = "gcc", digest: str = "d1") -> Row:
    return Row(
        kernel="relu",
        variant="torch-cpu",
        backend="cpu",
        framework="torch",
        status=Status.BUILD,
        reason=None,
        digest=digest,
        parts={"toolchain": toolchain},
    )


def _keys(root: Path, *, toolchain: str = "gcc", digest: str = "d1", commit: str = "c1") -> dict[str, str]:
    settings = Settings(cache=Path("/cache"), cargo_home=Path("/cargo"))
    found = cachekeys.caches(root, settings, [_row(toolchain, digest)], platform="x86_64-linux", commit=commit)
    assert all(cache.key.startswith(cache.restore) and cache.paths for cache in found)
    return {cache.name: cache.key for cache in found}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path, {"toolchains/cuda.toml": "a", "kernels/relu/Cargo.lock": "a"})


def _edit(root: Path, path: str) -> None:
    (root / path).write_text("b")


@pytest.mark.parametrize(
    ("edit", "more", "differ"),
    [
        (None, {}, set()),
        ("toolchains/cuda.toml", {}, {"toolchains"}),
        ("kernels/relu/Cargo.lock", {}, {"cargo"}),
        (None, {"digest": "d2"}, {"objects"}),
        (None, {"toolchain": "clang"}, {"objects"}),
        (None, {"commit": "c2"}, {"published"}),
    ],
)
def test_a_key_changes_with_what_is_kept(root: Path, edit: str | None, more: dict[str, Any], differ: set[str]) -> None:
    before = _keys(root)
    if edit:
        _edit(root, edit)
    after = _keys(root, **more)
    assert {name for name in before if before[name] != after[name]} == differ


def test_objects_of_another_checkout_are_of_no_use(root: Path, tmp_path: Path) -> None:
    moved = write_files(tmp_path / "moved", {"toolchains/cuda.toml": "a", "kernels/relu/Cargo.lock": "a"})
    assert {name for name in _keys(root) if _keys(root)[name] != _keys(moved)[name]} == {"objects"}


def test_outputs_of_a_step(root: Path) -> None:
    cache = cachekeys.Cache(name="cargo", paths=("/a b", "/c"), key="cargo-1", restore="cargo-")
    assert cachekeys.outputs([cache]) == (
        "cargo-key=cargo-1\ncargo-restore=cargo-\ncargo-paths<<end-of-paths\n/a b\n/c\nend-of-paths\n"
    )
