"""What a run shows: a line a task, a live line on a terminal, and a table at the end. Knows tasks only as names."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TextIO

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """What became of one task: done, not tested, up to date, skipped, not run or failed; and what it had to say."""

    task: str
    state: str
    text: str = ""
    seconds: float = 0.0


class Report:
    """The state of a run, written to `out` as it goes; safe to call from several threads."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty()
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}
        self._notes: dict[str, str] = {}
        self._done: list[tuple[str, str]] = []
        self._fresh: list[str] = []
        self._failed: list[tuple[str, str]] = []
        self._skipped: dict[str, str] = {}
        self._untested: list[tuple[str, str]] = []
        self._blocked: list[tuple[str, str]] = []
        self.entries: list[Entry] = []

    def start(self, name: str) -> None:
        with self._lock:
            self._started[name] = time.monotonic()
            self._show_live()

    def done(self, name: str, summary: str, *, tested: bool = True) -> None:
        """A task that did its work; `summary` is what it has to say, `tested` false where it ran no test."""
        with self._lock:
            seconds = self._seconds(name)
            (self._done if tested else self._untested).append((name, summary))
            self.entries.append(Entry(name, "done" if tested else "not tested", summary, round(seconds, 2)))
            self._line(f"{'ok' if tested else '??':<6} {name}  {seconds:.1f} s{f'  {summary}' if summary else ''}")

    def note(self, what: str, text: str) -> None:
        """How far a long step has come, or no text at its end: on the live line; elsewhere only that it has begun."""
        with self._lock:
            if not self._live and text and what not in self._notes:
                self._line(f"...    {what}  {text}")
            self._notes[what] = text
            self._show_live()

    def fresh(self, name: str) -> None:
        """A task that had nothing to do."""
        self._fresh.append(name)
        self.entries.append(Entry(name, "up to date"))

    def skip(self, name: str, reason: str) -> None:
        with self._lock:
            self._started.pop(name, None)
            self._skipped[name] = reason
            self.entries.append(Entry(name, "skipped", reason))

    def block(self, name: str, reason: str) -> None:
        """A task that could not run because of one that failed."""
        self._blocked.append((name, reason))
        self.entries.append(Entry(name, "not run", reason))

    def fail(self, name: str, message: str) -> None:
        """A task that failed; the first line of the message must make sense by itself."""
        with self._lock:
            seconds = self._seconds(name)
            self._failed.append((name, message.splitlines()[0] if message else ""))
            self.entries.append(Entry(name, "failed", message, round(seconds, 2)))
            self._line(f"FAILED {name}  {seconds:.1f} s\n{message}")

    def finish(self) -> None:
        """The table: what was done, up to date, not tested, not run, failed, and skipped, with reasons."""
        with self._lock:
            self._show_live()
            for title, entries in (("done", self._done), ("up to date", self._fresh)):
                if entries:
                    self._out.write(f"{title:<11} {len(entries)}\n")
            for name, summary in self._untested:
                self._out.write(f"{'NOT TESTED':<11} {name}: {summary.removeprefix('not tested: ')}\n")
            for reason, count in sorted(Counter(self._skipped.values()).items()):
                self._out.write(f"{'skipped':<11} {count}  {reason}\n")
            for name, reason in self._blocked:
                self._out.write(f"{'NOT RUN':<11} {name}: {reason}\n")
            for name, message in self._failed:
                self._out.write(f"{'FAILED':<11} {name}: {message}\n")
            self._out.flush()

    def _seconds(self, name: str) -> float:
        return time.monotonic() - self._started.pop(name, time.monotonic())

    def _line(self, text: str) -> None:
        self._out.write(("\r\x1b[K" if self._live else "") + text + "\n")
        self._show_live()
        self._out.flush()

    def _show_live(self) -> None:
        if self._live:
            notes = (f"{what} {text}" for what, text in self._notes.items() if text)
            running = ", ".join((*notes, *self._started))
            self._out.write(f"\r\x1b[K{running[:110]}")
            self._out.flush()
