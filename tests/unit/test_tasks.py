"""What doit is told: the tasks, what their actions return, and the rows of the matrix."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from doit.exceptions import InvalidDodoFile, TaskFailed, UnmetDependency
from doit.loader import generate_tasks
from doit.task import Task

from buildlib import build, config, loading, rows, tasks, toolchain
from buildlib import plan as planning
from buildlib.config.grammar import NEWEST_EDITION
from buildlib.config.model import Hub, Kernel
from buildlib.digest import PARTS
from buildlib.discover import discover
from buildlib.errors import BuildError, ConfigError, SelectionError, StepError
from buildlib.matrix import Matrix
from buildlib.plan import BuildSpec, Failed
from buildlib.tasks import Reporter, Session
from buildlib.testing import Outcome
from buildlib.variant import Backend
from buildlib.workspace import Workspace

from .factories import HOST, cpu, cuda, kernel, noarch, row, tvm_ffi, write_files

_MATRIX = Matrix(torch=(row("2.13"), row("2.13", "cu130")))
_CPU, _CUDA = "torch213-cxx11-cpu-x86_64-linux", "torch213-cxx11-cu130-x86_64-linux"


def _session(workspace: Workspace, *kernels: Kernel, broken: tuple[Failed, ...] = ()) -> Session:
    paths = discover(workspace.root)
    return Session(workspace, HOST, paths, kernels, planning.plan(kernels, broken, _MATRIX, HOST))


@pytest.fixture
def session(workspace: Workspace) -> Session:
    """A torch kernel for two backends, one without an extension, and one that does not load."""
    folder = workspace.root / "kernels"
    write_files(
        folder, {"relu/csrc/relu.cpp": "", "relu/torch-ext/binding.cpp": "", "geglu/torch-ext/relu/__init__.py": ""}
    )
    relu = kernel(
        None, cpu("csrc/relu.cpp"), cuda("a.cu"), folder=folder / "relu", backends=(Backend.CPU, Backend.CUDA)
    )
    geglu = noarch(folder=folder / "geglu")
    return _session(workspace, geglu, relu, broken=(Failed(kernel="broken", message="kernels/broken: no"),))


def _tasks(session: Session, stage: str) -> dict[str, Task]:
    found = generate_tasks(stage, getattr(session, f"{stage}_tasks")())
    return {task.name: task for task in found}


# --- the tasks ---


def test_build_tasks(session: Session) -> None:
    assert sorted(_tasks(session, "build")) == [
        "build",
        "build:broken",
        "build:geglu",
        "build:geglu:torch-cpu",
        "build:relu",
        f"build:relu:{_CPU}",
        f"build:relu:{_CUDA}",
    ]


@pytest.mark.parametrize("stage", ["check", "test"])
def test_later_stages_have_a_task_for_each_spec_and_a_group_for_each_kernel(session: Session, stage: str) -> None:
    # A build.toml is checked by itself.
    expected = [f"check:{kernel}:build.toml" for kernel in ("geglu", "relu") if stage == "check"]
    expected += [stage, f"{stage}:broken"]
    expected += [f"{stage}:geglu", f"{stage}:geglu:torch-cpu", f"{stage}:relu", f"{stage}:relu:{_CPU}"]
    assert sorted(_tasks(session, stage)) == sorted(expected)


@pytest.mark.parametrize(
    ("stage", "group", "members"),
    [
        ("build", "relu", [f"build:relu:{_CPU}", f"build:relu:{_CUDA}"]),
        # What is skipped is skipped in the build; a later stage's group has it for its reason.
        ("test", "relu", [f"test:relu:{_CPU}", f"build:relu:{_CUDA}"]),
        ("check", "relu", ["check:relu:build.toml", f"check:relu:{_CPU}", f"build:relu:{_CUDA}"]),
        ("check", "broken", ["build:broken"]),
    ],
)
def test_a_group_has_all_that_the_plan_says_about_a_kernel(
    session: Session, stage: str, group: str, members: list[str]
) -> None:
    assert _tasks(session, stage)[f"{stage}:{group}"].task_dep == members


@pytest.mark.parametrize("stage", ["check", "test"])
def test_a_later_stage_builds_first(session: Session, stage: str) -> None:
    assert _tasks(session, stage)[f"{stage}:relu:{_CPU}"].task_dep == [f"build:relu:{_CPU}"]


@pytest.mark.parametrize("stage", ["build", "check", "test"])
def test_every_task_has_a_line_of_help(session: Session, stage: str) -> None:
    assert [name for name, task in _tasks(session, stage).items() if not task.doc and name != stage] == []


def test_a_skipped_variant_is_a_task_without_an_action_that_knows_the_reason(session: Session) -> None:
    task = _tasks(session, "build")[f"build:relu:{_CUDA}"]
    assert (task.actions, task.meta, task.doc) == (
        [],
        {"skipped": "no toolchain for cu130 on this machine"},
        "Skipped: no toolchain for cu130 on this machine.",
    )


def test_a_kernel_that_cannot_be_planned_is_a_task_that_says_why(session: Session) -> None:
    task = _tasks(session, "build")["build:broken"]
    task.init_options()
    (action,) = task.actions
    failure = action.execute()
    assert isinstance(failure, TaskFailed)
    assert failure.get_msg().strip() == "kernels/broken: no"


@pytest.mark.parametrize("name", ["unit", "integration"])
def test_the_builders_own_tests_are_tasks_where_they_are(workspace: Workspace, name: str) -> None:
    (workspace.root / "tests" / name).mkdir(parents=True)
    assert sorted(_tasks(_session(workspace), "test")) == ["test", f"test:{name}"]


def test_kernels_that_tests_use_are_built_before(workspace: Workspace) -> None:
    tested, used = (
        noarch(folder=workspace.root / "kernels" / name, hub=Hub(repo_id=f"org/{name}")) for name in ("relu", "silu")
    )
    write_files(tested.folder, {"tests/test_it.py": 'get_kernel("org/silu")'})
    task = _tasks(_session(workspace, tested, used), "test")["test:relu:torch-cpu"]
    assert task.task_dep == ["build:relu:torch-cpu", "build:silu"]


# --- loading ---


def _loaded(workspace: Workspace, *folders: str) -> Session:
    write_files(workspace.root / "kernels", {f"{folder}/build.toml": "" for folder in folders})
    kernels, broken = loading.load(discover(workspace.root), workspace.root, config.load)
    return _session(workspace, *kernels, broken=broken)


@pytest.mark.parametrize("folder", ["unit", "integration", "a:b", "a=b", "a*", "a?", "a[0]", "a\nb", "a\udcff"])
def test_a_folder_whose_name_no_task_can_have_is_a_failure_of_its_own(workspace: Workspace, folder: str) -> None:
    (failed,) = _loaded(workspace, folder).plan.failed
    assert failed.kernel.isprintable()
    shown = folder.replace("\n", "\\n").replace("\udcff", "\\udcff")
    assert failed.message == f"kernels/{shown}: a folder of this name cannot be a task of doit; rename it"


@pytest.mark.parametrize("stage", ["build", "check", "test", "migrate"])
@pytest.mark.parametrize(
    "folders", [("unit",), ("a:b", "a=b"), ("a=b", "a_b")], ids=["own tests", "two alike", "like another"]
)
def test_such_a_folder_does_not_stop_the_others(workspace: Workspace, stage: str, folders: tuple[str, ...]) -> None:
    (workspace.root / "tests" / "unit").mkdir(parents=True)
    session = _loaded(workspace, *folders)
    # doit refuses to load two tasks of one name, and then nothing at all can be run.
    names = [task.name for task in generate_tasks(stage, getattr(session, f"{stage}_tasks")())]
    assert len(names) == len(set(names))


def test_a_kernel_that_does_not_load_stops_no_other(workspace: Workspace) -> None:
    write_files(workspace.root / "kernels/good", {"build.toml": _GOOD, "torch-ext/good/__init__.py": ""})
    write_files(workspace.root / "kernels/bad", {"build.toml": "[general"})
    kernels, broken = loading.load(discover(workspace.root), workspace.root, config.load)
    assert ([each.key for each in kernels], [each.kernel for each in broken]) == (["good"], ["bad"])


def test_messages_show_paths_from_the_checkout(workspace: Workspace) -> None:
    write_files(workspace.root / "kernels/bad", {"build.toml": "[general"})
    _, (failed,) = loading.load(discover(workspace.root), workspace.root, config.load)
    assert failed.message.startswith("kernels/bad/build.toml:1")


_GOOD = """\
[general]
name = "good"
version = 1
edition = 5
license = "MIT"
backends = ["cpu"]

