"""How long builds took, kept between runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildlib.times import Times


def test_times_are_kept(tmp_path: Path) -> None:
    times = Times(tmp_path / "build" / "times.json")
    times.record("relu:torch-cpu", 1.234)
    times.record("gelu:torch-cpu", 2)
    times.save()
    assert Times(tmp_path / "build" / "times.json").seconds == {"gelu:torch-cpu": 2, "relu:torch-cpu": 1.23}


def test_nothing_new_writes_nothing(tmp_path: Path) -> None:
    Times(tmp_path / "times.json").save()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a": "b"}'])
def test_a_damaged_record_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "times.json").write_bytes(content)
    assert Times(tmp_path / "times.json").seconds == {}
