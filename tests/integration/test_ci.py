"""CI as it runs: clones of one repository, each with a home of its own, that hand plans and artifacts to each other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import PROJECTS, ROOT, Result, needs_cargo

_VARIANT = "tvm-ffi01-cpu-x86_64-linux"
_PLAIN = """\
[general]
name = "{name}"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu"]

[general.hub]
repo-id = "kernelyard-test/{name}"

[torch-noarch]
"""


@dataclass(frozen=True)
class Clone:
    """A clone of the repository, on what could be a machine of its own."""

    root: Path
    home: Path

    def environ(self, **extra: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KERNELYARD_CACHE": str(self.home / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            # Rust is installed below the home of who runs the tests.
            "CARGO_HOME": os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")),
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
            **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")},
            **extra,
        }

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "doit", *arguments],
            cwd=self.root,
            env=self.environ(**extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def doit(self, *arguments: str, **extra: str) -> Result:
        return _end(self.start(*arguments, **extra))

    def json(self, *arguments: str) -> Any:
        done = self.doit(*arguments)
        assert done.status == 0, done.err
        return json.loads(done.out)

    def changed(self, since: str = "origin/main") -> dict[str, tuple[str, tuple[str, ...]]]:
        """Status and changed parts of each row that differs, by its name."""
        rows = self.json("matrix", "--changed-since", since)
        return {
            ":".join(filter(None, (row["kernel"], row["variant"]))): (row["status"], tuple(row.get("changed", ())))
            for row in rows
        }

    def git(self, *arguments: str) -> str:
        return _git(self.root, *arguments)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "edit")

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def artifact(self, kernel: str, variant: str = _VARIANT) -> Path:
        return self.root / "build" / "kernels" / kernel / "build" / variant


def _end(process: subprocess.Popen[str]) -> Result:
    out, err = process.communicate(timeout=900)
    return Result(process.returncode, out, err)


def _git(root: Path, *arguments: str) -> str:
    author = ("-c", "user.name=ci", "-c", "user.email=ci@localhost", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *author, *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout


def _copy(name: str, target: Path) -> None:
    """The kernel `answer` under another name."""
    shutil.copytree(PROJECTS / "answer", target)
    for path in ("build.toml", "tests/test_answer.py"):
        text = (target / path).read_text()
        (target / path).write_text(text.replace("kernelyard-test/answer", f"kernelyard-test/{name}"))


def _plain(name: str, target: Path) -> None:
    """A kernel that is Python alone."""
    (target / "torch-ext" / name).mkdir(parents=True)
    (target / "build.toml").write_text(_PLAIN.format(name=name))
    (target / "torch-ext" / name / "__init__.py").write_text("from ._ops import ops\n\n\ndef one():\n    return 1\n")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose only branch, main, has the builder and three kernels: two that are compiled, and `plain`."""
    root = tmp_path_factory.mktemp("origin") / "kernels-repository"
    (root / "kernels").mkdir(parents=True)
    for file in ("dodo.py", "pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / file, root / file)
    shutil.copytree(ROOT / "toolchains", root / "toolchains")
    shutil.copytree(ROOT / "buildlib", root / "buildlib", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "README.md").write_text("Kernels.\n")
    _copy("answer", root / "kernels" / "answer")
    _copy("second", root / "kernels" / "second")
    _plain("plain", root / "kernels" / "plain")
    _git(root, "init", "--quiet", "--initial-branch", "main")
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", "base")
    return root


@pytest.fixture
def clone(origin: Path, tmp_path: Path) -> Callable[..., Clone]:
    """A function that clones the repository, or a clone of it, under a name."""

    def make(name: str, *options: str, source: Path = origin) -> Clone:
        home = tmp_path / f"{name}-home"
        home.mkdir()
        _git(tmp_path, "clone", "--quiet", *options, f"file://{source}", name)
        return Clone(tmp_path / name, home)

    return make


@pytest.fixture
def work(clone: Callable[..., Clone]) -> Clone:
    return clone("work")


# --- what changed ---


def _edit_kernel(work: Clone) -> None:
    work.edit("kernels/answer/include/deep/far.h", "100", "200")


def _edit_description(work: Clone) -> None:
    work.edit("kernels/answer/build.toml", "-DFLAG=0", "-DFLAG=7")


def _edit_documentation(work: Clone) -> None:
    (work.root / "README.md").write_text("More words.\n")
    (work.root / "kernels/answer/CARD.md").write_text("A card.\n")
    work.edit("kernels/answer/tests/test_answer.py", "111", "1 + 110")


def _edit_template(work: Clone) -> None:
    work.edit("buildlib/templates/noarch/_ops.py.j2", "", "# edited\n")


def _edit_toolchains(work: Clone) -> None:
    work.edit("toolchains/platforms.toml", 'policy = "manylinux_2_28"', 'policy = "manylinux_2_28_and_more"')


def _add_kernel(work: Clone) -> None:
    _plain("fresh", work.root / "kernels" / "fresh")


def _break_kernel(work: Clone) -> None:
    work.edit("kernels/second/build.toml", "edition = 5", "edition = five")


def _delete_kernel(work: Clone) -> None:
    shutil.rmtree(work.root / "kernels" / "plain")


def _edit_shared_crate(work: Clone) -> None:
    crate = work.root / "kernels/_rust/kernelyard-rs/src/lib.rs"
    crate.write_text(crate.read_text() + "// edited\n")


@needs_cargo
def test_a_crate_that_kernels_share_changes_those_that_use_it(work: Clone) -> None:
    for path in ("kernels/_rust", "kernels/relu-rs"):
        shutil.copytree(ROOT / path, work.root / path)
    shutil.copy(ROOT / "Cargo.lock", work.root / "Cargo.lock")
    work.commit()
    assert work.changed("HEAD") == {}

    def changed(since: str) -> set[tuple[str, tuple[str, ...]]]:
        # Which variants for CUDA there are depends on the machine.
        found = work.changed(since)
        assert f"relu-rs:{_VARIANT}" in found
        assert all(name.startswith("relu-rs:") for name in found)
        return set(found.values())

    _edit_shared_crate(work)
    assert changed("HEAD") == {("build", ("shared crate",))}
    work.commit()
    assert work.changed("HEAD") == {}
    work.edit("kernels/relu-rs/src/lib.rs", "", "// edited\n")
    assert changed("HEAD~1") == {("build", ("sources", "shared crate"))}


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (_edit_kernel, {f"answer:{_VARIANT}": ("build", ("sources",))}),
        (_edit_description, {f"answer:{_VARIANT}": ("build", ("build.toml",))}),
        (_edit_documentation, {}),
        (_edit_template, {"plain:torch-cpu": ("build", ("templates",))}),
        (
            _edit_toolchains,
            {f"{name}:{_VARIANT}": ("build", ("toolchain",)) for name in ("answer", "second")},
        ),
        (_add_kernel, {"fresh:torch-cpu": ("build", ("new",))}),
        (_break_kernel, {"second": ("error", ())}),
        (_delete_kernel, {"plain:torch-cpu": ("deleted", ())}),
    ],
)
def test_a_branch_gets_exactly_the_rows_that_it_changes(
    work: Clone, edit: Callable[[Clone], None], expected: dict[str, tuple[str, tuple[str, ...]]]
) -> None:
    edit(work)
    # Committed or not, and whatever files say about when they were written.
    assert work.changed() == expected
    work.commit()
    for path in (work.root / "kernels").rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert work.changed() == expected


