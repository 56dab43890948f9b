from pathlib import Path

import pytest

from buildlib.config.model import Dsl
from buildlib.environment import Settings
from buildlib.lock import Locked, Wheel
from buildlib.rust import dsl
from buildlib.rust.dsl import Cutile
from buildlib.variant import Version

_CUTILE = Cutile(version="13.5.37", root=Path("/t"), libclang=Path("/l"), locked=(), minimum="8.0", cuda=Version(13, 0))
_DATA = '[cutile]\nminimum = "8.0"\ncuda = "13.0"\ntoolchain = "tools"\nlibclang = "clang"\n'
_DATA += (
    '[cuda-oxide]\nminimum = "7.5"\nnightly = "nightly-2026-08-28"\n'
    'toolchain = "install the nightly"\ncommand = "install the command"\nbackend = "install the backend"\n'
)
_DATA += '[nvptx]\nminimum = "7.0"\nrustc = "1.95"\npublished = "1.96.0"\ninstall = "install it"\n'


def _locked(name: str, **versions: str) -> Locked:
    wheels = tuple(
        Wheel(name=package.replace("_", "-"), version=version, sha256="0", size=1)
        for package, version in versions.items()
    )
    return Locked(id=name, wheels=wheels)


def _find(folder: Path, *locked: Locked) -> object:
    (folder / "dsl.toml").write_text(_DATA)
    found = dsl.find(Settings(cache=folder), folder / "dsl.toml", {each.id: each for each in locked}, [Dsl.CUTILE])
    return found[Dsl.CUTILE]


@pytest.mark.parametrize(
    ("chosen", "images"),
    [
        ("8.0 8.6+PTX", "8.0 8.6+PTX"),
        ("9.0 10.0+PTX 12.1+PTX", "9.0a 10.0+PTX 10.0a 12.1+PTX 12.1a"),
        ("7.5 8.9", "8.9"),
        ("7.5", ""),
    ],
)
def test_machine_code_of_newer_capabilities_is_for_one_architecture(chosen: str, images: str) -> None:
    assert set(_CUTILE.made(chosen.split())) == set(images.split())


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ("8.0 12.0+PTX", None),
        ("8.0 7.5", "cutile makes code for 8.0 and newer, and not for '7.5'; remove it"),
        ("9.0a", "cutile takes '9.0a' without 'a': it always makes code for the architecture itself"),
    ],
)
def test_capabilities_that_cutile_has_no_code_for(asked: str, wrong: str | None) -> None:
    assert _CUTILE.wrong(asked.split()) == wrong


def test_a_variant_whose_driver_may_be_too_old() -> None:
    assert _CUTILE.refuses(Version(13, 2)) is None
    assert _CUTILE.refuses(Version(12, 6)) == (
        "cutile needs a driver of CUDA 13.0 or newer, and the variant promises CUDA 12.6"
    )


def test_nothing_is_looked_for_where_no_kernel_needs_it(tmp_path: Path) -> None:
    assert dsl.find(Settings(cache=tmp_path), tmp_path / "missing.toml", {}, []) == {}


def test_tileiras_with_the_ptxas_of_its_version(tmp_path: Path) -> None:
    tools = _locked("tools", nvidia_cuda_tileiras="13.5.37", nvidia_cuda_nvcc="13.5.37")
    found = _find(tmp_path, tools, _locked("clang", libclang="18"))
    assert isinstance(found, Cutile)
    assert found.identity == "tileiras 13.5.37"
    assert [each.id for each in found.locked] == ["tools", "clang"]


def test_tileiras_with_another_ptxas(tmp_path: Path) -> None:
    tools = _locked("tools", nvidia_cuda_tileiras="13.5.37", nvidia_cuda_nvcc="13.0.88")
    assert _find(tmp_path, tools, _locked("clang", libclang="18")) == (
        "toolchains/lock.toml: tools has tileiras 13.5.37 and the ptxas of nvcc 13.0.88, which work together in one "
        "version only; lock the same one of both"
    )


def test_libclang_is_missing(tmp_path: Path) -> None:
    tools = _locked("tools", nvidia_cuda_tileiras="13.5.37", nvidia_cuda_nvcc="13.5.37")
    assert _find(tmp_path, tools) == (
        "cutile's assembler, tileiras, and libclang cannot be had from the Python index for this machine"
    )


def test_nvptx_is_looked_for_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "dsl.toml").write_text(_DATA)
    settings = Settings(cache=tmp_path, passed={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    found = dsl.find(settings, tmp_path / "dsl.toml", {}, [Dsl.NVPTX])
    assert found == {Dsl.NVPTX: "nvptx: no rustc that knows nvptx64-nvidia-cuda; install it"}
