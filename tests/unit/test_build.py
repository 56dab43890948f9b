"""The steps of a build, with a compiler that only pretends."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buildlib import build, process, render
from buildlib.config.model import Kernel, Torch
from buildlib.errors import StepError
from buildlib.plan import BuildSpec
from buildlib.workspace import Workspace

from .factories import GCC, cpu, host, kernel, noarch, spec, write_files

_FILES = {
    "csrc/relu.cpp": '#include "relu.h"',
    "csrc/relu.h": "",
    "torch-ext/binding.cpp": "",
    "torch-ext/relu/__init__.py": "from ._ops import ops\n",
    "torch-ext/relu/_ops.py": "left by another builder\n",
    "torch-ext/relu/data.json": "{}",
}
_LONG_AGO = 1_000_000_000_000_000_000
_VARIANT = "torch213-cxx11-cpu-x86_64-linux"


class _Tools:
    """Stands for CMake and ninja: leaves what they would leave, and keeps what was run."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.during: Callable[[], object] = lambda: None
        self.fails: dict[str, tuple[int, str]] = {}
        self.laid_out: dict[str, str] = {}

    def run(self, argv: Sequence[str], *, cwd: Path, log: Path, **_: Any) -> int:
        step = Path(argv[0]).name
        self.steps.append(step)
        sources = cwd.parent / "src"
        self.laid_out = {p.relative_to(sources).as_posix(): p.read_text() for p in sources.rglob("*") if p.is_file()}
        status, said = self.fails.get(step, (0, ""))
        with log.open("a", encoding="utf-8") as out:
            out.write(said)
        if step == "ninja" and status == 0:
            # What is linked depends on what was laid out, as with a real compiler.
            (cwd / "extension.so").write_text(repr(sorted(self.laid_out.items())))
        self.during()
        return status