def test_a_commit_is_compared_with_and_nothing_is_checked_out(work: Clone) -> None:
    _edit_kernel(work)
    work.commit()
    _delete_kernel(work)
    before = work.git("status", "--porcelain")
    assert work.changed("HEAD") == {"plain:torch-cpu": ("deleted", ())}
    assert set(work.changed("HEAD~1")) == {"plain:torch-cpu", f"answer:{_VARIANT}"}
    assert work.git("status", "--porcelain") == before


def test_an_earlier_run_is_compared_with(work: Clone) -> None:
    assert work.doit("matrix", "--output", "build/matrix.json").status == 0
    assert work.changed("build/matrix.json") == {}
    _edit_kernel(work)
    assert work.changed("build/matrix.json") == {f"answer:{_VARIANT}": ("build", ("sources",))}


def test_what_did_not_parse_then_counts_as_changed(work: Clone) -> None:
    _break_kernel(work)
    work.commit()
    assert work.changed("HEAD") == {}
    work.edit("kernels/second/build.toml", "edition = five", "edition = 5")
    (row,) = work.json("matrix", "--changed-since", "HEAD")
    assert row["kernel"] == "second"
    assert row["reason"].startswith("cannot be compared: in HEAD, kernels/second/build.toml:")


def test_links_in_a_commit_are_followed(work: Clone) -> None:
    shared = work.root / "kernels/answer/include/deep/shared.h"
    (work.root / "kernels/answer/include/deep/far.h").rename(shared)
    (work.root / "kernels/answer/include/deep/far.h").symlink_to("shared.h")
    assert work.changed() == {}
    work.commit()
    assert work.changed("HEAD") == {}


