"""Headers from a tag of a git repository, fetched for real from one on this machine."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import Yard

_FILES = {
    "include/cutlass/version.h": "#define CUTLASS_MAJOR 4\n",
    "tools/util/include/cutlass/util/device.h": "\n",
    "test/unit/big.cu": "\n" * 1000,
    "README.md": "\n",
}
_TASK = "toolchain:cutlass-4.0"


@dataclass(frozen=True)
class _Repository:
    root: Path

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
        done = subprocess.run(["git", *identity, *arguments], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "a release")
        self.git("tag", "--force", "-a", "v4.0.0", "-m", "a release")
        return self.git("rev-parse", "HEAD")

    def name_in(self, yard: Yard, commit: str, url: str | None = None) -> None:
        """Let a checkout fetch CUTLASS 4.0 from here."""
        data = yard.root / "toolchains" / "deps.toml"
        text = re.sub(r"(?m)^\[cutlass_4_0\.git\]\n(?:\w.*\n)+", "", data.read_text())
        git = f'url = "{url or self.root.as_uri()}"\ntag = "v4.0.0"\ncommit = "{commit}"\nsize = 1000\n'
        data.write_text(f"{text}\n[cutlass_4_0.git]\n{git}")


@pytest.fixture
def repository(tmp_path: Path) -> _Repository:
    made = _Repository(tmp_path / "repository with a space")
    for path, text in _FILES.items():
        (made.root / path).parent.mkdir(parents=True, exist_ok=True)
        (made.root / path).write_text(text)
    made.git("init", "--quiet")
    return made


@pytest.fixture
def fresh(tmp_path: Path) -> dict[str, str]:
    """A cache in which there is nothing yet, as a variable."""
    return {"KERNELYARD_CACHE": str(tmp_path / "fresh")}


def _toolchains(fresh: dict[str, str]) -> list[Path]:
    """What is in the cache beside locks, half-made folders included."""
    return [path for path in Path(fresh["KERNELYARD_CACHE"], "toolchains").iterdir() if path.suffix != ".lock"]


@pytest.mark.parametrize("filters", ["true", "false"], ids=["a server that sends what is wanted", "one that sends all"])
def test_the_wanted_folders_of_a_tag(yard: Yard, repository: _Repository, fresh: dict[str, str], filters: str) -> None:
    repository.name_in(yard, repository.commit())
    repository.git("config", "uploadpack.allowFilter", filters)
    result = yard.doit(_TASK, **fresh)
    assert result.status == 0, result.out
    (root,) = _toolchains(fresh)
    kept = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert kept == {"toolchain.json", *(path for path in _FILES if "include" in path)}
    listed = next(line for line in yard.doit("toolchain", **fresh).out.splitlines() if line.startswith("cutlass-4.0"))
    assert "provisioned" in listed
    assert "can be" not in listed
    assert "v4.0.0" in listed


def test_two_processes_fetch_it_once(
    make_yard: Callable[[str], Yard], repository: _Repository, fresh: dict[str, str]
) -> None:
    yards = [make_yard(name) for name in ("one", "two")]
    commit = repository.commit()
    for yard in yards:
        repository.name_in(yard, commit)
    runs = [yard.start(_TASK, **fresh) for yard in yards]
    for run in runs:
        out, _ = run.communicate(timeout=300)
        assert run.returncode == 0, out
    assert len(_toolchains(fresh)) == 1


def test_a_moved_tag_is_refused_and_leaves_nothing(yard: Yard, repository: _Repository, fresh: dict[str, str]) -> None:
    before = repository.commit()
    (repository.root / "README.md").write_text("moved\n")
    after = repository.commit()
    repository.name_in(yard, before)
    result = yard.doit(_TASK, **fresh)
    assert result.status == 1
    said = (
        f"the tag v4.0.0 is commit {after}, and toolchains/deps.toml names {before}; ask who moved it, or set CUTLASS"
    )
    assert said in result.out
    assert _toolchains(fresh) == []


def test_out_of_reach_is_skipped_with_the_variable_that_helps(
    yard: Yard, repository: _Repository, fresh: dict[str, str], tmp_path: Path
) -> None:
    repository.name_in(yard, repository.commit(), (tmp_path / "nowhere").as_uri())
    result = yard.doit(_TASK, **fresh)
    assert result.status == 0, result.out
    assert "toolchain cutlass-4.0 cannot be fetched: git failed (fatal: " in result.out
    assert "set CUTLASS_DIR to a checkout of its tag v4.0.0" in result.out
    assert _toolchains(fresh) == []


def test_without_git_it_is_skipped(yard: Yard, repository: _Repository, fresh: dict[str, str], tmp_path: Path) -> None:
    repository.name_in(yard, repository.commit())
    result = yard.doit(_TASK, **fresh, PATH=str(tmp_path))
    assert result.status == 0, result.out
    assert "git is not on this machine; install it, or set CUTLASS_DIR" in result.out


def test_the_users_checkout_is_not_fetched(yard: Yard, repository: _Repository, fresh: dict[str, str]) -> None:
    header = "".join(f"#define CUTLASS_{part} {n}\n" for part, n in (("MAJOR", 4), ("MINOR", 0), ("PATCH", 0)))
    (repository.root / "include/cutlass/version.h").write_text(header)
    listed = yard.doit("toolchain", **fresh, CUTLASS_DIR=str(repository.root)).out
    assert not re.search("^cutlass-4.0 ", listed, re.MULTILINE)


_KERNEL = "cuda:tvm-ffi01-cu130-x86_64-linux"


def _depending(yard: Yard) -> Path:
    """A CUDA kernel whose one component depends on CUTLASS, and refuses another than 4."""
    folder = yard.add("cuda", depends=lambda text: text.replace("depends = []", 'depends = ["cutlass_4_0"]', 1))
    source = folder / "csrc/same.cu"
    check = "#include <cutlass/util/device.h>\n#include <cutlass/version.h>\nstatic_assert(CUTLASS_MAJOR == 4);\n"
    source.write_text(check + source.read_text())
    return folder


def test_a_kernel_is_compiled_with_what_was_fetched(yard: Yard, repository: _Repository) -> None:
    repository.name_in(yard, repository.commit())
    _depending(yard)
    result = yard.doit(f"build:{_KERNEL}", "--cuda-capabilities", "9.0")
    if "cuda-13.0 cannot be fetched" in result.out:
        pytest.skip(result.out)
    assert result.status == 0, result.out
    assert "cutlass 4.0" in " ".join(yard.metadata("cuda")["kernelyard"]["toolchain"])


def test_a_kernel_is_skipped_where_it_cannot_be_fetched(yard: Yard, repository: _Repository, tmp_path: Path) -> None:
    repository.name_in(yard, repository.commit()[::-1], (tmp_path / "nowhere").as_uri())
    _depending(yard)
    yard.add("answer")
    result = yard.doit("build")
    assert result.status == 0, result.out
    assert "ok     build:answer" in result.out
    assert not (yard.root / "build/kernels/cuda").exists()
    assert "cannot be fetched" in result.out
