"""Runs beside each other, runs that are stopped, runs in which something fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.conftest import Yard

_DEADLINE = 60.0


def _wait_for(condition: Callable[[], bool]) -> None:
    """Wait for another process to come to a point; fails where it never does."""
    end = time.monotonic() + _DEADLINE
    while not condition():
        assert time.monotonic() < end, "the other process never got there"
        time.sleep(0.02)


def _two_kernels(yard: Yard) -> None:
    for folder in ("answer", "blocked"):
        yard.add("answer", folder, rename=lambda text, to=folder: text.replace("test/answer", f"test/{to}"))  # type: ignore[misc]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A folder with a compiler, `c++`, that stops at kernel `blocked`'s value.cpp until a file `open` is there.

    It says that it is waiting by making `waiting`.
    """
    folder = tmp_path / "gate"
    folder.mkdir()
    compiler = folder / "c++"
    compiler.write_text(
        f"""#!/bin/sh
case "$*" in
  *work/blocked/*-c*value.cpp)
    touch '{folder}/waiting'
    while [ ! -e '{folder}/open' ]; do sleep 0.05; done ;;
esac
exec c++ "$@"
"""
    )
    compiler.chmod(0o755)
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_stopped_run_keeps_what_is_finished(yard: Yard, gate: Path, number: signal.Signals) -> None:
    _two_kernels(yard)
    run = yard.start("build", CXX=str(gate / "c++"), MAX_JOBS="2")
    done = yard.root / "build" / "kernels" / "answer" / "build" / "tvm-ffi01-cpu-x86_64-linux" / "metadata.json"
    _wait_for(lambda: (gate / "waiting").exists() and done.exists())
    before = done.stat().st_mtime_ns
    run.send_signal(number)
    out, err = run.communicate(timeout=_DEADLINE)
    assert run.returncode == (-9 if number is signal.SIGKILL else 128 + number)
    assert "Traceback" not in out + err
    if number is not signal.SIGKILL:
        assert err.endswith("; what was finished is kept\n")
        # No compiler is left behind: the gate's process group was stopped with the run.
        _wait_for(lambda: subprocess.run(["pgrep", "-f", str(gate)], capture_output=True, check=False).returncode == 1)
    (gate / "open").touch()
    result = yard.doit("build", CXX=str(gate / "c++"))
    assert (result.status, result.ran()) == (0, ["build:blocked:tvm-ffi01-cpu-x86_64-linux"])
    assert done.stat().st_mtime_ns == before
    assert yard.answer("blocked") == 111


def test_a_second_run_waits_for_the_first(yard: Yard, gate: Path) -> None:
    _two_kernels(yard)
    first = yard.start("build", CXX=str(gate / "c++"))
    _wait_for((gate / "waiting").exists)
    second = yard.start("build", CXX=str(gate / "c++"))
    assert second.stderr is not None
    line = second.stderr.readline()
    assert line == f"waiting for another doit in this checkout (process {first.pid}) to end\n"
    (gate / "open").touch()
    first.communicate(timeout=_DEADLINE)
    assert first.returncode == 0
    out, _ = second.communicate(timeout=_DEADLINE)
    assert second.returncode == 0
    assert "up to date  2" in out


def test_a_run_waits_for_the_compilers_of_a_killed_one(yard: Yard, gate: Path) -> None:
    _two_kernels(yard)
    killed = yard.start("build", CXX=str(gate / "c++"))
    _wait_for((gate / "waiting").exists)
    killed.kill()
    killed.communicate(timeout=_DEADLINE)
    source = yard.root / "kernels" / "blocked" / "value" / "value.cpp"
    source.write_text(source.read_text().replace("return 1", "return 2"))
    second = yard.start("build", CXX=str(gate / "c++"))
    assert second.stderr is not None
    line = second.stderr.readline()
    what = f"the compilers of a doit in this checkout that was killed (process {killed.pid})"
    assert line == f"waiting for {what} to end\n"
    (gate / "open").touch()
    second.communicate(timeout=_DEADLINE)
    assert second.returncode == 0
    assert yard.answer("blocked") == 112