[torch-noarch]
"""

# --- actions ---


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize("kind", [BuildError, ConfigError, StepError])
def test_an_error_of_the_user_is_a_message_without_a_traceback(kind: type[BuildError]) -> None:
    failure = tasks._act(_raise, kind("kernels/relu: what is wrong; what to do\nmore"))
    assert isinstance(failure, TaskFailed)
    assert failure.get_msg() == "kernels/relu: what is wrong; what to do\nmore\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_condition_that_the_user_can_mend_is_one_line(number: int) -> None:
    failure = tasks._act(_raise, OSError(number, os.strerror(number), "build/work"))
    assert isinstance(failure, TaskFailed)
    assert failure.get_msg() == f"build/work: {os.strerror(number)}; make room or give access, and run again\n"


def test_a_condition_without_a_path_is_one_line() -> None:
    failure = tasks._act(_raise, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert isinstance(failure, TaskFailed)
    assert failure.get_msg() == "build: No space left on device; make room or give access, and run again\n"


def test_a_condition_names_a_path_from_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = tasks.condition(OSError(errno.EROFS, "Read-only file system", str(tmp_path / "build/x")))
    assert said == "build/x: Read-only file system; make room or give access, and run again"


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EBADF, "bad"), FileNotFoundError(errno.ENOENT, "gone"), ValueError("bug"), AssertionError("bug")],
    ids=repr,
)
def test_a_fault_of_ours_is_raised_with_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error)):
        tasks._act(_raise, error)


def test_being_interrupted_is_no_failure_of_a_task() -> None:
    with pytest.raises(KeyboardInterrupt):
        tasks._act(_raise, KeyboardInterrupt())


@pytest.mark.parametrize(
    ("result", "values"),
    [
        (Outcome(passed=2, skipped=1), {"summary": "2 passed, 1 skipped", "tested": True}),
        (Outcome(passed=0, skipped=0, reason="no"), {"summary": "not tested: no", "tested": False}),
        (None, {}),
        (object(), {}),
        ("rewritten", {"summary": "rewritten"}),
    ],
    ids=["tested", "not tested", "nothing", "an artifact", "words"],
)
def test_what_an_action_gives_to_the_reporter(result: object, values: dict[str, object]) -> None:
    assert tasks._act(lambda: result) == values


# --- clean ---


def _spec(session: Session) -> BuildSpec:
    return next(spec for spec in session.plan.specs if spec.name == f"relu:{_CPU}")


def test_clean_removes_what_was_generated_of_one_variant(session: Session) -> None:
    built, other = (
        [f"{part}/{name}/x" for part in ("work", "kernels", "logs", "reports")]
        for name in (f"relu/{_CPU}", "geglu/torch-cpu")
    )
    built[1] = f"kernels/relu/build/{_CPU}/x"
    write_files(session.workspace.build, dict.fromkeys((*built, *other), ""))
    assert build.remove(_spec(session), session.workspace, dryrun=False)
    left = [path for path in (*built, *other) if (session.workspace.build / path).exists()]
    assert left == other


def test_a_dry_clean_removes_nothing(session: Session) -> None:
    path = f"work/relu/{_CPU}/x"
    write_files(session.workspace.build, {path: ""})
    assert build.remove(_spec(session), session.workspace, dryrun=True)
    assert (session.workspace.build / path).exists()


def test_cleaning_what_was_never_built_is_no_error(session: Session) -> None:
    assert not build.remove(_spec(session), session.workspace, dryrun=False)
    assert not session.workspace.build.exists()


# --- the matrix for CI ---


def test_matrix_has_a_row_for_each_kernel_and_variant(session: Session) -> None:
    found = _matrix(session, [])
    assert [set(row.pop("parts", {})) for row in found] == [set(), set(PARTS), set(PARTS), set()]
    assert [{**row, "digest": bool(row["digest"])} for row in found] == [
        {
            "kernel": "broken",
            "variant": None,
            "backend": None,
            "framework": None,
            "status": "error",
            "reason": "kernels/broken: no",
            "digest": False,
        },
        {
            "kernel": "geglu",
            "variant": "torch-cpu",
            "backend": "cpu",
            "framework": "torch-noarch",
            "status": "build",
            "reason": None,
            "digest": True,
        },
        {
            "kernel": "relu",
            "variant": _CPU,
            "backend": "cpu",
            "framework": "torch",
            "status": "build",
            "reason": None,
            "digest": True,
        },
        {
            "kernel": "relu",
            "variant": _CUDA,
            "backend": "cuda",
            "framework": "torch",
            "status": "skip",
            "reason": "no toolchain for cu130 on this machine",
            "digest": False,
        },
    ]


def test_matrix_has_a_row_for_a_backend_without_any_variant(workspace: Workspace) -> None:
    (row,) = _matrix(_session(workspace, tvm_ffi(backends=(Backend.METAL,))), [])
    assert row == {
        "kernel": "relu",
        "variant": None,
        "backend": "metal",
        "framework": None,
        "status": "skip",
        "reason": "toolchains/variants.toml has no metal variant",
        "digest": None,
    }


def _matrix(session: Session, patterns: list[str]) -> list[dict[str, Any]]:
    """The rows that `doit matrix` prints, as a reader of the JSON sees them."""
    found = rows.matching(patterns, session.rows())
    return [msgspec.json.decode(msgspec.json.encode(row)) for row in found]


def test_matrix_digest_is_that_of_the_build(session: Session) -> None:
    digests = {row["kernel"]: row["digest"] for row in _matrix(session, []) if row["status"] == "build"}
    assert digests == {spec.kernel.key: session.workspace.digest(spec) for spec in session.plan.specs}


@pytest.mark.parametrize(
    ("patterns", "selected"),
    [
        (["relu"], [("relu", _CPU), ("relu", _CUDA)]),
        ([f"relu:{_CPU}"], [("relu", _CPU)]),
        (["*-cpu*"], [("geglu", "torch-cpu"), ("relu", _CPU)]),
        (["relu", "geglu"], [("geglu", "torch-cpu"), ("relu", _CPU), ("relu", _CUDA)]),
        (["relu", f"relu:{_CPU}"], [("relu", _CPU), ("relu", _CUDA)]),
        (["broken"], [("broken", None)]),
    ],
)
def test_matrix_of_a_selection(session: Session, patterns: list[str], selected: list[tuple[str, str | None]]) -> None:
    assert [(row["kernel"], row["variant"]) for row in _matrix(session, patterns)] == selected


def test_matrix_of_nothing_is_an_error_with_what_is_close(session: Session) -> None:
    with pytest.raises(SelectionError, match=r"^gelu: selects nothing; did you mean geglu"):
        _matrix(session, ["relu", "gelu"])


# --- the reporter ---


class _Reported:
    def __init__(self) -> None:
        self.out = io.StringIO()
        self.reporter = Reporter(self.out, {})

    @property
    def lines(self) -> list[str]:
        self.reporter.complete_run()
        return self.out.getvalue().splitlines()


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> _Reported:
    monkeypatch.setattr("buildlib.reporter.time.monotonic", lambda: 0.0)
    return _Reported()


def _do_nothing() -> None:
    pass


def _task(name: str, *, values: dict[str, object] | None = None, **more: Any) -> Task:
    task = Task(name, [(_do_nothing,)], **more)
    task.values = values or {}
    return task


def test_reporter_shows_success(reported: _Reported) -> None:
    task = _task("build:relu")
    reported.reporter.execute_task(task)
    reported.reporter.add_success(task)
    assert reported.lines == ["ok     build:relu  0.0 s", "done        1"]


def test_reporter_shows_what_tests_say(reported: _Reported) -> None:
    reported.reporter.add_success(_task("test:a", values={"summary": "2 passed", "tested": True}))
    reported.reporter.add_success(_task("test:b", values={"summary": "not tested: no test", "tested": False}))
    assert reported.lines == [
        "ok     test:a  0.0 s  2 passed",
        "??     test:b  0.0 s  not tested: no test",
        "done        1",
        "NOT TESTED  test:b: no test",
    ]


def test_reporter_shows_a_failure_without_a_traceback(reported: _Reported) -> None:
    reported.reporter.add_failure(_task("build:relu"), TaskFailed("kernels/relu: no\nwhy"))
    assert reported.lines == [
        "FAILED build:relu  0.0 s",
        "kernels/relu: no",
        "why",
        "FAILED      build:relu: kernels/relu: no",
    ]


def test_reporter_shows_the_traceback_of_a_fault_of_ours(reported: _Reported) -> None:
    task = Task("build:relu", [(_raise, [ValueError("bug")])])
    task.init_options()
    (action,) = task.actions
    reported.reporter.add_failure(task, action.execute())
    assert "ValueError: bug" in "\n".join(reported.lines)


def test_reporter_tells_what_could_not_run(reported: _Reported) -> None:
    reported.reporter.add_failure(_task("test:relu"), UnmetDependency("build:relu"))
    assert reported.lines == ["NOT RUN     test:relu: build:relu failed"]


def test_reporter_counts_what_is_up_to_date(reported: _Reported) -> None:
    reported.reporter.skip_uptodate(_task("build:relu"))
    assert reported.lines == ["up to date  1"]


def test_reporter_gives_the_reason_of_what_is_skipped(reported: _Reported) -> None:
    reported.reporter.add_success(Task("build:relu:cuda", None, meta={"skipped": "no toolchain"}))
    reported.reporter.skip_ignore(_task("build:gelu"))
    assert reported.lines == ["skipped     1  no toolchain", "skipped     1  told to by 'doit ignore'"]


def test_reporter_does_not_speak_of_groups(reported: _Reported) -> None:
    group = Task("build:relu", None)
    reported.reporter.execute_task(group)
    reported.reporter.add_success(group)
    reported.reporter.add_failure(group, UnmetDependency("build:relu:cpu"))
    assert reported.lines == []


def test_reporter_writes_doits_own_errors_to_stderr(reported: _Reported, capsys: pytest.CaptureFixture[str]) -> None:
    reported.reporter.runtime_error("something")
    reported.reporter.cleanup_error(TaskFailed("else"))
    assert (capsys.readouterr().err.split(), reported.lines) == (["something", "else"], [])


# --- tasks about build.toml ---


def _act_on(task: Task, *options: str) -> object:
    """The failure of a task's action, or the values that it gives."""
    task.init_options(list(options))
    (action,) = task.actions
    return action.execute() or action.values


