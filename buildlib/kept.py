"""What the per-user cache keeps: folders that are made once and shared by all checkouts.

A folder is made under another name and renamed when it is whole, so whoever is killed leaves nothing that could be
taken for one. Of two processes one makes it, and the other waits.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import filelock
import msgspec

from buildlib.fetch.common import Progress

_RECORD = "toolchain.json"


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder holds: the size of each file, in bytes, by path."""

    id: str
    files: dict[str, int]


def size(folder: Path) -> int | None:
    """The bytes of a kept folder on the disk, or None where it is not there, or not whole."""
    try:
        record = msgspec.json.decode((folder / _RECORD).read_bytes(), type=_Record)
    except (OSError, msgspec.DecodeError):
        return None
    try:
        whole = all(os.stat(folder / path).st_size == bytes_ for path, bytes_ in record.files.items())
    except OSError:
        return None
    return sum(record.files.values()) if whole else None


def ensure(folder: Path, name: str, make: Callable[[Path], Path], progress: Progress) -> Path:
    """The folder, made unless it is there.

    `make` is given an empty folder to work in, and returns the root of what is to be kept: that folder, or one below.
    """
    if size(folder) is not None:
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder.with_name(f"{folder.name}.lock"))
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        progress(name, "waiting for another process that provisions it")
        lock.acquire()
    try:
        if size(folder) is None:
            # Under the lock, what is left under either name is of nobody who lives.
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, name, make)
    finally:
        lock.release()
    return folder


def _make(folder: Path, name: str, make: Callable[[Path], Path]) -> None:
    making = folder.with_name(f".making-{folder.name}")
    shutil.rmtree(making, ignore_errors=True)
    try:
        making.mkdir()
        root = make(making)
        files = {str(path.relative_to(root)): path.stat().st_size for path in sorted(root.rglob("*")) if path.is_file()}
        (root / _RECORD).write_bytes(msgspec.json.encode(_Record(id=name, files=files)))
        root.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
