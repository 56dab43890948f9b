"""Files here and at a destination, and whether two are the same. By content alone: no time and no git history."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

_CHUNK = 1 << 20


class LocalFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to publish: where its bytes are, its size in bytes, and its names by content."""

    source: Path | bytes
    size: int
    sha256: str
    # The name that git gives to a file of this content.
    git: str


class RemoteFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file at a destination. The Hub knows a large file by its SHA-256 and any other by git's name for it."""

    size: int
    sha256: str | None = None
    git: str | None = None


Tree = Mapping[str, RemoteFile]


def local(source: Path | bytes) -> LocalFile:
    """Look at a file, or at bytes that are to become one.

    Raises:
        OSError: the file cannot be read.
    """
    size = source.stat().st_size if isinstance(source, Path) else len(source)
    sha256 = hashlib.sha256()
    # What git calls a blob is its SHA-1 with this header; nothing here relies on it being hard to forge.
    git = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    if isinstance(source, bytes):
        sha256.update(source)
        git.update(source)
    else:
        with source.open("rb") as file:
            while chunk := file.read(_CHUNK):
                sha256.update(chunk)
                git.update(chunk)
    return LocalFile(source=source, size=size, sha256=sha256.hexdigest(), git=git.hexdigest())


def same(here: LocalFile, there: RemoteFile | None) -> bool:
    """Whether a destination already holds the content of a file."""
    if there is None or there.size != here.size:
        return False
    return there.sha256 == here.sha256 if there.sha256 is not None else there.git == here.git
