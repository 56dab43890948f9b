"""One budget of parallel jobs for everything that a run starts.

The budget is a GNU make job server: a FIFO that holds one byte for each job. ninja (1.13 and later) and cargo take a
byte for each job beyond their first; for that first one `slot` takes a byte on their behalf. So the sum over all
tasks never exceeds the budget, however many of them doit runs at once.

Each byte also stands for a share of the memory. A compiler that takes more than one share takes more than one byte; the
compilers of CUDA do so by themselves, through nvcc_job.py.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from buildlib import cgroup
from buildlib.environment import Settings

# The peak of one compiler on a file that includes torch/all.h, in bytes.
_MEMORY_OF_ONE_JOB = 1_500_000_000


class JobServer:
    """A budget of `total` jobs, shared through the environment that `environ` returns.

    `memory` is what all of them may take together, in bytes; None where that is not known.
    """

    def __init__(self, total: int, memory: int | None = None) -> None:
        self.total = total
        self._share = (memory or total * _MEMORY_OF_ONE_JOB) // total
        self._folder = tempfile.TemporaryDirectory(prefix="kernelyard-jobs-")
        self._path = Path(self._folder.name) / "fifo"
        os.mkfifo(self._path, 0o600)
        # Opened for reading and writing so that neither end ever blocks on, or sees, a missing peer.
        self._fifo = os.open(self._path, os.O_RDWR)
        os.write(self._fifo, b"+" * total)

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """Hold one job of the budget; waits until one is free."""
        token = os.read(self._fifo, 1)
        try:
            yield
        finally:
            os.write(self._fifo, token)

    def environ(self) -> dict[str, str]:
        """The variables by which ninja, make and cargo find the budget. No `-j` may be passed beside them."""
        return {
            "MAKEFLAGS": f"-j{self.total} --jobserver-auth=fifo:{self._path}",
            "KERNELYARD_JOBS": f"{self.total} {self._share} {self._path}",
        }

    def close(self) -> None:
        os.close(self._fifo)
        self._folder.cleanup()


def open_server(settings: Settings) -> JobServer:
    """A job server for what this machine has to give."""
    return JobServer(budget(settings), _free_memory())


def budget(settings: Settings) -> int:
    """How many jobs may run at once: MAX_JOBS, else what the CPUs and the free memory allow, at least 1."""
    if settings.max_jobs is not None:
        return settings.max_jobs
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if (quota := cgroup.cpus()) is not None:
        cpus = min(cpus, int(quota))
    if (memory := _free_memory()) is not None:
        cpus = min(cpus, memory // _MEMORY_OF_ONE_JOB)
    return max(1, cpus)


def _free_memory(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """The bytes that may still be used: of the machine, and of the control groups where they have a limit."""
    text = meminfo.read_text() if meminfo.exists() else ""
    free = [int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable:")]
    return min((*free, *(() if (left := cgroup.memory()) is None else (left,))), default=None)