@pytest.fixture
def tools(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> _Tools:
    made = _Tools()
    monkeypatch.setattr(workspace.processes, "run", made.run)
    monkeypatch.setattr(process, "output", lambda *_, **__: None)
    return made


def _write(workspace: Workspace, files: Mapping[str, str] = _FILES) -> Path:
    return write_files(workspace.root / "kernels" / "relu", files)


def _kernel(workspace: Workspace, **component: Any) -> Kernel:
    framework = Torch(src=("torch-ext/binding.cpp",), pyext=("json",))
    return kernel(framework, cpu("csrc/relu.cpp", **component), folder=_write(workspace))


@pytest.fixture
def made(workspace: Workspace) -> BuildSpec:
    """A spec with an extension, whose files are there."""
    return spec(_kernel(workspace))


def _edit(made: BuildSpec, path: str, content: str, *, times: int | None = None) -> None:
    write_files(made.kernel.folder, {path: content})
    if times is not None:
        os.utime(made.kernel.folder / path, ns=(times, times))


# --- what is made ---


def test_an_artifact_has_the_package_the_extension_and_its_digest(
    workspace: Workspace, tools: _Tools, made: BuildSpec
) -> None:
    artifact = build.build(made, workspace)
    digest = artifact.metadata.kernelyard.digest
    assert sorted(artifact.metadata.digest.files) == sorted(
        ["__init__.py", "_ops.py", "data.json", f"_relu_cpu_{digest[:8]}.abi3.so"]
    )
    assert (digest, artifact.folder) == (workspace.digest(made), workspace.artifact(made))


def test_nothing_is_run_for_a_package_without_an_extension(workspace: Workspace, tools: _Tools) -> None:
    build.build(spec(noarch(folder=_write(workspace))), workspace)
    assert tools.steps == []


def test_an_ops_module_that_another_builder_left_does_not_ship(
    workspace: Workspace, tools: _Tools, made: BuildSpec
) -> None:
    artifact = build.build(made, workspace)
    assert f"ops = torch.ops.{artifact.metadata.id}\n" in (artifact.folder / "_ops.py").read_text()


def test_the_compiler_sees_the_inputs_and_no_other_file(workspace: Workspace, tools: _Tools, made: BuildSpec) -> None:
    _edit(made, "csrc/unlisted.h", "")
    build.build(made, workspace)
    assert sorted(tools.laid_out) == ["csrc/relu.cpp", "csrc/relu.h", "torch-ext/binding.cpp"]


def test_the_authors_folder_is_not_written_to(workspace: Workspace, tools: _Tools, made: BuildSpec) -> None:
    build.build(made, workspace)
    folder = made.kernel.folder
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == set(_FILES)


# --- what is made again ---


def test_what_was_built_is_up_to_date(workspace: Workspace, tools: _Tools, made: BuildSpec) -> None:
    build.build(made, workspace)
    workspace.look_again(made.kernel)
    assert build.up_to_date(made, workspace)


def test_what_was_never_built_is_not_up_to_date(workspace: Workspace, made: BuildSpec) -> None:
    assert not build.up_to_date(made, workspace)


@pytest.mark.parametrize(
    "path", ["csrc/relu.cpp", "csrc/relu.h", "torch-ext/binding.cpp", "torch-ext/relu/__init__.py"]
)
@pytest.mark.parametrize("times", [None, _LONG_AGO], ids=["now", "with an old time"])
def test_an_edited_input_is_not_up_to_date(
    workspace: Workspace, tools: _Tools, made: BuildSpec, path: str, times: int | None
) -> None:
    build.build(made, workspace)
    _edit(made, path, "edited", times=times)
    workspace.look_again(made.kernel)
    assert not build.up_to_date(made, workspace)


def test_a_touched_input_is_up_to_date(workspace: Workspace, tools: _Tools, made: BuildSpec) -> None:
    build.build(made, workspace)
    os.utime(made.kernel.folder / "csrc/relu.cpp", ns=(_LONG_AGO, _LONG_AGO))
    workspace.look_again(made.kernel)
    assert build.up_to_date(made, workspace)


@pytest.mark.parametrize("name", ["__init__.py", "metadata.json", "data.json"])
def test_a_damaged_artifact_is_not_up_to_date(workspace: Workspace, tools: _Tools, made: BuildSpec, name: str) -> None:
    artifact = build.build(made, workspace)
    (artifact.folder / name).write_text("")
    workspace.cache.forget(workspace.build)
    assert not build.up_to_date(made, workspace)


def test_another_compiler_is_not_up_to_date(workspace: Workspace, tools: _Tools, made: BuildSpec) -> None:
    build.build(made, workspace)
    newer = spec(made.kernel, on=host(compiler=msgspec.structs.replace(GCC, version="13.1.0")))
    assert not build.up_to_date(newer, workspace)


def test_an_input_that_is_edited_while_it_is_compiled_is_built_again(
    workspace: Workspace, tools: _Tools, made: BuildSpec
) -> None:
    tools.during = lambda: _edit(made, "csrc/relu.cpp", "edited meanwhile")
    build.build(made, workspace)
    compiled = tools.laid_out["csrc/relu.cpp"]
    workspace.look_again(made.kernel)
    assert (compiled, build.up_to_date(made, workspace)) == (_FILES["csrc/relu.cpp"], False)


def test_what_is_laid_out_changes_its_time_only_with_its_content(
    workspace: Workspace, tools: _Tools, made: BuildSpec
) -> None:
    # ninja goes by times, so this is what it will compile again.
    build.build(made, workspace)
    sources = workspace.work(made) / "src"
    paths = sorted(path for path in sources.rglob("*") if path.is_file())
    for path in paths:
        os.utime(path, ns=(_LONG_AGO, _LONG_AGO))
    _edit(made, "csrc/relu.h", "edited", times=_LONG_AGO - 1)
    os.utime(made.kernel.folder / "csrc/relu.cpp")
    build.build(made, workspace)
    newer = [path.relative_to(sources).as_posix() for path in paths if path.stat().st_mtime_ns > _LONG_AGO]
    assert newer == ["csrc/relu.h"]


def test_a_source_that_is_no_longer_an_input_is_taken_away(
    workspace: Workspace, tools: _Tools, made: BuildSpec
) -> None:
    build.build(made, workspace)
    _edit(made, "csrc/relu.cpp", "// no header")
    build.build(made, workspace)
    assert sorted(tools.laid_out) == ["csrc/relu.cpp", "torch-ext/binding.cpp"]


def test_a_file_may_stand_where_a_folder_was(workspace: Workspace, tools: _Tools, made: BuildSpec) -> None:
    _edit(made, "csrc/part/b.h", "")
    _edit(made, "csrc/relu.cpp", '#include "part/b.h"')
    build.build(made, workspace)
    shutil.rmtree(made.kernel.folder / "csrc/part")
    _edit(made, "csrc/part", "// a header without a suffix")
    _edit(made, "csrc/relu.cpp", '#include "part"')
    build.build(made, workspace)
    assert sorted(tools.laid_out) == ["csrc/part", "csrc/relu.cpp", "torch-ext/binding.cpp"]


# --- when it configures ---


def test_an_edit_does_not_configure_again(workspace: Workspace, tools: _Tools, made: BuildSpec) -> None:
    build.build(made, workspace)
    _edit(made, "csrc/relu.cpp", "edited")
    build.build(made, workspace)
    assert tools.steps == ["cmake", "ninja", "ninja"]


def test_another_flag_configures_in_the_same_folder(workspace: Workspace, tools: _Tools, made: BuildSpec) -> None:
    build.build(made, workspace)
    kept = write_files(workspace.work(made) / "cmake", {"object.o": ""}) / "object.o"
    build.build(spec(_kernel(workspace, cxx_flags=("-O1",))), workspace)
    assert (tools.steps, kept.exists()) == (["cmake", "ninja", "cmake", "ninja"], True)


def test_another_compiler_configures_in_an_empty_folder(workspace: Workspace, tools: _Tools, made: BuildSpec) -> None:
    build.build(made, workspace)
    stale = write_files(workspace.work(made) / "cmake", {"object.o": ""}) / "object.o"
    build.build(spec(made.kernel, on=host(compiler=msgspec.structs.replace(GCC, version="13.1.0"))), workspace)
    assert (tools.steps, stale.exists()) == (["cmake", "ninja", "cmake", "ninja"], False)


def test_a_failed_configure_is_tried_again(workspace: Workspace, tools: _Tools, made: BuildSpec) -> None:
    tools.fails["cmake"] = (1, "CMake Error\n")
    with pytest.raises(StepError):
        build.build(made, workspace)
    tools.fails.clear()
    build.build(made, workspace)
    assert tools.steps == ["cmake", "cmake", "ninja"]


def test_a_failed_configure_of_another_flag_is_tried_again(
    workspace: Workspace, tools: _Tools, made: BuildSpec
) -> None:
    build.build(made, workspace)
    other = spec(_kernel(workspace, cxx_flags=("-O1",)))
    tools.fails["cmake"] = (1, "CMake Error\n")
    with pytest.raises(StepError):
        build.build(other, workspace)
    tools.fails.clear()
    build.build(other, workspace)
    assert tools.steps == ["cmake", "ninja", "cmake", "cmake", "ninja"]


# --- what is said when it fails ---


_NINJA_FAILS = """\
[1/3] Building CXX object relu.cpp.o
FAILED: [code=1] relu.cpp.o
/usr/bin/g++ -c relu.cpp
kernels/relu/csrc/relu.cpp:1: error: no
ninja: build stopped: subcommand failed.
"""


def test_a_compile_error_names_kernel_variant_and_log_and_leaves_the_old_artifact(
    workspace: Workspace, tools: _Tools, made: BuildSpec
) -> None:
    build.build(made, workspace)
    before = (workspace.artifact(made) / "metadata.json").read_bytes()
    _edit(made, "csrc/relu.cpp", "edited")
    tools.fails["ninja"] = (1, _NINJA_FAILS)
    with pytest.raises(StepError) as caught:
        build.build(made, workspace)
    assert str(caught.value) == (
        f"kernels/relu: compile for {_VARIANT} failed (exit status 1); "
        f"the whole log is build/logs/relu/{_VARIANT}/build.log\nkernels/relu/csrc/relu.cpp:1: error: no"
    )
    assert (workspace.artifact(made) / "metadata.json").read_bytes() == before


def test_what_configure_said_is_not_repeated_by_a_failed_compile(
    workspace: Workspace, tools: _Tools, made: BuildSpec
) -> None:
    tools.fails = {"cmake": (0, "CMake Warning\n"), "ninja": (-9, "cc1plus: out of memory\n")}
    with pytest.raises(StepError) as caught:
        build.build(made, workspace)
    assert str(caught.value).splitlines()[1:] == ["cc1plus: out of memory"]
    assert "failed (killed by SIGKILL)" in str(caught.value)


def test_a_long_message_is_cut_at_its_start() -> None:
    said = "\n".join(f"line {number}" for number in range(100))
    assert build._message(said).splitlines() == [f"line {number}" for number in range(60, 100)]


@pytest.mark.parametrize("path", ["csrc/relu.cpp", "torch-ext/binding.cpp"])
def test_a_source_that_is_gone_is_named(workspace: Workspace, tools: _Tools, made: BuildSpec, path: str) -> None:
    (made.kernel.folder / path).unlink()
    with pytest.raises(StepError) as caught:
        build.build(made, workspace)
    why = "cannot be read (No such file or directory); restore it, or make it readable"
    assert str(caught.value) == f"kernels/relu/{path}: {why}"


def test_a_file_whose_name_is_not_utf_8_is_refused_and_has_a_digest(
    workspace: Workspace, tools: _Tools, made: BuildSpec
) -> None:
    write_files(made.kernel.folder, {"torch-ext/relu/\udcff.py": ""})
    workspace.look_again(made.kernel)
    assert not build.up_to_date(made, workspace)
    with pytest.raises(StepError) as caught:
        build.build(made, workspace)
    what = "the name of this file is not UTF-8; rename it"
    assert str(caught.value) == f"kernels/relu/torch-ext/relu/\\udcff.py: {what}"
    workspace.cache.save()


def test_a_package_without_init_is_refused(workspace: Workspace, tools: _Tools, made: BuildSpec) -> None:
    (made.kernel.folder / "torch-ext/relu/__init__.py").unlink()
    with pytest.raises(StepError) as caught:
        build.build(made, workspace)
    assert str(caught.value) == "kernels/relu/torch-ext/relu/__init__.py: missing; every kernel needs it"


def test_a_package_with_a_metadata_json_of_its_own_is_refused(
    workspace: Workspace, tools: _Tools, made: BuildSpec
) -> None:
    _edit(made, "torch-ext/relu/metadata.json", "{}")
    with pytest.raises(StepError) as caught:
        build.build(made, workspace)
    assert str(caught.value) == (
        "kernels/relu/torch-ext/relu/metadata.json: the artifact has a file of this name already; rename this one"
    )


# --- provenance ---


def _git(status: str | None, *, commit: str = "0" * 40) -> Callable[..., str | None]:
    """Answers as git does; `status` are the changes of the checkout, or None where it is none."""
    answers = {"log": commit, "status": status, "rev-parse": "kernels/\n"}
    return lambda argv, **_: None if status is None else answers[argv[1]]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (" M kernels/relu/a\0", "", False),
        (" M kernels/relu/a\0", " M kernels/gelu/a\0", False),
        (" M kernels/relu/a\0", " M kernels/relu/b\0", True),
        ("", " M kernels/relu/a\0", True),
        ("", "", True),
        (None, None, True),
        (" M kernels/relu/a\0", None, True),
        (None, "", False),
    ],
    ids=[
        "committed since",
        "dirt elsewhere",
        "still dirty",
        "was clean",
        "clean",
        "no git",
        "git is gone",
        "git is new",
    ],
)
def test_an_artifact_of_uncommitted_sources_is_made_again_once_they_are_committed(
    workspace: Workspace,
    tools: _Tools,
    made: BuildSpec,
    monkeypatch: pytest.MonkeyPatch,
    before: str | None,
    now: str | None,
    *,
    expected: bool,
) -> None:
    monkeypatch.setattr(process, "output", _git(before))
    build.build(made, workspace)
    monkeypatch.setattr(process, "output", _git(now))
    assert build.up_to_date(made, workspace) is expected


