"""The limits of control groups, of both versions, wherever in the tree of them the process is."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildlib import cgroup

from .factories import write_files


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "250000 100000\n"}, 2.5),
        ({"cpu.max": ""}, None),
        ({"cpu.max": "garbage\n"}, None),
        ({"own": "0::/a/b\n", "cpu.max": "400000 100000\n", "a/b/cpu.max": "max 100000\n"}, 4),
        ({"own": "0::/a/b\n", "a/cpu.max": "100000 100000\n", "a/b/cpu.max": "200000 100000\n"}, 1),
        # The process of a service is not in the root.
        ({"own": "0::/a/b\n", "a/b/cpu.max": "200000 100000\n"}, 2),
        # The path of a container is one of the host, which is not to be seen; its own group is the root.
        ({"own": "0::/docker/1f\n", "cpu.max": "200000 100000\n"}, 2),
        (
            {"own": "4:cpu,cpuacct:/a\n", "cpu,cpuacct/a/cpu.cfs_quota_us": "300000\n",
             "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"},
            3,
        ),
        ({"own": "4:cpu:/\n", "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    ],
)  # fmt: skip
def test_cpus(tmp_path: Path, files: dict[str, str], cpus: float | None) -> None:
    write_files(tmp_path, files)
    assert cgroup.cpus(tmp_path, tmp_path / "own") == cpus


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, None),
        ({"memory.max": "700\n", "memory.current": "200\n"}, 500),
        ({"memory.max": "max\n", "memory.current": "200\n"}, None),
        ({"memory.max": "200\n", "memory.current": "700\n"}, -500),
        # What was read from files is given back when it is needed.
        ({"memory.max": "700\n", "memory.current": "600\n", "memory.stat": "anon 1\ninactive_file 450\n"}, 550),
        (
            {"own": "0::/a/b\n", "a/memory.max": "900\n", "a/memory.current": "800\n",
             "a/b/memory.max": "700\n", "a/b/memory.current": "200\n"},
            100,
        ),
        (
            {"own": "9:name=systemd:/\n4:memory:/a\n0::/\n", "memory/memory.limit_in_bytes": "9223372036854771712\n",
             "memory/memory.usage_in_bytes": "900\n", "memory/a/memory.limit_in_bytes": "4000\n",
             "memory/a/memory.usage_in_bytes": "1500\n", "memory/a/memory.stat": "total_inactive_file 500\n"},
            3000,
        ),
    ],
)  # fmt: skip
def test_memory(tmp_path: Path, files: dict[str, str], left: int | None) -> None:
    write_files(tmp_path, files)
    assert cgroup.memory(tmp_path, tmp_path / "own") == left
