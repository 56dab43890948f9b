"""What fetching by pip and by git have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from buildlib.environment import Settings
from buildlib.errors import ToolchainError, UnavailableError
from buildlib.lock import Locked

_MEGA = 1_000_000
_POLL_SECONDS = 0.5
# What programs say, in lower case, where what they fetch from is not to blame.
_NO_ROOM = ("no space left on device", "disk quota exceeded")
_PROXY = ("proxyerror", "cannot connect to proxy", "tunnel connection failed", "proxy connect aborted",
          "could not resolve proxy", "response 407", "from proxy after connect")  # fmt: skip

# Takes a toolchain's id and a text.
Progress = Callable[[str, str], None]


@contextmanager
def watched(locked: Locked, files: Callable[[], Iterable[Path]], progress: Progress) -> Iterator[None]:
    """Tell how much has been fetched, as the sizes of some files, while the block runs."""
    over = threading.Event()

    def watch() -> None:
        while True:
            fetched = _size(files)
            progress(locked.id, f"{fetched // _MEGA} of {-(-locked.size // _MEGA)} MB")
            if over.wait(_POLL_SECONDS):
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        progress(locked.id, "")


def _size(files: Callable[[], Iterable[Path]]) -> int:
    try:
        return sum(path.stat().st_size for path in files())
    except OSError:
        return 0  # A file or a folder has just been moved; the next look is half a second away.


def condition(locked: Locked, said: str, settings: Settings) -> ToolchainError | UnavailableError | None:
    """The error for what a program said, where it is of a kind that any of them meets."""
    lower = said.lower()
    if any(sign in lower for sign in _NO_ROOM):
        return no_room(locked, settings)
    if any(sign in lower for sign in _PROXY):
        return UnavailableError(f"toolchain {locked.id} cannot be fetched: the proxy refuses; mend HTTPS_PROXY")
    return None


def no_room(locked: Locked, settings: Settings) -> ToolchainError:
    return ToolchainError(
        f"{settings.cache}: no room to provision {locked.id}, which takes {locked.room // _MEGA} MB for a moment; "
        "make room, or set KERNELYARD_CACHE to a folder on another disk"
    )


def last_line(said: str) -> str:
    """The end of what a program said."""
    return ([line.strip() for line in said.splitlines() if line.strip()] or ["no output"])[-1]