def _migrate(workspace: Workspace, content: str | bytes, *options: str) -> tuple[object, Path]:
    file = write_files(workspace.root / "kernels" / "good", {"build.toml": content}) / "build.toml"
    task = _tasks(_session(workspace), "migrate")["migrate:good"]
    return _act_on(task, *options), file


def test_migrate_rewrites_and_says_so(workspace: Workspace) -> None:
    values, file = _migrate(workspace, f"# why\n{_GOOD}")
    assert values == {"summary": f"rewritten in edition {NEWEST_EDITION}"}
    text = file.read_text()
    assert (text.startswith("# why\n"), f"edition = {NEWEST_EDITION}\n" in text) == (True, True)


def test_migrate_to_what_it_is_changes_nothing(workspace: Workspace) -> None:
    values, file = _migrate(workspace, _GOOD, "--to", "5")
    assert (values, file.read_text()) == ({"summary": "edition 5 already"}, _GOOD)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (_GOOD, ["--to", "4"], f"--to 4: there is no such edition to write; use 5 or {NEWEST_EDITION}"),
        (b"\xff", [], "is not UTF-8; save the file as UTF-8"),
        ("[general", [], "build.toml:1"),
    ],
    ids=["edition", "not text", "syntax"],
)
def test_migrate_refuses_and_leaves_the_file(
    workspace: Workspace, content: str | bytes, options: list[str], message: str
) -> None:
    failure, file = _migrate(workspace, content, *options)
    assert isinstance(failure, TaskFailed)
    assert message in failure.get_msg()
    assert file.read_bytes() == (content.encode() if isinstance(content, str) else content)


