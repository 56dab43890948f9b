"""The only door to other programs.

A program's output goes to a log file; nothing is printed. Programs run in process groups of their own, so that an
interrupted run can stop all that it started, compilers below ninja included.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from buildlib.errors import StepError

_GRACE_SECONDS = 5.0


class Interrupted(KeyboardInterrupt):
    """The run is being stopped; no further program may start."""


class Processes:
    """The programs that one run of doit has started and that are still alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
        rename: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        answer: Path | None = None,
    ) -> int:
        """Run a program to its end and return its exit status, negative for a signal.

        Its output is appended to `log`, decoded with replacement, and with the strings in `rename` replaced by
        others (generated paths by those that the author knows). Where `answer` is given, the standard output is meant
        for us, and goes to that file instead.

        Raises:
            StepError: the program cannot be started.
            Interrupted: `stop` was called.
        """
        process = self._start(argv, cwd=cwd, env=env, pass_fds=pass_fds, answer=answer)
        try:
            said = process.stderr if answer else process.stdout
            assert said is not None
            # By lines, so that a log can be followed while its program runs.
            with log.open("a", encoding="utf-8", buffering=1) as out:
                for raw in said:
                    line = raw.decode("utf-8", "replace")
                    for generated, known in (rename or {}).items():
                        line = line.replace(generated, known)
                    out.write(line)
            status = process.wait()
        except BaseException:
            _kill(process, signal.SIGKILL)
            process.wait()
            raise
        finally:
            with self._lock:
                self._live.discard(process)
                stopped = self._stopped
        if stopped:
            raise Interrupted
        return status

    def stop(self) -> None:
        """Ask every live program to end, kill what does not, and let none start from now on."""
        with self._lock:
            self._stopped = True
            live = tuple(self._live)
        for process in live:
            _kill(process, signal.SIGTERM)
        for process in live:
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                _kill(process, signal.SIGKILL)

    def _start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        pass_fds: Sequence[int],
        answer: Path | None,
    ) -> subprocess.Popen[bytes]:
        with self._lock, answer.open("wb") if answer else contextlib.nullcontext(subprocess.PIPE) as stdout:
            if self._stopped:
                raise Interrupted
            try:
                process = subprocess.Popen(
                    list(argv),
                    cwd=cwd,
                    env=dict(env),
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=subprocess.PIPE if answer else subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=tuple(pass_fds),
                )
            except OSError as error:
                raise StepError(f"{argv[0]}: cannot be started ({error.strerror}); is it installed?") from None
            self._live.add(process)
            return process


def output(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, errors: str = "replace"
) -> str | None:
    """What a quick query (a version, a commit) prints, or None where the program is missing or fails.

    `errors` says what becomes of bytes that are not UTF-8; "surrogateescape" keeps them, as in paths.
    """
    try:
        done = subprocess.run(
            list(argv), cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", errors) if done.returncode == 0 else None


@contextlib.contextmanager
def conversation(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A program that answers what is written to it: the file to write to, and the one to read from.

    Raises:
        StepError: the program cannot be started.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise StepError(f"{argv[0]}: cannot be started ({error.strerror}); is it installed?") from None
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdin, process.stdout
        finally:
            _kill(process, signal.SIGTERM)


def describe(status: int) -> str:
    """An exit status in words: `exit status 2`, `killed by SIGSEGV`."""
    if status >= 0:
        return f"exit status {status}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-status).name}"
    return f"killed by signal {-status}"


def _kill(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
