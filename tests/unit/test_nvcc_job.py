"""nvcc takes as many jobs of the budget as it takes memory."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from buildlib import nvcc_job
from buildlib.jobs import JobServer

_GB = 1_000_000_000


def _free(server: JobServer) -> int:
    fifo = os.open(server.environ()["KERNELYARD_JOBS"].split(" ", 2)[2], os.O_RDWR | os.O_NONBLOCK)
    try:
        tokens = os.read(fifo, 100)
        os.write(fifo, tokens)
        return len(tokens)
    except BlockingIOError:
        return 0
    finally:
        os.close(fifo)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    made: list[list[str]] = []

    def call(argv: list[str]) -> int:
        made.append(argv)
        return 3

    monkeypatch.setattr(subprocess, "call", call)
    return made


@pytest.mark.parametrize(
    ("total", "memory", "wanted", "archs", "threads", "while_it_runs"),
    [
        # A share of the memory is enough: one job for each capability at a time, as far as jobs are free.
        (4, 16 * _GB, 1 * _GB, 1, 1, 3),
        (4, 16 * _GB, 1 * _GB, 2, 2, 2),
        (4, 16 * _GB, 1 * _GB, 9, 4, 0),
        # Two shares each.
        (4, 8 * _GB, 3 * _GB, 9, 2, 0),
        (4, 8 * _GB, 3 * _GB, 1, 1, 2),
        # A machine that has less than it takes does one thing at a time.
        (2, 3 * _GB, 9 * _GB, 9, 1, 0),
        (1, 2 * _GB, 9 * _GB, 9, 1, 0),
    ],
)
def test_jobs_and_threads(
    monkeypatch: pytest.MonkeyPatch,
    total: int,
    memory: int,
    wanted: int,
    archs: int,
    threads: int,
    while_it_runs: int,
) -> None:
    server = JobServer(total, memory)
    seen = []

    def call(argv: list[str]) -> int:
        seen.append((argv, _free(server)))
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    with server.slot():  # What ninja has taken.
        assert nvcc_job.main([str(wanted), str(archs), "nvcc", "-c"], server.environ()) == 0
        assert _free(server) == total - 1
    assert seen == [(["nvcc", "-c", f"--threads={threads}"], while_it_runs)]
    server.close()


def test_the_exit_status_is_nvccs(calls: list[list[str]]) -> None:
    assert nvcc_job.main(["1", "1", "nvcc"], {}) == 3
    assert calls == [["nvcc"]]


def test_two_that_need_the_whole_machine_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    server = JobServer(2, 2 * _GB)
    running, most = 0, 0
    lock = threading.Lock()

    def call(_: object) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.05)
        with lock:
            running -= 1
        return 0

    monkeypatch.setattr(subprocess, "call", call)

    def job() -> None:
        with server.slot():
            nvcc_job.main([str(2 * _GB), "1", "nvcc"], server.environ())

    threads = [threading.Thread(target=job) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (most, _free(server)) == (1, 2)
    server.close()


def test_tokens_come_back_when_nvcc_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    server = JobServer(4, 4 * _GB)

    def call(_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "call", call)
    with server.slot():
        with pytest.raises(FileNotFoundError):
            nvcc_job.main([str(2 * _GB), "1", "nvcc"], server.environ())
        assert _free(server) == 3
    server.close()
