"""How a child process that ran tests is judged, and how a kernel's is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buildlib import package, testing
from buildlib.check import client
from buildlib.config.model import Hub, Kernel
from buildlib.errors import StepError
from buildlib.plan import BuildSpec
from buildlib.testing import Outcome
from buildlib.variant import Backend
from buildlib.workspace import Workspace

from .factories import noarch, plan, spec, write_files


def _junit(tests: int, *, skipped: int = 0) -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests">'
        f'<testsuite name="pytest" errors="0" failures="0" skipped="{skipped}" tests="{tests}" time="0.1"></testsuite>'
        "</testsuites>"
    )


# --- the outcome ---


@pytest.mark.parametrize(
    ("report", "outcome", "summary"),
    [
        (_junit(12), Outcome(passed=12, skipped=0), "12 passed"),
        (_junit(15, skipped=3), Outcome(passed=12, skipped=3), "12 passed, 3 skipped"),
        (
            _junit(3, skipped=3),
            Outcome(passed=0, skipped=3, reason="all 3 tests were skipped"),
            "not tested: all 3 tests were skipped",
        ),
    ],
    ids=["passed", "some skipped", "all skipped"],
)
def test_outcome(tmp_path: Path, report: str, outcome: Outcome, summary: str) -> None:
    junit = write_files(tmp_path, {"test.xml": report}) / "test.xml"
    found = testing._outcome(junit, "tests", "test.log")
    assert (found, found.summary) == (outcome, summary)


@pytest.mark.parametrize("report", [None, "", "<testsuites><testsuite"], ids=["missing", "empty", "cut off"])
def test_success_without_a_report_is_none(tmp_path: Path, report: str | None) -> None:
    # As a test that calls os._exit(0) leaves it.
    if report is not None:
        write_files(tmp_path, {"test.xml": report})
    with pytest.raises(StepError) as caught:
        testing._outcome(tmp_path / "test.xml", "kernels/relu/tests on torch-cpu", "build/logs/test.log")
    assert str(caught.value) == (
        "kernels/relu/tests on torch-cpu: pytest ended without a report, as if a test had left the process; "
        "see build/logs/test.log"
    )


# --- the verdict ---

_HEAD = """\
============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-9.0.0, pluggy-1.6.0 -- /env/bin/python
collected 3 items

