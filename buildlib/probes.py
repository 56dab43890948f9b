"""What programs say of themselves, asked once for each content of their files."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from buildlib.environment import Settings
from buildlib.files import write

_T = TypeVar("_T")


def remembered(settings: Settings, kind: str, path: Path, answer: type[_T], ask: Callable[[], _T | None]) -> _T | None:
    """What `ask` finds out about the program at `path`, or found out earlier; None, which is not kept, is no answer."""
    real = path.resolve()
    stat = real.stat()
    key = hashlib.sha256(repr((str(path), str(real), stat.st_size, stat.st_mtime_ns, stat.st_ino)).encode()).hexdigest()
    record = settings.cache / "probes" / f"{kind}-{key[:16]}.json"
    with real.open("rb") as file:
        # A script, or ccache, may call another program tomorrow although its own file stays as it is.
        lasting = file.read(4) == b"\x7fELF" and "cache" not in real.name
    if lasting:
        try:
            return msgspec.json.decode(record.read_bytes(), type=answer)
        except (OSError, msgspec.DecodeError):
            pass  # Not asked yet, or the record is from another version: ask.
    found = ask()
    if found is not None and lasting:
        # A cache that cannot be written costs the question at the next run, and nothing else.
        with contextlib.suppress(OSError):
            write(record, msgspec.json.encode(found))
    return found