@pytest.mark.parametrize(
    ("since", "message"),
    [
        ("nowhere", "nowhere: git knows no such commit, branch or tag; correct its name, or get it with 'git fetch"),
        ("--help", "--help: git knows no such commit"),
        ("nowhere.json", "nowhere.json: cannot be read (No such file or directory)"),
    ],
)
def test_what_cannot_be_compared_with_is_said(work: Clone, since: str, message: str) -> None:
    for command in ("matrix", "build"):
        done = work.doit(command, f"--changed-since={since}")
        assert (done.status != 0, done.out) == (True, "")
        assert message in done.err
        assert "Traceback" not in done.err


def test_a_shallow_clone_says_how_to_get_the_rest(clone: Callable[..., Clone]) -> None:
    shallow = clone("shallow", "--depth", "1")
    done = shallow.doit("matrix", "--changed-since", "HEAD^")
    assert done.status != 0
    assert "this clone is shallow; get its history with 'git fetch --unshallow'" in done.err


def test_a_folder_that_is_no_repository(work: Clone) -> None:
    shutil.rmtree(work.root / ".git")
    assert "is no git repository; compare with a matrix.json" in work.doit("matrix", "--changed-since", "HEAD").err


def test_without_rows_there_is_nothing_to_do(work: Clone) -> None:
    assert work.json("matrix", "--changed-since", "HEAD") == []
    shards = work.doit("matrix", "--changed-since", "HEAD", "--shards", "3", "--output", "build/plan.json", "--outputs")
    assert (shards.status, shards.out) == (0, 'rows=0\nmatrix={"include":[]}\n')
    for selection in (("--changed-since", "HEAD"), ("--rows", "build/plan.json", "--shard", "1")):
        done = work.doit("build", "check", "test", *selection)
        assert (done.status, done.out) == (0, "nothing to do: no row is selected\n")
    assert work.doit("summary").out == "### Kernels\n\nNothing to do.\n"
    assert work.doit("pack", "--rows", "build/plan.json", "--to", "build/empty.tar").status == 0
    assert work.doit("unpack", "build/empty.tar", "--rows", "build/plan.json").status == 0


def test_nothing_to_compare_with_selects_everything(work: Clone) -> None:
    everything = {row["kernel"] for row in work.json("matrix")}
    assert {row["kernel"] for row in work.json("matrix", "--changed-since=")} == everything
    assert {row["kernel"] for row in work.json("matrix", "--changed-since", "0" * 40, "answer", "plain")} == {
        "answer",
        "plain",
    }


