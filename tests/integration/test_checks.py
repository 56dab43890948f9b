"""What the checks find, on artifacts that a real compiler made.

A case is a folder of tests/projects/bad whose name starts with `check-`: a checkout's `kernels/`, and `expected.txt`
with a line for each finding, where `{id}` stands for the extension's name. All cases are built in one checkout. The
check that loads takes seconds, so it is made only for the case that is about it.

A kernel with a `vendored.cpp` ships a library of its own, which the test links with the options in `vendored.flags`.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from buildlib import check
from buildlib.check import suite
from buildlib.check.suite import CheckReport
from buildlib.errors import CheckError
from buildlib.tasks import Session
from tests.integration.conftest import PROJECTS, Yard, new_yard

CASES = sorted(path.name for path in (PROJECTS / "bad").glob("check-*"))
# What their expected.txt has beyond the finding's first line is somewhere in what follows it.
LOADS = [case for case in CASES if case.startswith("check-load")]
_ONLY_X86_64 = {"check-instructions"}


def _vendor(kernel: Path) -> None:
    """Link the library that a kernel ships, into its Python package."""
    source = kernel / "vendored.cpp"
    (package,) = (kernel / "torch-ext").iterdir()
    flags = (kernel / "vendored.flags").read_text().split()
    subprocess.run(
        ["c++", "-shared", "-fPIC", "-O2", str(source), "-o", str(package / "vendored.so"), *flags], check=True
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Yard:
    """A checkout with the kernels of all cases, built."""
    yard = new_yard(tmp_path_factory.mktemp("bad") / "yard", cache)
    for case in CASES:
        shutil.copytree(PROJECTS / "bad" / case / "kernels", yard.root / "kernels", dirs_exist_ok=True)
    for source in yard.root.glob("kernels/*/vendored.cpp"):
        _vendor(source.parent)
    result = yard.doit("build")
    assert result.status == 0, result.out
    return yard


@pytest.fixture(scope="module")
def session(built: Yard) -> Iterator[Session]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELYARD_CACHE", str(built.cache))
        session = Session.open(built.root)
        yield session
        session.workspace.close()


def _found(session: Session, kernel: str) -> list[str]:
    (spec,) = (spec for spec in session.plan.specs if spec.kernel.key == kernel)
    with pytest.raises(CheckError) as caught:
        check.check(spec, session.workspace)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("case", [case for case in CASES if case not in {*LOADS, "check-build-toml"}])
def test_a_fault_is_found_and_no_other(
    built: Yard, session: Session, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    if case in _ONLY_X86_64 and platform.machine() != "x86_64":
        pytest.skip("about instructions of x86-64")
    kernel = case.removeprefix("check-")
    monkeypatch.setattr(suite, "CHECKS", {name: each for name, each in suite.CHECKS.items() if name != "load"})
    expected = (PROJECTS / "bad" / case / "expected.txt").read_text().replace("{id}", built.metadata(kernel)["id"])
    assert _found(session, kernel) == expected.splitlines()
    report = next((built.root / "build" / "reports" / kernel).glob("*/check.json"))
    findings = msgspec.json.decode(report.read_bytes(), type=CheckReport).findings
    assert {finding.check for finding in findings} == {kernel.removesuffix("-without-version")}


@pytest.mark.parametrize("case", LOADS)
def test_what_cannot_be_loaded(built: Yard, session: Session, case: str) -> None:
    kernel = case.removeprefix("check-")
    variant = built.artifact(kernel).name
    first, *rest = (PROJECTS / "bad" / case / "expected.txt").read_text().replace("{variant}", variant).splitlines()
    said = _found(session, kernel)
    assert said[0] == first
    assert all(any(words in line for line in said[1:]) for words in rest)
    # Neither the client's own frames nor where the copy was.
    assert not any("kernels/load.py" in line or "kernelyard-load-" in line for line in said)


def test_every_check_has_a_case() -> None:
    # An artifact whose digest or metadata are wrong is built again; test_cuda.py has the cases of device code.
    without = {"digest", "metadata", "images", "runtime-name"}
    assert {case.removeprefix("check-") for case in CASES} >= suite.CHECKS.keys() - without


def test_doit_check_shows_and_stores_all_findings(built: Yard) -> None:
    result = built.doit("check:imports", "check:build-toml")
    assert result.status == 1
    for case in ("check-imports", "check-build-toml"):
        for line in (PROJECTS / "bad" / case / "expected.txt").read_text().splitlines():
            assert line in result.out
    stored = json.loads((built.root / "build/reports/imports/torch-cpu/check.json").read_text())
    # The real load fails too, and is reported beside what was found without it.
    assert [finding["check"] for finding in stored["findings"]] == ["imports", "imports", "load"]
    assert {"check": "symbols", "reason": "no compiled library"} in stored["not_checked"]


# --- folders that no spec makes ---


def test_foreign_folders_are_reported_with_the_file(yard: Yard) -> None:
    yard.add("answer")
    assert yard.doit("check").status == 0
    whole = yard.artifact("answer")
    cuda, rocm, xpu, elsewhere = (
        shutil.copytree(whole, whole.with_name(name))
        for name in ("torch-cuda", "torch-rocm", "torch-xpu", "tvm-ffi01-cpu-aarch64-linux")
    )
    (cuda / "notes.txt").write_text("a file too many")
    (rocm / "data.json").write_text("{}")
    described = json.loads((xpu / "metadata.json").read_text())
    del described["kernelyard"], described["digest"]
    (xpu / "metadata.json").write_text(json.dumps(described))
    shutil.copytree(whole, yard.root / "build/kernels/gone/build/torch-cpu")
    result = yard.doit("check")
    assert result.status == 1
    folder = "build/kernels/answer/build"
    again = "build the kernel again, or remove the folder"
    assert f"{folder}/torch-cuda/notes.txt: not in the digest; {again}" in result.out
    assert f"{folder}/torch-rocm/data.json: altered; {again}" in result.out
    assert f"{folder}/torch-xpu/metadata.json: not as this version writes it (" in result.out
    assert "build/kernels/gone/build/torch-cpu: neither this machine nor, by the plan, any other makes it" in result.out
    # Whole, and of a variant that another machine makes.
    assert f"ok     check:answer:{elsewhere.name}" in result.out
    assert "FAILED check:answer:tvm-ffi01-cpu-x86_64-linux" not in result.out


# --- one process ---

_STATICS = """\
#include "deep/far.h"
#include "near.h"

template <class T>
struct Holder {
  static inline T value = NUMBER;
};
inline int& counter() {
  static int count = NUMBER * 100;
  return count;
}
int value() { return counter() + Holder<int>::value; }
"""


def test_clashing_statics_of_two_kernels_stay_apart(yard: Yard) -> None:
    def as_number(number: int) -> Callable[[str], str]:
        return lambda toml: toml.replace("test/answer", f"test/{number}").replace("FLAG=0", f"NUMBER={number}")

    for number in (1, 2):
        kernel = yard.add("answer", f"statics-{number}", rename=as_number(number))
        (kernel / "value" / "value.cpp").write_text(_STATICS)
    assert yard.doit("build").status == 0
    paths = [str(yard.artifact(f"statics-{number}")) for number in (1, 2)]
    code = (
        "from pathlib import Path; from kernels import get_local_kernel; "
        f"print(*[get_local_kernel(Path(path)).answer() for path in {paths!r}])"
    )
    assert yard.call(code) == "101 202"
    # The same with each library's symbols offered to those that are loaded after it.
    assert yard.call(f"import sys, os; sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL); {code}") == "101 202"
