"""The rules that the other unit tests stand under."""

from __future__ import annotations

import multiprocessing
import os
import subprocess

import pytest

_WAYS: dict[str, tuple[object, str, tuple[object, ...]]] = {
    "subprocess.run": (subprocess, "run", (["true"],)),
    "os.system": (os, "system", ("true",)),
    "os.popen": (os, "popen", ("true",)),
    "os.fork": (os, "fork", ()),
    "os.posix_spawn": (os, "posix_spawn", ("/bin/true", ["true"], {})),
    "multiprocessing": (multiprocessing.Process(target=int), "start", ()),
}


@pytest.mark.parametrize("way", _WAYS)
def test_no_process_can_be_started(way: str, started: list[str]) -> None:
    owner, name, arguments = _WAYS[way]
    with pytest.raises(pytest.fail.Exception, match="a unit test may start no process"):
        getattr(owner, name)(*arguments)
    started.clear()


def test_an_attempt_is_remembered_where_the_caller_swallows_the_failure(started: list[str]) -> None:
    with pytest.raises(pytest.fail.Exception):
        subprocess.Popen(["cc", "--version"])
    assert started == ["subprocess.Popen(['cc', '--version'])"]
    started.clear()