def test_a_compile_error_stops_no_other_kernel(yard: Yard) -> None:
    _two_kernels(yard)
    source = yard.root / "kernels" / "blocked" / "value" / "value.cpp"
    source.write_text(source.read_text().replace("return", "#error by design\nreturn"))
    result = yard.doit("build", "-n", "4")
    assert result.status == 1
    assert "ok     build:answer:tvm-ffi01-cpu-x86_64-linux" in result.out
    assert result.out.count("#error by design") == 2  # The compiler's message, and the line that it quotes.
    assert "kernels/blocked: compile for tvm-ffi01-cpu-x86_64-linux failed (exit status 1)" in result.out
    assert "Traceback" not in result.out + result.err


def test_compilers_share_one_budget(yard: Yard, tmp_path: Path) -> None:
    for index in range(4):
        yard.add("answer", f"k{index}", rename=lambda text, to=index: text.replace("test/answer", f"test/k{to}"))  # type: ignore[misc]
    running = tmp_path / "running"
    running.mkdir()
    compiler = tmp_path / "c++"
    # Each compiler leaves a file while it runs, and notes how many there are.
    compiler.write_text(
        f"""#!/bin/sh
mkdir '{running}/'$$
ls '{running}' | wc -l >>'{tmp_path}/counts'
c++ "$@"
status=$?
sleep 0.1
rmdir '{running}/'$$
exit $status
"""
    )
    compiler.chmod(0o755)
    assert yard.doit("build", "-n", "4", CXX=str(compiler), MAX_JOBS="2").status == 0
    counts = [int(line) for line in (tmp_path / "counts").read_text().split()]
    assert max(counts) == 2


def test_a_test_that_kills_its_process_is_named_and_stops_no_other(yard: Yard) -> None:
    _two_kernels(yard)
    tests = yard.root / "kernels" / "blocked" / "tests" / "test_answer.py"
    tests.write_text("import os, signal\n\ndef test_crash():\n    os.kill(os.getpid(), signal.SIGSEGV)\n")
    result = yard.doit("test:answer", "test:blocked")
    assert result.status == 1
    assert "ok     test:answer:tvm-ffi01-cpu-x86_64-linux" in result.out
    assert "killed by SIGSEGV in test_answer.py::test_crash" in result.out.replace("tests/", "")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", "pytest found no test"),
        ("import pytest\n\ndef test_it():\n    pytest.skip('needs a GPU')\n", "all 1 tests were skipped"),
    ],
)
def test_nothing_tested_is_not_passed(yard: Yard, body: str, expected: str) -> None:
    (yard.add("answer") / "tests" / "test_answer.py").write_text(body)
    result = yard.doit("test:answer")
    assert result.status == 0
    assert f"NOT TESTED  test:answer:tvm-ffi01-cpu-x86_64-linux: {expected}" in result.out


def test_leaving_the_process_early_is_a_failure(yard: Yard) -> None:
    (yard.add("answer") / "tests" / "test_answer.py").write_text("import os\n\ndef test_it():\n    os._exit(0)\n")
    result = yard.doit("test:answer")
    assert result.status == 1
    assert "pytest ended without a report" in result.out


@pytest.mark.parametrize("options", ["size=4k", "size=64k", "ro"])
def test_a_full_disk_is_one_line(yard: Yard, options: str) -> None:
    yard.add("answer")
    build = yard.root / "build"
    build.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(build)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("only root may mount a small file system to fill")
    try:
        result = yard.doit("build")
        assert result.status != 0
        assert re.search("No space left|is full|unable to open", result.out + result.err)
        assert "Traceback" not in result.out + result.err
        assert not list(build.glob("kernels/answer/build/*/metadata.json"))
    finally:
        subprocess.run(["umount", str(build)], check=True)
    assert os.listdir(build) == []


def test_a_read_only_source_tree_builds(yard: Yard) -> None:
    folder = yard.add("answer")
    bound = subprocess.run(["mount", "--bind", str(folder), str(folder)], capture_output=True, check=False)
    if bound.returncode != 0:
        pytest.skip("only root may mount a folder read-only; mode bits would not stop root")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        result = yard.doit("check", "test:answer")
        assert result.status == 0, result.out
    finally:
        subprocess.run(["umount", str(folder)], check=True)
