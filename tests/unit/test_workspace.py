"""Where things are, and what one run knows of the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildlib.config.model import Kernel
from buildlib.environment import Settings
from buildlib.plan import BuildSpec
from buildlib.variant import Backend
from buildlib.workspace import Workspace

from .factories import cpu, kernel, plan, spec, write_files


def _kernel(workspace: Workspace, **general: object) -> Kernel:
    folder = write_files(
        workspace.root / "kernels" / "relu",
        {
            "csrc/relu.cpp": '#include "relu.h"',
            "csrc/relu.h": "",
            "torch-ext/binding.cpp": "",
            "torch-ext/relu/__init__.py": "",
            "tests/test_relu.py": "",
            "CARD.md": "",
        },
    )
    return kernel(None, cpu("csrc/relu.cpp"), folder=folder, **general)


@pytest.fixture
def made(workspace: Workspace) -> BuildSpec:
    """A spec with one source, one header and one Python file."""
    return spec(_kernel(workspace))


def test_where_things_are(workspace: Workspace, made: BuildSpec) -> None:
    variant = "torch213-cxx11-cpu-x86_64-linux"
    paths = (
        workspace.work(made),
        workspace.artifact(made),
        workspace.artifacts(made.kernel),
        workspace.log("test", made),
        workspace.report("check", made),
    )
    assert [path.relative_to(workspace.root).as_posix() for path in paths] == [
        f"build/work/relu/{variant}",
        f"build/kernels/relu/build/{variant}",
        "build/kernels/relu",
        f"build/logs/relu/{variant}/test.log",
        f"build/reports/relu/{variant}/check.json",
    ]


@pytest.mark.parametrize(("path", "shown"), [("kernels/relu", "kernels/relu"), ("/elsewhere/x", "/elsewhere/x")])
def test_paths_as_messages_show_them(workspace: Workspace, path: str, shown: str) -> None:
    assert workspace.shown(workspace.root / path) == shown


@pytest.mark.parametrize(
    "path", ["csrc/relu.cpp", "csrc/relu.h", "torch-ext/binding.cpp", "torch-ext/relu/__init__.py"]
)
def test_an_edit_of_an_input_changes_the_digest(workspace: Workspace, made: BuildSpec, path: str) -> None:
    before = workspace.digest(made)
    write_files(made.kernel.folder, {path: "// edited"})
    workspace.look_again(made.kernel)
    assert workspace.digest(made) != before


@pytest.mark.parametrize("path", ["tests/test_relu.py", "CARD.md", "csrc/unused.h", "torch-ext/relu/note.txt"])
def test_an_edit_of_another_file_does_not(workspace: Workspace, made: BuildSpec, path: str) -> None:
    before = workspace.digest(made)
    write_files(made.kernel.folder, {path: "edited"})
    workspace.look_again(made.kernel)
    assert workspace.digest(made) == before


def test_a_source_that_is_gone_changes_the_digest(workspace: Workspace, made: BuildSpec) -> None:
    before = workspace.digest(made)
    (made.kernel.folder / "csrc/relu.cpp").unlink()
    workspace.look_again(made.kernel)
    assert workspace.digest(made) != before


def test_within_a_run_files_are_looked_at_once(workspace: Workspace, made: BuildSpec) -> None:
    before = workspace.digest(made)
    write_files(made.kernel.folder, {"csrc/relu.cpp": "// edited"})
    assert workspace.digest(made) == before


def test_a_variant_with_an_extension_and_one_without_have_inputs_of_their_own(workspace: Workspace) -> None:
    both = plan(_kernel(workspace, backends=(Backend.CPU, Backend.TPU))).specs
    assert [bool(workspace.inputs(each).sources) for each in both] == [True, False]


def test_closing_stores_what_was_learnt_of_files(
    workspace: Workspace, made: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buildlib.files.time.time_ns", lambda: 2**62)
    workspace.digest(made)
    workspace.close()
    assert (workspace.build / "files.msgpack").is_file()


def test_closing_a_run_that_did_nothing_writes_nothing(workspace: Workspace) -> None:
    workspace.close()
    assert not workspace.build.exists()


def test_closing_gives_the_budget_back(tmp_path: Path) -> None:
    opened = Workspace(tmp_path, Settings(cache=tmp_path / "cache", max_jobs=1))
    fifo = Path(opened.jobs.environ()["MAKEFLAGS"].rpartition("fifo:")[2])
    opened.close()
    assert not fifo.exists()
