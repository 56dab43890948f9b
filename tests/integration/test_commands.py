"""Commands beside build, check and test."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.integration.conftest import Yard


def test_list_has_a_line_of_help_for_each_command(yard: Yard) -> None:
    yard.add("answer")
    result = yard.doit("list")
    assert result.status == 0
    commands = {line.split()[0]: line.partition(" ")[2].strip() for line in result.out.splitlines()}
    assert commands.keys() == {
        "build", "check", "test", "lint", "dist", "lock", "migrate", "schema",
        "clean", "matrix", "publish", "sign", "verify", "pack", "unpack", "cache-key", "summary", "ci", "toolchain",
    }  # fmt: skip
    assert all(commands.values())


@pytest.mark.parametrize("words", [[], ["answer"], ["answer:tvm-ffi01-cpu-x86_64-linux"], ["ans*:*x86*"]])
def test_matrix_is_json(yard: Yard, words: list[str]) -> None:
    yard.add("answer")
    rows = json.loads(yard.doit("matrix", *words).out)
    here = next(row for row in rows if row["variant"] == "tvm-ffi01-cpu-x86_64-linux")
    assert here.pop("digest").isalnum()
    assert {"build.toml", "sources", "toolchain"} <= here.pop("parts").keys()
    assert here == {
        "kernel": "answer",
        "variant": "tvm-ffi01-cpu-x86_64-linux",
        "backend": "cpu",
        "framework": "tvm-ffi",
        "status": "build",
        "reason": None,
    }
    assert {row["status"] for row in rows} <= {"build", "skip"}
    assert all(row["reason"] for row in rows if row["status"] == "skip")


def test_the_digest_of_the_matrix_is_that_of_the_artifact(yard: Yard) -> None:
    yard.add("answer")
    yard.doit("build")
    (row,) = json.loads(yard.doit("matrix", "answer:*x86*").out)
    assert row["digest"] == yard.metadata("answer")["kernelyard"]["digest"]


@pytest.mark.parametrize("command", ["list", "matrix", "build"])
def test_a_reader_that_leaves_early_is_no_error(yard: Yard, command: str) -> None:
    yard.add("answer")
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m doit {command} | true'],
        cwd=yard.root,
        env=yard.environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["run", "list", "clean", "matrix", "ci", "publish", "verify", "toolchain"])
def test_an_unknown_option_is_one_line(yard: Yard, command: str) -> None:
    refused = yard.doit(command, "--bogus")
    assert (refused.status, refused.out) == (3, "")
    assert refused.err == f"ERROR: --bogus: there is no such option here; 'doit help {command}' shows the options\n"


def test_options_may_stand_behind_names(yard: Yard) -> None:
    yard.add("answer")
    listed = yard.doit("list", "build", "--all")
    assert (listed.status, "build:answer:tvm-ffi01-cpu-x86_64-linux" in listed.out) == (0, True)
    verified = yard.doit("verify", "answer", "--identity", "somebody")
    assert (verified.status, verified.out.count("no metadata.json that can be read")) == (1, 1)


def test_info_says_why_a_task_would_run(yard: Yard) -> None:
    folder = yard.add("answer")
    task = "build:answer:tvm-ffi01-cpu-x86_64-linux"
    artifact = "build/kernels/answer/build/tvm-ffi01-cpu-x86_64-linux"
    assert f" * There is no artifact in {artifact}." in yard.doit("info", task).out
    yard.doit("build")
    assert "up-to-date" in yard.doit("info", task).out
    (yard.root / artifact / "data.json").unlink()
    assert " * The artifact is not whole: data.json: missing." in yard.doit("info", task).out
    (folder / "value" / "near.h").write_text("#define NEAR 9\n")
    assert " * The sources, build.toml, the builder or the toolchain are not those" in yard.doit("info", task).out
    assert " * It was not checked as it is now" in yard.doit("info", task.replace("build:", "check:", 1)).out


def test_clean_says_what_it_removed(yard: Yard) -> None:
    yard.add("answer")
    yard.doit("build")
    name = "answer:tvm-ffi01-cpu-x86_64-linux"
    assert yard.doit("clean", "--dry-run", "answer").out == f"would remove {name}\n"
    assert yard.doit("clean", "answer").out == f"removed {name}\n"
    assert yard.doit("clean").out == "nothing to remove\n"


def test_migrating_rebuilds_nothing(yard: Yard) -> None:
    folder = yard.add("answer")
    before = (folder / "build.toml").read_text()
    yard.doit("build")
    assert yard.doit("migrate:answer").status == 0
    migrated = (folder / "build.toml").read_text()
    assert "edition = 6" in migrated
    assert 'language = "cpp-cpu"' in migrated
    assert yard.doit("build").ran() == []
    assert "edition 6 already" in yard.doit("migrate:answer").out
    assert yard.doit("migrate:answer", "--to", "5").status == 0
    assert (folder / "build.toml").read_text() == before
    assert "use 5 or 6" in yard.doit("migrate:answer", "--to", "7").out


def test_an_old_edition_can_be_migrated(yard: Yard) -> None:
    folder = yard.add(
        "answer", as_edition_3=lambda text: text.replace("edition = 5\n", "").replace("version = 1\n", "")
    )
    assert "migrate" in yard.doit("build").out
    assert yard.doit("migrate:answer").status == 0
    assert "edition = 6" in (folder / "build.toml").read_text()
    assert yard.doit("build").status == 0


def test_generated_help_for_authors_is_current(yard: Yard) -> None:
    from tests.integration.conftest import ROOT  # noqa: PLC0415

    assert yard.doit("schema").status == 0
    for name in ("kernels/build.schema.json", "docs/build-toml.md"):
        assert (yard.root / name).read_text() == (ROOT / name).read_text()


def test_a_kernel_that_tests_load_is_built_first(yard: Yard) -> None:
    yard.add("answer", "used", rename=lambda text: text.replace("test/answer", "test/used"))
    tests = yard.add("answer") / "tests" / "test_answer.py"
    tests.write_text(tests.read_text().replace("test/answer", "test/used"))
    result = yard.doit("test:answer")
    assert result.status == 0, result.out
    assert "build:used:tvm-ffi01-cpu-x86_64-linux" in result.ran()
