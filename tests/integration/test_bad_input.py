"""What is wrong with one kernel is said in one message that names file, key and remedy, and stops no other kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.conftest import Yard


def _edit(old: str, new: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        toml = folder / "build.toml"
        text = toml.read_text()
        assert old in text
        toml.write_text(text.replace(old, new))

    return apply


def _remove_toml(folder: Path) -> None:
    (folder / "build.toml").unlink()


def _toml_is_folder(folder: Path) -> None:
    (folder / "build.toml").unlink()
    (folder / "build.toml").mkdir()


def _not_utf8(folder: Path) -> None:
    (folder / "build.toml").write_bytes(b'[general]\nname = "\xff"\n')


CASES = {
    "missing": (_remove_toml, ["kernels/bad/build.toml: there is no such file"]),
    "folder": (_toml_is_folder, ["kernels/bad/build.toml"]),
    "not UTF-8": (_not_utf8, ["kernels/bad/build.toml", "UTF-8"]),
    "syntax": (_edit("version = 1", "version = = 1"), ["kernels/bad/build.toml:5:11: this is not a value"]),
    "unknown key": (_edit('license = "', 'licence = "'), ["[general]", "licence", "did you mean 'license'?"]),
    "missing source": (_edit("value/value.cpp", "value/valve.cpp"), ["[kernel.value]", "src", "value/valve.cpp"]),
    "source outside": (_edit("value/value.cpp", "../answer/value/value.cpp"), ["[kernel.value]", "src", ".."]),
    "source absolute": (_edit("value/value.cpp", "/etc/passwd"), ["[kernel.value]", "src", "/etc/passwd"]),
    "source is a folder": (_edit("value/value.cpp", "value"), ["[kernel.value]", "src", "folder"]),
    "name": (_edit('name = "answer"', 'name = "Answer_1"'), ["[general]", "name", "Answer_1"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_broken_build_toml_stops_no_other_kernel(yard: Yard, case: str) -> None:
    yard.add("answer")
    folder = yard.add("answer", "bad", rename=lambda text: text.replace("test/answer", "test/bad"))
    breaking, expected = CASES[case]
    breaking(folder)
    result = yard.doit("build")
    assert result.status == 1
    assert "ok     build:answer:tvm-ffi01-cpu-x86_64-linux" in result.out
    said = result.out[result.out.index("FAILED build:bad") :]
    for words in expected:
        assert words in said
    assert "Traceback" not in result.out + result.err
    assert str(yard.root) not in result.out + result.err
    assert not (yard.root / "build" / "kernels" / "bad").exists()


@pytest.mark.parametrize("command", ["list", "matrix", "build:bad", "check:bad", "test:bad"])
def test_every_command_reports_it(yard: Yard, command: str) -> None:
    yard.add("answer")
    folder = yard.add("answer", "bad", rename=lambda text: text.replace('license = "', 'licence = "'))
    assert folder.exists()
    result = yard.doit(command)
    assert "did you mean 'license'?" in result.out + result.err
    assert (result.status == 0) is (command in {"list", "matrix"})


def test_two_folders_with_one_name_are_legal(yard: Yard) -> None:
    yard.add("answer")
    yard.add("answer", "answer-too", rename=lambda text: text.replace("test/answer", "test/too"))
    assert yard.doit("build").status == 0
    assert yard.answer("answer-too") == 111


def test_two_folders_with_one_hub_target_are_refused(yard: Yard) -> None:
    yard.add("answer")
    yard.add("answer", "copy")
    result = yard.doit("build")
    assert result.status == 1
    assert "kernels/copy/build.toml" in result.out
    assert "published to kernelyard-test/answer, branch v1, as is kernels/answer" in result.out
    assert not (yard.root / "build" / "kernels").exists()


@pytest.mark.parametrize(
    ("words", "close"),
    [
        (["buidl:*"], "did you mean build?"),
        (["answer"], "did you mean build:answer"),
        (["build:anser"], "did you mean build:answer"),
        (["build:*:*-cu999-*"], "selects nothing"),
        (["matrix", "anser"], "did you mean answer"),
        (["clean", "anser"], "did you mean answer"),
        (["info", "build:anser"], "did you mean build:answer"),
        (["list", "build:anser"], "did you mean build:answer"),
    ],
)
def test_a_selection_that_matches_nothing_is_an_error(yard: Yard, words: list[str], close: str) -> None:
    yard.add("answer")
    result = yard.doit(*words)
    assert result.status != 0
    assert close in result.err
    assert "Traceback" not in result.err


def test_a_missing_compiler_is_one_line(yard: Yard) -> None:
    yard.add("answer")
    result = yard.doit("build", CXX="no-such-compiler")
    assert result.status == 1
    lines = [line for line in result.out.splitlines() if "no-such-compiler" in line and not line.startswith("FAILED")]
    assert len(lines) == 1
    assert "apt-get install g++" in lines[0]


def test_an_old_compiler_is_one_line(yard: Yard, tmp_path: Path) -> None:
    yard.add("answer")
    compiler = tmp_path / "c++"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *-dM*) echo "#define __GNUC__ 7" ;; *) echo x86_64-linux-gnu ;; esac\n'
    )
    compiler.chmod(0o755)
    result = yard.doit("build", CXX=str(compiler))
    assert result.status == 1
    assert re.search(r"gcc 7\.0\.0, older than 11\.0; install one", result.out)


def test_a_number_of_jobs_that_is_none_is_one_line(yard: Yard) -> None:
    yard.add("answer")
    result = yard.doit("build", MAX_JOBS="many")
    assert (result.status, result.out) == (3, "")
    assert result.err == "ERROR: MAX_JOBS: 'many' is no number of jobs; set it to 1 or more, or unset it\n"


def test_a_broken_data_file_of_the_builder_is_one_line(yard: Yard) -> None:
    yard.add("answer")
    (yard.root / "toolchains" / "variants.toml").write_text('[[torch]]\nversion = "2.13"\nx86_64-linux = ["cu"]\n')
    result = yard.doit("list")
    assert result.status == 3
    assert "toolchains/variants.toml" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["build", "-n", "-3"], "-n -3: not a number of jobs; use 1 or more"),
        (["build", "--no-such"], "--no-such: there is no such option here; 'doit help run' shows the options"),
        (["migrate:answer", "--to", "x"], "option 'to': 'x' is no whole number; write one"),
        (["info"], "doit info: 0 tasks; name one, 'doit list --all' shows all names"),
    ],
)
def test_a_wrong_command_line_is_one_line(yard: Yard, words: list[str], said: str) -> None:
    yard.add("answer")
    result = yard.doit(*words)
    assert (result.status, result.err) == (3, f"ERROR: {said}\n")


@pytest.mark.parametrize("command", ["build", "list", "matrix", "clean", "info", "verify"])
def test_a_broken_database_of_doit_is_one_line(yard: Yard, command: str) -> None:
    yard.add("answer")
    (yard.root / "build").mkdir()
    (yard.root / "build" / "doit.sqlite3").write_text("no database, but text that is long enough to be looked at" * 9)
    result = yard.doit(command)
    assert result.status == 3
    assert result.err == "ERROR: build/doit.sqlite3: file is not a database; remove it, as nothing in it is needed\n"


def test_a_file_where_the_build_folder_goes_is_one_line(yard: Yard) -> None:
    yard.add("answer")
    (yard.root / "build").write_text("")
    result = yard.doit("build")
    assert result.status == 3
    assert result.err == "ERROR: build: a file is where the folder of all that is built goes; move it away\n"


@pytest.mark.parametrize("breaking", [_remove_toml, _toml_is_folder, _not_utf8], ids=["missing", "folder", "not UTF-8"])
def test_what_cannot_be_migrated_is_one_line(yard: Yard, breaking: Callable[[Path], None]) -> None:
    breaking(yard.add("answer"))
    result = yard.doit("migrate:answer")
    assert result.status == 1
    assert "kernels/answer/build.toml" in result.out
    assert "Traceback" not in result.out
    assert str(yard.root) not in result.out


def test_an_empty_repository_has_nothing_to_do(yard: Yard) -> None:
    assert yard.doit("build").status == 0
    assert yard.doit("matrix").out == "[]\n"
    assert os.listdir(yard.root / "kernels") == []
