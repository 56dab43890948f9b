"""Machine code that was assembled before, kept in the per-user cache by what it was made from.

An assembler takes a second and more for each piece. With these, another checkout, or a branch that was built before,
takes none. What nobody has used for a month is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

from buildlib.files import write

_KEPT_SECONDS = 30 * 24 * 3600


def take(cache: Path, key: str) -> bytes | None:
    """What is kept under a key, or None; what is damaged is removed."""
    for path in _folder(cache, key).glob(f"{key}-*.cubin"):
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            if path.name == _name(key, content):
                os.utime(path)
                return content
            path.unlink()
    return None


def keep(cache: Path, key: str, content: bytes) -> None:
    """Keep content under a key, and remove what is beside it and old. A cache that cannot be written keeps nothing."""
    folder = _folder(cache, key)
    with contextlib.suppress(OSError):
        write(folder / _name(key, content), content)
        oldest = time.time() - _KEPT_SECONDS
        for path in folder.iterdir():
            if path.stat().st_mtime < oldest:
                path.unlink()


def _folder(cache: Path, key: str) -> Path:
    return cache / "cubins" / key[:2]


def _name(key: str, content: bytes) -> str:
    return f"{key}-{hashlib.sha256(content).hexdigest()[:24]}.cubin"
