"""Scratch checkouts in which doit runs for real, as a user runs it."""

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

from buildlib import environment

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = ROOT / "tests" / "projects"


def _runs(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


# rustup's stand-in for cargo is there, and fails, where a home folder has no toolchain.
needs_cargo = pytest.mark.skipif(not _runs("cargo", "--version"), reason="needs a cargo that works")


@dataclass(frozen=True)
class Result:
    """How a run of doit ended."""

    status: int
    out: str
    err: str

    def ran(self) -> list[str]:
        """The names of the tasks that did something, in order."""
        return [line.split()[1] for line in self.out.splitlines() if line.startswith(("ok ", "?? ", "FAILED "))
                and ":" in line.split()[1] and not line.split()[1].endswith(":")]  # fmt: skip


@dataclass(frozen=True)
class Yard:
    """A checkout with the builder's dodo.py and toolchains, and kernels of a test's choice."""

    root: Path
    cache: Path

    def add(self, project: str, folder: str | None = None, **edits: Callable[[str], str]) -> Path:
        """Copy tests/projects/<project> to kernels/<folder>; `edits` change the text of build.toml."""
        target = self.root / "kernels" / (folder or project)
        shutil.copytree(PROJECTS / project, target)
        for edit in edits.values():
            toml = target / "build.toml"
            toml.write_text(edit(toml.read_text()))
        return target

    def environ(self, **extra: str) -> dict[str, str]:
        dropped = {"CXX", "MAX_JOBS", "LOCAL_KERNELS", "PYTHONHASHSEED"}
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        return kept | {"KERNELYARD_CACHE": str(self.cache), "PYTHONDONTWRITEBYTECODE": "1"} | extra

    def doit(self, *arguments: str, **extra: str) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "doit", *arguments],
            cwd=self.root,
            env=self.environ(**extra),
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """`doit` without waiting for it."""
        return subprocess.Popen(
            [sys.executable, "-m", "doit", *arguments],
            cwd=self.root,
            env=self.environ(**extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def artifact(self, kernel: str) -> Path:
        """The only artifact of a kernel."""
        (found,) = (self.root / "build" / "kernels" / kernel / "build").iterdir()
        return found

    def metadata(self, kernel: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.artifact(kernel) / "metadata.json").read_text())
        return loaded

    def objects(self, kernel: str) -> dict[str, int]:
        """The time of each object of a kernel, by path: a changed time is a compiler that ran."""
        (work,) = (self.root / "build" / "work" / kernel).iterdir()
        folder = work / "cmake" / "CMakeFiles" / "extension.dir"
        return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in sorted(folder.rglob("*.o"))}

    def call(self, code: str, **extra: str) -> str:
        """What Python prints for `code`, in another folder and without this checkout on its path."""
        done = subprocess.run(
            [sys.executable, "-I", "-c", code],
            cwd=self.cache,
            env=self.environ(**{"HF_HUB_OFFLINE": "1", **extra}),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def answer(self, kernel: str = "answer") -> int:
        """What the built `answer` kernel returns, loaded by the client in a process of its own."""
        artifact = str(self.artifact(kernel))
        return int(
            self.call(
                f"from pathlib import Path; from kernels import get_local_kernel; "
                f"print(get_local_kernel(Path({artifact!r})).answer())"
            )
        )


def new_yard(root: Path, cache: Path) -> Yard:
    """A checkout without kernels at `root`."""
    (root / "kernels").mkdir(parents=True)
    for file in ("dodo.py", "pyproject.toml"):
        shutil.copy(ROOT / file, root / file)
    shutil.copytree(ROOT / "toolchains", root / "toolchains")
    return Yard(root, cache)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def user_cache() -> Path:
    """The user's own cache, for kernels in tiles: the crates of cutile take minutes to compile."""
    return environment.read().cache


@pytest.fixture
def make_yard(tmp_path: Path, cache: Path) -> Callable[[str], Yard]:
    """A function that makes a checkout under the test's folder, at a path of its choice."""

    return lambda name: new_yard(tmp_path / name, cache)


@pytest.fixture
def yard(make_yard: Callable[[str], Yard]) -> Yard:
    return make_yard("yard")