def test_options_that_do_not_fit_are_refused(work: Clone) -> None:
    assert "--shard: which rows?" in work.doit("build", "--shard", "1").err
    assert "--shards 0: there is nothing to split for" in work.doit("matrix", "--shards", "0").err
    work.doit("matrix", "--output", "build/plan.json")
    for words in (("matrix", "--output", "build"), ("matrix", "-o", "README.md/x")):
        nowhere = work.doit(*words)
        assert (nowhere.status, "Traceback" in nowhere.err) == (3, False), nowhere.err
    both = work.doit("build", "--rows", "build/plan.json", "--changed-since", "HEAD")
    assert "both select rows; give one of the two" in both.err
    _edit_kernel(work)
    stranger = work.doit("build", "--rows", "build/plan.json")
    assert f"answer:{_VARIANT}: has other sources or another toolchain here" in stranger.err
    assert not work.artifact("second").exists()


# --- the whole flow ---


def test_from_a_branch_to_artifacts_that_are_tested_elsewhere(clone: Callable[..., Clone]) -> None:
    branch = clone("branch")
    branch.edit("kernels/answer/value/near.h", "10", "20")
    branch.edit("kernels/answer/tests/test_answer.py", "111", "121")
    branch.edit("kernels/second/value/near.h", "10", "30")
    branch.edit("kernels/second/tests/test_answer.py", "111", "131")
    branch.commit()

    outputs = branch.doit(
        "matrix", "--changed-since", "HEAD^", "--shards", "5", "--output", "build/plan.json", "--outputs"
    ).out
    assert outputs.splitlines()[0] == "rows=2"
    include = json.loads(outputs.splitlines()[1].removeprefix("matrix="))["include"]
    assert [(entry["shard"], entry["rows"]) for entry in include] == [(1, 1), (2, 1)]

    shards = [clone(f"shard-{number}", source=branch.root) for number in (1, 2)]
    for shard in shards:
        (shard.root / "build").mkdir()
        shutil.copy(branch.root / "build/plan.json", shard.root / "build/plan.json")
    runs = [
        shard.start("check", "test", "--rows", "build/plan.json", "--shard", str(number))
        for number, shard in enumerate(shards, start=1)
    ]
    results = [_end(run) for run in runs]
    assert [run.status for run in results] == [0, 0], results
    for name, run in zip(("answer", "second"), results, strict=True):
        assert run.ran() == [f"{stage}:{name}:{_VARIANT}" for stage in ("build", "check", "test")]
    assert f"| answer | {_VARIANT.replace('_', chr(92) + '_')} | ✓ | ✓ | ✓ 1 passed |" in shards[0].doit("summary").out

    _publish_at_once(shards, branch.home / "hub")

    tester = clone("tester", source=branch.root)
    packed = tester.root / "build" / "packed"
    packed.mkdir(parents=True)
    shutil.copy(branch.root / "build/plan.json", tester.root / "build/plan.json")
    for number, shard in enumerate(shards, start=1):
        selection = ("--rows", "build/plan.json", "--shard", str(number))
        assert shard.doit("pack", *selection, "--to", f"build/{number}.tar").status == 0
    _test_elsewhere(tester, [shard.root / "build" / f"{number}.tar" for number, shard in enumerate(shards, start=1)])


def _publish(tester: Clone, hub: Path) -> None:
    """As main's last job does it: what was unpacked goes to the hub, and a second run has nothing to add."""
    assert "no identity" in tester.doit("sign", "--built", "--rows", "build/plan.json", CXX="no-such-compiler").out
    arguments = ("publish", "--built", "--rows", "build/plan.json", f"--to=file:{hub}", "--output-json=build/out.json")
    # Half of it, as a job that is stopped leaves it behind; the job that is run again finishes it.
    assert tester.doit(*arguments, "answer").status == 0
    assert [path.name for path in sorted(hub.glob("kernels--*"))] == ["kernels--kernelyard-test--answer"]
    done = tester.doit(*arguments, CXX="no-such-compiler")
    assert done.status == 0, done.out + done.err
    first = _tree(hub)
    assert {path.split("/")[0] for path in first} == {
        f"kernels--kernelyard-test--{name}" for name in ("answer", "second")
    }
    assert tester.doit(*arguments, CXX="no-such-compiler").status == 0
    assert _tree(hub) == first
    rows = json.loads((tester.root / "build/out.json").read_text())
    assert {row["kernel"]: row["status"] for row in rows["kernels"]} == {"answer": "no_changes", "second": "no_changes"}


