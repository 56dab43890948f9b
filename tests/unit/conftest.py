"""Rules for every unit test, and a workspace to work in."""

from __future__ import annotations

import multiprocessing.process
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from buildlib.environment import Settings
from buildlib.workspace import Workspace

_STARTS_A_PROCESS = (
    "execv", "execve", "fork", "forkpty", "posix_spawn", "posix_spawnp", "spawnv", "spawnve", "startfile", "system",
)  # fmt: skip


@pytest.fixture(autouse=True)
def started() -> Iterator[list[str]]:
    """Fail a test that starts a process; what it tried to start is in the list, and is reported even if it is caught.

    Importing torch fails a test too: it takes seconds, and no stage that is tested here needs it.
    """
    attempts: list[str] = []

    def refuse(what: str) -> NoReturn:
        attempts.append(what)
        pytest.fail(f"a unit test may start no process, and this one started {what}", pytrace=True)

    def popen(_: object, argv: object, *_args: object, **_kwargs: object) -> NoReturn:
        refuse(f"subprocess.Popen({argv!r})")

    def start(_: object) -> NoReturn:
        refuse("a process of multiprocessing")

    had_torch = "torch" in sys.modules
    # Not the fixture `monkeypatch`: a test that undoes its own patches must not lift the ban.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", popen)
        patch.setattr(multiprocessing.process.BaseProcess, "start", start)
        for name in _STARTS_A_PROCESS:
            patch.setattr(os, name, lambda *_, name=name, **__: refuse(f"os.{name}"), raising=False)
        yield attempts
    if attempts:
        pytest.fail(f"a unit test may start no process, and this one started {', '.join(attempts)}", pytrace=False)
    if "torch" in sys.modules and not had_torch:
        pytest.fail("a unit test may not import torch, which takes seconds", pytrace=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """A checkout in a temporary folder, with nothing in it, whose programs may not be started."""
    opened = Workspace(tmp_path / "checkout", Settings(cache=tmp_path / "cache", max_jobs=2))
    opened.root.mkdir()
    yield opened
    opened.close()
