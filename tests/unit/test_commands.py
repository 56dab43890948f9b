"""Parts of doit's commands; the commands themselves are tested where doit may be started."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from pathlib import Path

import pytest

from buildlib import commands


def test_a_run_holds_the_lock_and_says_which_process_it_is(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with commands.alone(lock), lock.open("r+") as other:
        assert other.read() == str(os.getpid())
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_lock_is_given_back_after_a_fault(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(KeyboardInterrupt), commands.alone(lock):
        raise KeyboardInterrupt
    with commands.alone(lock):
        assert lock.read_text() == str(os.getpid())


def test_a_run_that_ends_leaves_no_number_behind(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with commands.alone(lock):
        pass
    assert lock.read_text() == ""


def test_who_holds_the_lock() -> None:
    here = "another doit in this checkout"
    # No process has a number as high as this one.
    killed = "the compilers of a doit in this checkout that was killed (process 99999999)"
    assert [commands._holder(text) for text in ("", str(os.getpid()), "99999999")] == [
        here,
        f"{here} (process {os.getpid()})",
        killed,
    ]


class _Stderr:
    """Keeps what is written, and lets another thread wait for it."""

    def __init__(self) -> None:
        self.said = ""
        self.written = threading.Event()

    def write(self, text: str) -> int:
        self.said += text
        self.written.set()
        return len(text)


def test_a_second_run_says_what_it_waits_for_and_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "lock"
    order: list[str] = []
    stderr = _Stderr()
    monkeypatch.setattr(sys, "stderr", stderr)

    def enter() -> None:
        with commands.alone(lock):
            order.append("second")

    second = threading.Thread(target=enter)
    with commands.alone(lock):
        second.start()
        # It says so before it waits.
        told = stderr.written.wait(300)
        order.append("first")
    second.join()
    assert (told, stderr.said, order) == (
        True,
        f"waiting for another doit in this checkout (process {os.getpid()}) to end\n",
        ["first", "second"],
    )