def test_schema_writes_what_is_generated_from_the_model(workspace: Workspace) -> None:
    (task,) = generate_tasks("schema", _session(workspace).schema_task())
    assert _act_on(task) == {}
    written = [path.relative_to(workspace.root).as_posix() for path in workspace.root.rglob("*.*")]
    assert sorted(written) == ["docs/build-toml.md", "kernels/build.schema.json"]


# --- opening a checkout ---


def _checkout(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, variants: str) -> Path:
    monkeypatch.setattr(toolchain, "probe", lambda *_, **__: HOST)
    files = {"toolchains/variants.toml": variants, "kernels/good/build.toml": _GOOD, "kernels/bad/build.toml": "["}
    return write_files(workspace.root, files)


def test_a_checkout_is_loaded_and_planned(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    root = _checkout(workspace, monkeypatch, "")
    opened = Session.open(root)
    assert [planning.name(entry) for entry in opened.plan.entries] == ["good:torch-cpu", "bad"]
    # Nothing else is made before something is built.
    assert [path.name for path in root.iterdir() if path.name not in {"toolchains", "kernels"}] == ["build"]


def test_a_wrong_data_file_is_an_error_without_a_traceback(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _checkout(workspace, monkeypatch, "[[torch")
    with pytest.raises(InvalidDodoFile, match=r"variants\.toml: "):
        Session.open(root)


# --- configuration ---


def test_doit_config(workspace: Workspace) -> None:
    session = _session(workspace)
    config = session.doit_config
    reporter = config.pop("reporter")
    assert isinstance(reporter, type)
    assert issubclass(reporter, Reporter)
    assert reporter.record == session.record
    assert config == {
        "default_tasks": ["build"],
        "par_type": "thread",
        "num_process": 2,
        "continue": True,
        "verbosity": 0,
    }
