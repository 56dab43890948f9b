"""The one budget of parallel jobs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from buildlib import cgroup, jobs
from buildlib.environment import Settings
from buildlib.jobs import JobServer, budget

from .factories import write_files

_SETTINGS = Settings(cache=Path("/cache"))
_GB = 1_000_000_000


@pytest.fixture
def server() -> Iterator[JobServer]:
    """A budget of two."""
    opened = JobServer(2)
    yield opened
    opened.close()


@pytest.fixture
def eight_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def _machine(monkeypatch: pytest.MonkeyPatch, *, memory: int | None, quota: float | None = None) -> None:
    monkeypatch.setattr(jobs, "_free_memory", lambda: memory)
    monkeypatch.setattr(cgroup, "cpus", lambda: quota)


def _fifo(server: JobServer) -> str:
    return server.environ()["MAKEFLAGS"].rpartition("fifo:")[2]


def _free(server: JobServer) -> int:
    """The jobs that nobody holds, counted as a client would take them, and given back."""
    fifo = os.open(_fifo(server), os.O_RDWR | os.O_NONBLOCK)
    try:
        tokens = os.read(fifo, 100)
    except BlockingIOError:
        return 0
    else:
        os.write(fifo, tokens)
        return len(tokens)
    finally:
        os.close(fifo)


# --- the budget ---


def test_max_jobs_decides(eight_cpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(monkeypatch, memory=_GB, quota=1)
    assert budget(Settings(cache=Path("/cache"), max_jobs=64)) == 64


@pytest.mark.parametrize(("quota", "total"), [(None, 8), (4, 4), (2.5, 2), (0.5, 1), (16, 8)])
def test_cpus_of_the_control_group(
    eight_cpus: None, monkeypatch: pytest.MonkeyPatch, quota: float | None, total: int
) -> None:
    _machine(monkeypatch, memory=1000 * _GB, quota=quota)
    assert budget(_SETTINGS) == total


@pytest.mark.parametrize(("memory", "total"), [(100 * _GB, 8), (6 * _GB, 4), (_GB, 1), (0, 1), (-_GB, 1), (None, 8)])
def test_memory_limits_the_jobs(
    eight_cpus: None, monkeypatch: pytest.MonkeyPatch, memory: int | None, total: int
) -> None:
    _machine(monkeypatch, memory=memory)
    assert budget(_SETTINGS) == total


@pytest.mark.parametrize(
    ("meminfo", "of_groups", "free"),
    [
        ("MemTotal: 9 kB\nMemAvailable:    1000 kB\n", None, 1_024_000),
        ("MemAvailable: 1000 kB\n", 500, 500),
        ("MemAvailable: 1 kB\n", 8800, 1024),
        ("", -500, -500),
        (None, None, None),
    ],
    ids=["the machine", "the group", "the smaller", "more used than allowed", "unknown"],
)
def test_free_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meminfo: str | None, of_groups: int | None, free: int | None
) -> None:
    monkeypatch.setattr(cgroup, "memory", lambda: of_groups)
    if meminfo is not None:
        write_files(tmp_path, {"meminfo": meminfo})
    assert jobs._free_memory(tmp_path / "meminfo") == free


# --- the job server ---


def test_tools_are_told_the_budget_and_the_way_to_it(server: JobServer) -> None:
    assert server.environ() == {
        "MAKEFLAGS": f"-j2 --jobserver-auth=fifo:{_fifo(server)}",
        "KERNELYARD_JOBS": f"2 1500000000 {_fifo(server)}",
    }
    assert Path(_fifo(server)).is_fifo()


def test_a_slot_is_taken_out_of_the_budget_and_given_back(server: JobServer) -> None:
    counts = [_free(server)]
    with server.slot():
        counts.append(_free(server))
        with server.slot():
            counts.append(_free(server))
        counts.append(_free(server))
    counts.append(_free(server))
    assert counts == [2, 1, 0, 1, 2]


@pytest.mark.parametrize("fault", [RuntimeError, KeyboardInterrupt])
def test_a_slot_is_given_back_after_a_fault(server: JobServer, fault: type[BaseException]) -> None:
    with pytest.raises(fault), server.slot():
        raise fault
    assert _free(server) == 2


def test_threads_share_the_budget(server: JobServer) -> None:
    lock = threading.Lock()
    running = 0
    most = 0
    # Two that meet here prove that two can run at once; a third would find no slot.
    meeting = threading.Barrier(2, timeout=300)

    def work() -> None:
        nonlocal running, most
        with server.slot():
            with lock:
                running += 1
                most = max(most, running)
            meeting.wait()
            with lock:
                running -= 1

    # A slot that is lost would let them wait for ever; as daemons they cannot keep the test run from ending.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert (most, running, _free(server)) == (2, 0, 2)


def test_closing_removes_what_was_made() -> None:
    server = JobServer(1)
    path = Path(_fifo(server))
    server.close()
    assert not path.parent.exists()
