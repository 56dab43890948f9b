from __future__ import annotations

import os
import time
from pathlib import Path

from buildlib.rust import cubins

_KEY = "ab" * 16


def _files(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*.cubin"))


def test_what_was_kept_is_taken(tmp_path: Path) -> None:
    assert cubins.take(tmp_path, _KEY) is None
    cubins.keep(tmp_path, _KEY, b"machine code")
    assert cubins.take(tmp_path, _KEY) == b"machine code"
    assert cubins.take(tmp_path, _KEY[::-1]) is None


def test_what_is_damaged_is_not_taken(tmp_path: Path) -> None:
    cubins.keep(tmp_path, _KEY, b"machine code")
    (kept,) = _files(tmp_path)
    kept.write_bytes(b"machine")
    assert cubins.take(tmp_path, _KEY) is None
    assert _files(tmp_path) == []


def test_what_nobody_uses_is_removed(tmp_path: Path) -> None:
    other = _KEY[:-1] + "c"
    cubins.keep(tmp_path, _KEY, b"old")
    (kept,) = _files(tmp_path)
    long_ago = time.time() - 31 * 24 * 3600
    os.utime(kept, (long_ago, long_ago))
    assert cubins.take(tmp_path, _KEY) == b"old"
    cubins.keep(tmp_path, other, b"new")
    assert len(_files(tmp_path)) == 2
    os.utime(kept, (long_ago, long_ago))
    cubins.keep(tmp_path, other, b"new")
    assert cubins.take(tmp_path, _KEY) is None


def test_a_cache_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "cubins").write_text("in the way")
    cubins.keep(tmp_path, _KEY, b"machine code")
    assert cubins.take(tmp_path, _KEY) is None