def _publish_at_once(shards: list[Clone], hub: Path) -> None:
    """Two jobs that publish to one hub at the same time both get their own kernels there."""
    arguments = ("publish", "--rows", "build/plan.json", f"--to=file:{hub}")
    runs = [shard.start(*arguments, "--shard", str(number)) for number, shard in enumerate(shards, start=1)]
    results = [_end(run) for run in runs]
    assert [run.status for run in results] == [0, 0], results
    assert [path.name.rpartition("--")[2] for path in sorted(hub.glob("kernels--*"))] == ["answer", "second"]


def _tree(folder: Path) -> dict[str, int]:
    """The time of each file, by path: what a run rewrites has another."""
    return {str(path.relative_to(folder)): path.lstat().st_mtime_ns for path in folder.rglob("*") if not path.is_dir()}


def _test_elsewhere(tester: Clone, files: list[Path]) -> None:
    """On a machine without a compiler: what is missing or altered is named, and nothing is built in its place."""
    no_compiler = {"CXX": "no-such-compiler"}
    rows = ("--rows", "build/plan.json")
    packed = tester.root / "build" / "packed"
    shutil.copy(files[0], packed)
    missing = tester.doit("unpack", "build/packed", *rows, **no_compiler)
    assert missing.status != 0
    assert f"second:{_VARIANT}: its artifact did not come" in missing.err
    assert not tester.artifact("answer").exists()

    untested = tester.doit("test", "--built", *rows, **no_compiler)
    assert untested.status != 0
    assert f"the artifact of answer:{_VARIANT} is missing" in untested.err

    shutil.copy(files[1], packed)
    assert tester.doit("unpack", "build/packed", *rows, **no_compiler).status == 0
    tested = tester.doit("check", "test", "--built", *rows, **no_compiler)
    assert tested.status == 0, tested.out
    assert {name for name in tested.ran() if name.startswith("test:")} == {
        f"test:{name}:{_VARIANT}" for name in ("answer", "second")
    }
    assert not (tester.root / "build" / "work" / "answer" / _VARIANT / "cmake").exists()

    _publish(tester, tester.home / "hub")

    (library,) = tester.artifact("answer").glob("*.so")
    library.write_bytes(library.read_bytes() + b"!")
    altered = tester.doit("test", "--built", **no_compiler)
    assert altered.status != 0
    assert f"{library.name}: altered; build answer:{_VARIANT} again, or hand it over anew" in altered.out
    assert f"NOT RUN     test:answer:{_VARIANT}" in altered.out
    assert library.read_bytes().endswith(b"!")
    again = tester.doit("pack", "answer", "--to", "build/again.tar", **no_compiler)
    assert (again.status != 0, f"answer:{_VARIANT}: was not built" in again.err) == (True, True)


def test_ci_writes_workflows_for_another_repository(work: Clone) -> None:
    shutil.rmtree(work.root / "buildlib")
    missing = work.doit("ci", "--check", PYTHONPATH=str(ROOT))
    assert (missing.status != 0, "run 'doit ci', and commit the files" in missing.err) == (True, True)
    written = work.doit("ci", PYTHONPATH=str(ROOT))
    assert ".github/workflows/pull-request.yml: written" in written.out
    assert work.doit("ci", "--check", PYTHONPATH=str(ROOT)).status == 0
    assert not (work.root / ".github/workflows/release.yml").exists()


def test_cache_keys_follow_what_is_kept(work: Clone) -> None:
    before = {cache["name"]: cache for cache in work.json("cache-key")}
    assert before["toolchains"]["paths"] == [str(work.home / "cache")]
    _edit_kernel(work)
    after = {cache["name"]: cache for cache in work.json("cache-key")}
    assert {name for name in before if before[name] != after[name]} == {"objects"}
    assert before["objects"]["restore"] == after["objects"]["restore"]
