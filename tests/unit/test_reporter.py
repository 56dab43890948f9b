"""What a run shows."""

from __future__ import annotations

import io
import threading

import pytest

from buildlib.reporter import Report


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that has passed; a test sets it."""
    now = [0.0]
    monkeypatch.setattr("buildlib.reporter.time.monotonic", lambda: now[0])
    return now


def test_a_task_is_a_line_with_its_time(clock: list[float]) -> None:
    out = io.StringIO()
    report = Report(out)
    report.start("build:relu:torch-cpu")
    clock[0] = 12.34
    report.done("build:relu:torch-cpu", "")
    assert out.getvalue() == "ok     build:relu:torch-cpu  12.3 s\n"


def test_what_a_task_has_to_say_stands_behind_its_time() -> None:
    out = io.StringIO()
    report = Report(out)
    report.done("test:relu:torch-cpu", "12 passed, 3 skipped")
    assert out.getvalue() == "ok     test:relu:torch-cpu  0.0 s  12 passed, 3 skipped\n"


def test_not_tested_does_not_look_like_success() -> None:
    out = io.StringIO()
    Report(out).done("test:relu:torch-cpu", "not tested: pytest found no test", tested=False)
    assert out.getvalue() == "??     test:relu:torch-cpu  0.0 s  not tested: pytest found no test\n"


def test_a_failure_shows_the_whole_message() -> None:
    out = io.StringIO()
    Report(out).fail("build:relu:torch-cpu", "kernels/relu: compile failed\nrelu.cpp:1: error: no")
    assert out.getvalue() == (
        "FAILED build:relu:torch-cpu  0.0 s\nkernels/relu: compile failed\nrelu.cpp:1: error: no\n"
    )


def test_the_table() -> None:
    out = io.StringIO()
    report = Report(out)
    report.done("build:a:torch-cpu", "")
    report.done("test:a:torch-cpu", "3 passed")
    report.done("test:b:torch-cpu", "not tested: all 2 tests were skipped", tested=False)
    for name in "cde":
        report.fresh(f"build:{name}:torch-cpu")
    report.skip("build:a:torch-cuda", "no toolchain for cu130 on this machine")
    report.skip("build:b:torch-cuda", "no toolchain for cu130 on this machine")
    report.skip("build:c:torch-cpu", "build.toml asks for [torch] minver 2.14")
    report.block("test:f:torch-cpu", "build:f:torch-cpu failed")
    report.fail("build:f:torch-cpu", "kernels/f: compile failed\nmore")
    before = out.tell()
    report.finish()
    assert out.getvalue()[before:].splitlines() == [
        "done        2",
        "up to date  3",
        "NOT TESTED  test:b:torch-cpu: all 2 tests were skipped",
        "skipped     1  build.toml asks for [torch] minver 2.14",
        "skipped     2  no toolchain for cu130 on this machine",
        "NOT RUN     test:f:torch-cpu: build:f:torch-cpu failed",
        "FAILED      build:f:torch-cpu: kernels/f: compile failed",
    ]


def test_a_skipped_variant_that_two_groups_name_is_counted_once() -> None:
    out = io.StringIO()
    report = Report(out)
    for _ in range(2):
        report.skip("build:a:torch-cuda", "no toolchain")
    report.finish()
    assert out.getvalue() == "skipped     1  no toolchain\n"


def test_the_table_of_a_run_that_did_nothing_is_empty() -> None:
    out = io.StringIO()
    Report(out).finish()
    assert out.getvalue() == ""


def test_a_failure_without_words_has_a_row() -> None:
    out = io.StringIO()
    report = Report(out)
    report.fail("build:a", "")
    report.finish()
    assert out.getvalue().splitlines()[-1] == "FAILED      build:a: "


def test_a_log_file_gets_no_control_characters() -> None:
    out = io.StringIO()
    report = Report(out)
    report.start("build:a")
    report.done("build:a", "")
    report.finish()
    assert "\x1b" not in out.getvalue()


def test_a_terminal_shows_what_is_running() -> None:
    out = _Terminal()
    report = Report(out)
    report.start("build:a")
    report.start("build:b")
    assert out.getvalue().endswith("\r\x1b[Kbuild:a, build:b")


def test_a_terminal_shows_what_is_still_running_below_a_finished_task() -> None:
    out = _Terminal()
    report = Report(out)
    report.start("build:a")
    report.start("build:b")
    report.done("build:a", "")
    assert out.getvalue().endswith("\r\x1b[Kok     build:a  0.0 s\n\r\x1b[Kbuild:b")


def test_the_live_line_stays_within_a_terminal() -> None:
    out = _Terminal()
    report = Report(out)
    for number in range(50):
        report.start(f"build:{number}")
    assert len(out.getvalue().rpartition("\x1b[K")[2]) <= 120


def test_lines_of_several_threads_stay_whole() -> None:
    out = io.StringIO()
    report = Report(out)

    def work(name: str) -> None:
        for number in range(20):
            report.start(f"{name}{number}")
            report.done(f"{name}{number}", "")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sorted(f"ok     {name}{number}  0.0 s" for name in "abcd" for number in range(20))
    assert sorted(out.getvalue().splitlines()) == expected