def test_a_kernel_that_was_never_committed_is_up_to_date(
    workspace: Workspace, tools: _Tools, made: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As one in a folder that git ignores: there is no commit that its artifact could name.
    monkeypatch.setattr(process, "output", _git("", commit=""))
    build.build(made, workspace)
    assert build.up_to_date(made, workspace)


# --- what is rendered is kept ---


def test_an_edit_renders_nothing_again(
    workspace: Workspace, tools: _Tools, made: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.build(made, workspace)
    rendered: list[str] = []
    monkeypatch.setattr(render, "text", lambda template, _: rendered.append(template))
    _edit(made, "csrc/relu.cpp", "edited")
    artifact = build.build(made, workspace)
    named = (workspace.work(made) / "gen/extension_name.h").read_text()
    assert (rendered, artifact.metadata.id in named) == ([], True)


@pytest.mark.parametrize(
    "edit",
    [
        lambda made: _edit(made, "csrc/relu.cpp", "TORCH_LIBRARY(TORCH_EXTENSION_NAME, m) {}"),
        lambda made: _edit(made, "csrc/relu.h", "TORCH_LIBRARY(TORCH_EXTENSION_NAME, m) {}"),
    ],
    ids=["source", "header"],
)
def test_a_source_that_comes_to_spell_the_name_is_configured_for_it(
    workspace: Workspace, tools: _Tools, made: BuildSpec, edit: Callable[[BuildSpec], None]
) -> None:
    build.build(made, workspace)
    edit(made)
    build.build(made, workspace)
    assert tools.steps == ["cmake", "ninja", "cmake", "ninja"]
    assert '"../gen/extension_name.h"' in (workspace.work(made) / "CMakeLists.txt").read_text()


@pytest.mark.parametrize("content", ["", "{}", '{"key": "other", "project": {}, "named": {}}'])
def test_what_was_rendered_is_rendered_again_where_it_is_not_understood(
    workspace: Workspace, tools: _Tools, made: BuildSpec, content: str
) -> None:
    build.build(made, workspace)
    write_files(workspace.work(made), {"rendered.json": content})
    before = (workspace.work(made) / "CMakeLists.txt").read_bytes()
    build.build(made, workspace)
    assert (workspace.work(made) / "CMakeLists.txt").read_bytes() == before
