"""ci/doit: what it says on a machine that lacks something, and how little it does once everything is there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "ci").mkdir()
    shutil.copy(ROOT / "ci" / "doit", tmp_path / "ci" / "doit")
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    return tmp_path


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A PATH with the few programs that any system has."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "dirname", "cmp", "cp", "cat", "touch"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    return folder


def _program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def _launch(checkout: Path, bare: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(checkout / "ci" / "doit"), *arguments],
        cwd=os.sep,
        env={"PATH": str(bare)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_python(checkout: Path, bare: Path) -> None:
    done = _launch(checkout, bare, "list")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "ci/doit: Python is missing; install Python 3.11 or newer (apt-get install python3 python3-venv)"
    ]


def test_with_an_old_python(checkout: Path, bare: Path) -> None:
    _program(bare, "python3", 'case "$1" in --version) echo "Python 3.9.2" ;; *) exit 1 ;; esac')
    done = _launch(checkout, bare, "list")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "ci/doit: Python 3.9.2 is too old; install Python 3.11 or newer, or set PYTHON to one"
    ]


def test_without_a_compiler(checkout: Path, bare: Path) -> None:
    _program(bare, "python3", "exit 0")
    done = _launch(checkout, bare, "list")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "ci/doit: a C++ compiler is missing; install g++ 11 or newer (apt-get install g++)"
    ]


@pytest.mark.parametrize("arguments", [("unpack", "build/packed"), ("test", "--built"), ("test", "--built", "-n", "1")])
def test_what_was_built_elsewhere_needs_no_compiler(checkout: Path, bare: Path, arguments: tuple[str, ...]) -> None:
    _program(bare, "python3", 'case "$*" in *venv*) exit 1 ;; esac')
    assert "compiler" not in _launch(checkout, bare, *arguments).stderr


def test_without_the_venv_module(checkout: Path, bare: Path) -> None:
    _program(bare, "python3", 'case "$*" in *venv*) exit 1 ;; esac')
    _program(bare, "c++", "exit 0")
    done = _launch(checkout, bare, "list")
    assert done.returncode == 1
    assert "install its venv module (apt-get install python3-venv)" in done.stderr


def test_installs_once_and_again_when_pyproject_changes(checkout: Path, bare: Path) -> None:
    # A python that makes a venv whose pip and doit only say what they were called with.
    _program(
        bare,
        "python3",
        f"""case "$*" in *venv*)
  /bin/mkdir -p .venv/bin
  printf '#!/bin/sh\\necho pip "$@"\\n' >.venv/bin/pip
  printf '#!/bin/sh\\necho doit "$@"\\n' >.venv/bin/doit
  /bin/chmod +x .venv/bin/pip .venv/bin/doit ;;
esac
: {checkout}""",
    )
    _program(bare, "c++", "exit 0")
    first = _launch(checkout, bare, "build:a b", "-n", "2")
    assert first.stdout.splitlines() == [
        "pip install --quiet --disable-pip-version-check --editable .[dev]",
        "doit build:a b -n 2",
    ]
    assert _launch(checkout, bare, "list").stdout == "doit list\n"
    with (checkout / "pyproject.toml").open("a") as file:
        file.write("# a change\n")
    assert _launch(checkout, bare, "list").stdout.startswith("pip install")


def test_a_failed_install_is_tried_again(checkout: Path, bare: Path) -> None:
    _program(
        bare,
        "python3",
        "/bin/mkdir -p .venv/bin; printf '#!/bin/sh\\nexit 7\\n' >.venv/bin/pip; /bin/chmod +x .venv/bin/pip",
    )
    _program(bare, "c++", "exit 0")
    for _ in range(2):
        assert _launch(checkout, bare, "list").returncode == 7
