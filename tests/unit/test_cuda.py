"""Which CUDA toolkit a variant is built with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from buildlib import cuda, process
from buildlib.cuda import Cuda
from buildlib.environment import Settings
from buildlib.lock import Locked, Wheel
from buildlib.variant import Version

_V130 = Version(13, 0)
_WHEELS = Locked(id="cuda-13.0", wheels=(Wheel(name="nvidia-cuda-nvcc", version="13.0.88", sha256="0", size=1),))
_CUOBJDUMP = Locked(id="cuobjdump", wheels=())
_TOML = '["13.0"]\nbelow = { gcc = "16", clang = "21" }\n'


@dataclass
class _Machine:
    """A machine whose nvcc programs report what a test says."""

    root: Path
    reports: dict[str, str] = field(default_factory=dict)
    asked: int = 0

    def install(self, folder: str, release: str) -> Path:
        nvcc = self.root / folder / "bin" / "nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.write_text(f"\x7fELF{release}")
        self.reports[str(nvcc)] = release
        return self.root / folder

    def answer(self, argv: Sequence[str], **_: object) -> str | None:
        self.asked += 1
        release = self.reports[argv[0]]
        return f"Cuda compilation tools, release {release[:4]}, V{release}\n" if release else None

    def find(self, *, cuda_home: Path | None = None, wheels: bool = False, toml: str = _TOML) -> Cuda | str:
        data = self.root / "cuda.toml"
        data.write_text(toml)
        settings = Settings(cache=self.root / "cache", cuda_home=cuda_home)
        locked = {"cuda-13.0": _WHEELS, "cuobjdump": _CUOBJDUMP} if wheels else {}
        return cuda.find(settings, data, locked, installed=self.root)[_V130]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Machine:
    made = _Machine(tmp_path)
    monkeypatch.setattr(process, "output", made.answer)
    return made


def test_none(machine: _Machine) -> None:
    assert machine.find() == (
        "no CUDA 13.0 toolkit on this machine, and none can be had from the Python index; "
        "install CUDA 13.0 and set CUDA_HOME to it"
    )


def test_from_wheels_without_asking_anything(machine: _Machine) -> None:
    found = machine.find(wheels=True)
    assert isinstance(found, Cuda)
    assert (found.nvcc, found.locked, found.cuobjdump) == ("13.0.88", _WHEELS, _CUOBJDUMP)
    assert (found.root, machine.asked) == (_WHEELS.folder(machine.root / "cache"), 0)


def test_the_machines_own_comes_before_wheels(machine: _Machine) -> None:
    root = machine.install("cuda-13.0", "13.0.48")
    found = machine.find(wheels=True)
    assert isinstance(found, Cuda)
    assert (found.root, found.nvcc, found.locked, found.identity) == (root, "13.0.48", None, "nvcc 13.0.48")


def test_cuda_home_comes_first_if_it_is_of_the_version(machine: _Machine) -> None:
    machine.install("cuda-13.0", "13.0.48")
    mine, other = machine.install("mine", "13.0.88"), machine.install("other", "12.6.20")
    roots = [found.root for home in (mine, other) if isinstance(found := machine.find(cuda_home=home), Cuda)]
    assert roots == [mine, machine.root / "cuda-13.0"]


@pytest.mark.parametrize(
    ("release", "said"),
    [("12.4.99", "reports CUDA 12.4"), ("", "does not say which CUDA it is of")],
)
@pytest.mark.parametrize("is_home", ["", "CUDA_HOME"])
def test_a_toolkit_that_is_not_what_its_folder_says_is_refused(
    machine: _Machine, release: str, said: str, is_home: str
) -> None:
    root = machine.install("elsewhere/cuda-13.0" if is_home else "cuda-13.0", release)
    home = root if is_home else None
    problem = f"{root}/bin/nvcc {said}, not 13.0 as the name of its folder; "
    assert machine.find(cuda_home=home) == f"{problem}install CUDA 13.0 and set CUDA_HOME to it"
    found = machine.find(cuda_home=home, wheels=True)
    assert isinstance(found, Cuda)
    # Wheels will do, but not behind the back of whoever installed something else.
    assert (found.locked, found.note) == (
        _WHEELS,
        f"{problem}install CUDA 13.0 and set CUDA_HOME to it, or go on with the one of the Python index, as now",
    )


def test_a_toolkit_in_a_folder_of_another_version_is_not_taken_for_its_own(machine: _Machine) -> None:
    # As where a distribution's links mix releases: its libraries would be of one version and its compiler of another.
    root = machine.install("elsewhere/cuda-12.6", "13.0.48")
    assert machine.find(cuda_home=root) == (
        f"{root}/bin/nvcc reports CUDA 13.0, not 12.6 as the name of its folder; "
        "install CUDA 13.0 and set CUDA_HOME to it"
    )


def test_a_name_without_a_version_promises_none(machine: _Machine) -> None:
    other = machine.install("elsewhere/cuda", "12.6.20")
    found = machine.find(cuda_home=other, wheels=True)
    assert isinstance(found, Cuda)
    assert found.note == ""


def test_a_home_without_a_compiler_is_told(machine: _Machine) -> None:
    home = machine.root / "typo"
    assert machine.find(cuda_home=home) == (
        f"CUDA_HOME is {home}, which has no bin/nvcc; install CUDA 13.0 and set CUDA_HOME to it"
    )
    found = machine.find(cuda_home=home, wheels=True)
    assert isinstance(found, Cuda)
    assert "has no bin/nvcc; install CUDA 13.0 and set CUDA_HOME to it, or go on with" in found.note


def test_whether_the_headers_of_libraries_are_in_it(machine: _Machine) -> None:
    root = machine.install("cuda-13.0", "13.0.48")
    before = machine.find()
    (root / "include").mkdir()
    (root / "include/cublas_v2.h").touch()
    after = machine.find()
    assert isinstance(before, Cuda)
    assert isinstance(after, Cuda)
    assert (before.has_libraries, after.has_libraries) == (False, True)


def test_a_script_is_asked_each_time(machine: _Machine) -> None:
    root = machine.install("cuda-13.0", "13.0.48")
    (root / "bin/nvcc").write_text("#!/bin/sh\nexec nvcc-13\n")
    machine.find()
    machine.find()
    assert machine.asked == 2


def test_a_compiler_is_asked_once_for_each_content(machine: _Machine) -> None:
    root = machine.install("cuda-13.0", "13.0.48")
    for _ in range(3):
        machine.find()
    assert machine.asked == 1
    machine.reports[str(root / "bin/nvcc")] = "13.0.99999"
    (root / "bin/nvcc").write_text("\x7fELF and another content")
    found = machine.find()
    assert isinstance(found, Cuda)
    assert (found.nvcc, machine.asked) == ("13.0.99999", 2)


@pytest.mark.parametrize(
    ("family", "version", "refused"),
    [
        ("gcc", "15.2.1", None),
        ("gcc", "16.0.0", "CUDA 13.0 refuses gcc 16.0.0; set CXX to one older than gcc 16"),
        ("clang", "21.1.0", "CUDA 13.0 refuses clang 21.1.0; set CXX to one older than clang 21"),
    ],
)
def test_host_compilers(machine: _Machine, family: str, version: str, refused: str | None) -> None:
    found = machine.find(wheels=True)
    assert isinstance(found, Cuda)
    assert found.refuses(family, version) == refused
