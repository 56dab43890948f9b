"""What the control groups of this process leave it of CPUs and memory: of both versions of Linux's control groups.

A limit of any group that the process is in, directly or through other groups, holds for it. In a container the outer
ones are out of sight; then the root that is seen is the container's own.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def cpus(root: Path = _ROOT, own: Path = _OWN) -> float | None:
    """The CPUs that may be used at a time, or None where there is no limit."""
    found = []
    for group in _groups(root, own):
        words = _read(group / "cpu.max").split() or [
            _read(group / name).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        ]
        # No limit is `max` in version 2, and a negative number in version 1.
        if len(words) == 2 and all(word.isdecimal() and int(word) for word in words):  # noqa: PLR2004
            found.append(int(words[0]) / int(words[1]))
    return min(found, default=None)


def memory(root: Path = _ROOT, own: Path = _OWN) -> int | None:
    """The bytes that may still be taken, or None where there is no limit; negative where more are taken already."""
    found = []
    for group in _groups(root, own):
        for limit_name, used_name, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, used = (_read(group / name).strip() for name in (limit_name, used_name))
            if limit.isdecimal() and used.isdecimal():
                found.append(int(limit) - int(used) + _cached(group, cache))
    return min(found, default=None)


def _groups(root: Path, own: Path) -> Iterator[Path]:
    """The folders of all groups that this process is in."""
    folders = {root: None}
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        # Version 2 has one tree; version 1 has one for each controller, or for some of them together.
        tops = [root / name for name in {controllers, *controllers.split(",")}] if controllers else [root]
        while True:
            folders |= {top / path.lstrip("/"): None for top in tops}
            if path in {"", "/"}:
                break
            path = posixpath.dirname(path)
    yield from folders


def _cached(group: Path, key: str) -> int:
    """The bytes of files that are counted as used, and that are dropped when somebody needs them."""
    values = dict(line.split(" ", 1) for line in _read(group / "memory.stat").splitlines() if " " in line)
    return int(values.get(key, 0))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
