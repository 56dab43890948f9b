"""Run nvcc within the budget of jobs: `nvcc_job.py <bytes> <threads> <nvcc> <argument>...`, started by ninja.

`<bytes>` is the memory that nvcc takes for each capability that it compiles at a time, `<threads>` how many of them it
can compile at a time. ninja has taken one byte of the job server for this process. Where that share of the memory is
too small, nvcc waits until it has enough of them; where more are free, it takes them and works on several capabilities.

The bytes of the job server are read by one waiting process at a time, and whoever waits holds none: so there is always
somebody who can go on. This runs by itself, without the builder.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Run nvcc and return its exit status."""
    memory, threads, *argv = arguments
    jobs = environ.get("KERNELYARD_JOBS", "")
    if not jobs:
        return subprocess.call(argv)
    total_text, share, path = jobs.split(" ", 2)
    total = int(total_text)
    each = min(total, -(-int(memory) // int(share)))
    fifo = os.open(path, os.O_RDWR)
    held = _take(fifo, Path(path).with_name("waiting"), each, int(threads), total)
    try:
        return subprocess.call([*argv, f"--threads={held // each}"])
    finally:
        # ninja gives back the one that it took.
        os.write(fifo, b"+" * (held - 1))


def _take(fifo: int, waiting: Path, each: int, threads: int, total: int) -> int:
    """Exchange the one byte that is held for enough of them; the number that is then held, a multiple of `each`."""
    held = 1
    if each > 1:
        os.write(fifo, b"+")
        with waiting.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            held = 0
            while held < each:
                held += len(os.read(fifo, each - held))
    os.set_blocking(fifo, False)
    while held // each < threads and held + each <= total:
        try:
            more = len(os.read(fifo, each))
        except BlockingIOError:
            break
        if more < each:
            os.write(fifo, b"+" * more)
            break
        held += more
    os.set_blocking(fifo, True)
    return held


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
