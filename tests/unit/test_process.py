"""What is said of programs; that they run is tested where processes may be started."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildlib import process
from buildlib.process import Interrupted, Processes


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exit status 0"),
        (2, "exit status 2"),
        (-11, "killed by SIGSEGV"),
        (-9, "killed by SIGKILL"),
        (-99, "killed by signal 99"),
    ],
)
def test_describe(status: int, words: str) -> None:
    assert process.describe(status) == words


def test_nothing_starts_once_a_run_is_stopped(tmp_path: Path) -> None:
    processes = Processes()
    processes.stop()
    with pytest.raises(Interrupted):
        processes.run(["true"], cwd=tmp_path, env={}, log=tmp_path / "log")