tests/test_relu.py::test_first PASSED                                    [ 33%]
"""


@pytest.mark.parametrize(
    ("status", "text", "verdict"),
    [
        (
            1,
            _HEAD + "tests/test_relu.py::test_b FAILED [ 66%]\n"
            "=========================== short test summary info ============================\n"
            "FAILED tests/test_relu.py::test_b - assert 1 == 2\n"
            "========================= 1 failed, 2 passed in 0.10s ==========================\n",
            "1 failed, 2 passed",
        ),
        (1, _HEAD + "=================== 2 failed in 75.32s (0:01:15) ===================\n", "2 failed"),
        (2, _HEAD + "=============== 1 error in 0.09s ===============\n", "1 error"),
        (
            -11,
            _HEAD + "tests/test_relu.py::test_crash[float32] Fatal Python error: Segmentation fault\n\n"
            'Current thread 0x00007f (most recent call first):\n  File "/x/test_relu.py", line 5 in test_crash\n',
            "killed by SIGSEGV in tests/test_relu.py::test_crash[float32]",
        ),
        (-9, _HEAD + "tests/test_relu.py::test_hungry ", "killed by SIGKILL in tests/test_relu.py::test_hungry"),
        (3, _HEAD + "tests/test_relu.py::test_leaves ", "exit status 3 in tests/test_relu.py::test_leaves"),
        (4, "ERROR: usage: pytest [options]\n", "exit status 4"),
        (-15, "", "killed by SIGTERM"),
        # The closing line of a run inside of a test is not the verdict on a crash.
        (
            -11,
            "==== 1 failed in 0.1s ====\ntests/test_relu.py::test_crash ",
            "killed by SIGSEGV in tests/test_relu.py::test_crash",
        ),
    ],
    ids=["failed", "long", "error", "crash", "killed", "exit", "usage", "no output", "nested"],
)  # fmt: skip
def test_verdict(status: int, text: str, verdict: str) -> None:
    assert testing._verdict(status, text) == verdict


def test_verdict_names_the_test_and_not_what_cpp_prints_about_the_crash() -> None:
    text = (
        f"{_HEAD}tests/test_relu.py::test_crash c10::Error: index out of range\nat::native::relu(at::Tensor const&)\n"
    )
    verdict = testing._verdict(-6, text)
    assert verdict.startswith("killed by SIGABRT in tests/test_relu.py::test_crash")


# --- the tail ---


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        ("a\nb\n", "a\nb"),
        ("noise\n=== FAILURES ===\nwhy\n", "= FAILURES ===\nwhy"),
        ("noise\n=== ERRORS ===\nwhy\n", "= ERRORS ===\nwhy"),
        ("noise\nx Fatal Python error: Aborted\nstack\n", "Fatal Python error: Aborted\nstack"),
        ("", ""),
    ],
    ids=["short", "failures", "errors", "crash", "empty"],
)
def test_tail(text: str, tail: str) -> None:
    assert testing._tail(text) == tail


def test_tail_has_a_limit() -> None:
    text = "\n".join(map(str, range(1000)))
    assert testing._tail(text, lines=2) == "998\n999"


# --- the child process ---


class _Pytest:
    """Stands for the child process: writes what it would leave, and keeps how it was started."""

    def __init__(self, *, status: int = 0, said: str = "", report: str | None = None) -> None:
        self.status = status
        self.said = said
        self.report = _junit(1) if report is None else report
        self.argv: list[str] = []
        self.env: dict[str, str] = {}
        self.cwd = Path()

    def run(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, **_: Any) -> int:
        self.argv, self.env, self.cwd = list(argv), dict(env), cwd
        log.write_text(self.said, encoding="utf-8")
        (junit,) = (each.partition("=")[2] for each in argv if each.startswith("--junitxml="))
        if self.report:
            Path(junit).write_text(self.report, encoding="utf-8")
        return self.status


def _in(workspace: Workspace, folder: str, repo_id: str | None = None, **general: Any) -> Kernel:
    where = Hub(repo_id=repo_id or f"org/{folder}")
    write_files(workspace.root / "kernels" / folder, {"tests/test_it.py": ""})
    return noarch(folder=workspace.root / "kernels" / folder, hub=where, **general)


def _run(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, child: _Pytest, made: BuildSpec, *kernels: Kernel
) -> Outcome:
    monkeypatch.setattr(workspace.processes, "run", child.run)
    monkeypatch.setattr(testing, "_DEVICE_NODES", {})
    return testing.run_kernel(made, plan(*kernels).specs, workspace)


def test_a_kernel_without_tests_is_not_tested(workspace: Workspace) -> None:
    bare = spec(noarch(folder=workspace.root / "kernels" / "relu"))
    assert testing.run_kernel(bare, (), workspace).summary == ("not tested: kernels/relu has no tests folder")


def test_a_kernel_is_not_tested_without_the_packages_that_it_declares(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_python_depends", lambda: {"helion": {"no_such_module": "helion"}})
    outcome = _run(workspace, monkeypatch, _Pytest(), spec(_in(workspace, "relu", python_depends=("helion",))))
    assert outcome.summary == "not tested: the kernel needs helion, which this environment lacks; pip install helion"


@pytest.mark.parametrize(
    ("backend", "nodes", "tested"),
    [
        (Backend.CPU, (), True),
        (Backend.CUDA, ("/dev/nvidiactl",), True),
        (Backend.CUDA, (), False),
        (Backend.ROCM, ("/dev/nvidiactl",), False),
        (Backend.METAL, (), False),
    ],
)
def test_a_variant_is_tested_where_its_device_is(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, backend: Backend, nodes: tuple[str, ...], *, tested: bool
) -> None:
    exists = os.path.exists
    monkeypatch.setattr(
        os.path, "exists", lambda path: path in nodes if str(path).startswith("/dev/") else exists(path)
    )
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(workspace.processes, "run", _Pytest().run)
    outcome = testing.run_kernel(spec(_in(workspace, "relu", backends=(backend,))), (), workspace)
    assert outcome.summary == ("1 passed" if tested else f"not tested: no {backend} device on this machine")


def test_kernels_that_tests_name_are_found(workspace: Workspace) -> None:
    tested, used, other, nameless = (_in(workspace, name) for name in ("relu", "gelu", "silu", "none"))
    nameless = msgspec.structs.replace(nameless, general=msgspec.structs.replace(nameless.general, hub=Hub()))
    (tested.folder / "tests" / "test_it.py").write_text('get_kernel("org/gelu", version=1), get_kernel("org/relu")')
    assert list(testing.uses(tested, (tested, used, other, nameless))) == [used]
    assert list(testing.uses(used, (tested, used, other, nameless))) == []


def test_a_repository_is_used_by_its_whole_name(workspace: Workspace) -> None:
    short, long = (_in(workspace, name) for name in ("relu", "relu-rs"))
    test = long.folder / "tests" / "test_it.py"
    test.write_text('get_kernel("org/relu-rs", version=1)')
    assert list(testing.uses(long, (short, long))) == []
    test.write_text('get_kernel("org/relu", version=1)')
    assert list(testing.uses(long, (short, long))) == [short]


def test_a_test_that_cannot_be_read_does_not_stop_every_command(workspace: Workspace) -> None:
    # Tasks are made for each command, so an error here would be one of `doit list` too.
    tested, used = (_in(workspace, name) for name in ("relu", "gelu"))
    (tested.folder / "tests" / "test_it.py").write_text('get_kernel("org/gelu", version=1)')
    (tested.folder / "tests" / "gone.py").symlink_to("nowhere.py")
    assert list(testing.uses(tested, (tested, used))) == [used]


def test_tests_run_in_the_kernels_folder_and_are_counted(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    child = _Pytest(report=_junit(5, skipped=1))
    made = spec(_in(workspace, "relu"))
    assert _run(workspace, monkeypatch, child, made) == Outcome(passed=4, skipped=1)
    assert (child.argv[:3], child.cwd) == ([sys.executable, "-m", "pytest"], made.kernel.folder)


def test_the_client_is_pointed_at_the_variant_itself(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    child = _Pytest()
    made = spec(_in(workspace, "relu"))
    _run(workspace, monkeypatch, child, made)
    assert child.env["LOCAL_KERNELS"] == f"org/relu={workspace.artifact(made)}"


def test_the_package_can_be_imported_by_its_name(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    child = _Pytest()
    made = spec(_in(workspace, "relu", name="silu-and-mul"))
    for _ in range(2):
        _run(workspace, monkeypatch, child, made)
    assert (Path(child.env["PYTHONPATH"]) / "silu_and_mul").readlink() == workspace.artifact(made)


def test_other_kernels_are_there_for_the_same_backend(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    both = (Backend.CPU, Backend.CUDA)
    tested, other, unbuilt = (_in(workspace, name, backends=both) for name in ("relu", "gelu", "silu"))
    for each in plan(other).specs:
        _make(workspace, each)
    child = _Pytest()
    made = plan(tested).specs[1]
    _run(workspace, monkeypatch, child, made, tested, other, unbuilt)
    assert child.env["LOCAL_KERNELS"].split(":") == [
        f"org/relu={workspace.artifact(made)}",
        f"org/gelu={workspace.root}/build/kernels/gelu/build/torch-cuda",
    ]


def test_another_version_of_the_kernel_does_not_take_its_place(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two folders may publish to two version branches of one repository; LOCAL_KERNELS knows only the repository.
    first, second = (_in(workspace, f"relu-v{number}", "org/relu", version=number) for number in (1, 2))
    for each in plan(first, second).specs:
        _make(workspace, each)
    found = []
    for tested in (first, second):
        child = _Pytest()
        _run(workspace, monkeypatch, child, spec(tested), first, second)
        found.append(child.env["LOCAL_KERNELS"])
    assert found == [f"org/relu={workspace.artifact(spec(tested))}" for tested in (first, second)]


def _make(workspace: Workspace, made: BuildSpec) -> None:
    package.package(
        made,
        digest="",
        extension_id="_x",
        files={"__init__.py": b""},
        extension=None,
        provenance=None,
        work=workspace.work(made),
        target=workspace.artifact(made),
    )


@pytest.mark.parametrize(("index", "visible"), [(0, ""), (1, None)], ids=["cpu", "cuda"])
def test_a_cpu_variant_sees_no_gpu(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, index: int, visible: str | None
) -> None:
    child = _Pytest()
    made = plan(_in(workspace, "relu", backends=(Backend.CPU, Backend.CUDA))).specs[index]
    _run(workspace, monkeypatch, child, made)
    assert child.env.get("CUDA_VISIBLE_DEVICES") == visible


def test_nothing_collected_is_not_tested(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    child = _Pytest(status=5, report=_junit(0))
    assert _run(workspace, monkeypatch, child, spec(_in(workspace, "relu"))).summary == (
        "not tested: pytest found no test"
    )


def test_leaving_the_process_is_no_success(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    child = _Pytest(status=0, report="", said="tests/test_it.py::test_leaves ")
    made = spec(_in(workspace, "relu"))
    # The report of an earlier run must not stand in for the missing one.
    write_files(workspace.log("test", made).parent, {"test.xml": _junit(9)})
    with pytest.raises(StepError, match="pytest ended without a report"):
        _run(workspace, monkeypatch, child, made)


def test_a_crash_names_kernel_variant_signal_test_and_log(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = _Pytest(status=-11, report="", said="tests/test_it.py::test_a Fatal Python error: Segmentation fault\n")
    with pytest.raises(StepError) as caught:
        _run(workspace, monkeypatch, child, spec(_in(workspace, "relu")))
    assert str(caught.value) == (
        "kernels/relu/tests on torch-cpu: killed by SIGSEGV in tests/test_it.py::test_a; "
        "the whole log is build/logs/relu/torch-cpu/test.log\n"
        "Fatal Python error: Segmentation fault"
    )


def test_the_builders_own_tests_run_in_the_checkout(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    child = _Pytest(report=_junit(7))
    monkeypatch.setattr(workspace.processes, "run", child.run)
    log = workspace.build / "logs" / "test-unit.log"
    outcome = testing.run_own(workspace.root / "tests" / "unit", log, workspace)
    assert (outcome.summary, child.cwd) == ("7 passed", workspace.root)


def test_a_slot_of_the_budget_is_held_meanwhile(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    class _Slot:
        def __enter__(self) -> None:
            held.append(1)

        def __exit__(self, *_: object) -> None:
            held.append(-1)

    monkeypatch.setattr(workspace.jobs, "slot", _Slot)
    child = _Pytest()
    run = child.run

    def notice(*arguments: Any, **named: Any) -> int:
        held.append(0)
        return run(*arguments, **named)

    monkeypatch.setattr(child, "run", notice)
    _run(workspace, monkeypatch, child, spec(_in(workspace, "relu")))
    assert held == [1, 0, -1]
