"""How long whole builds took, by build spec: what tells how to split the next run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from buildlib.files import write


class Times:
    """Seconds by `<kernel>:<variant>`, stored as JSON; safe to use from several threads."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._recorded: dict[str, float] = {}

    @property
    def seconds(self) -> Mapping[str, float]:
        """What is known, earlier runs included."""
        stored: dict[str, float] = {}
        with contextlib.suppress(OSError, msgspec.DecodeError):
            stored = msgspec.json.decode(self._store.read_bytes(), type=dict[str, float])
        with self._lock:
            return stored | self._recorded

    def record(self, name: str, seconds: float) -> None:
        """Note how long a build from nothing took; one that found objects of an earlier build says little."""
        with self._lock:
            self._recorded[name] = round(seconds, 2)

    def save(self) -> None:
        if not self._recorded:
            return
        ordered = dict(sorted(self.seconds.items()))
        # Without the record the next split is an estimate; a full disk must not fail a run that is done.
        with contextlib.suppress(OSError):
            write(self._store, msgspec.json.format(msgspec.json.encode(ordered)) + b"\n")
