"""CUDA kernels, built for real with a compiler that is provisioned, on a machine that need not have a GPU."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from tests.integration.conftest import Yard, new_yard

_VARIANT = "tvm-ffi01-cu130-x86_64-linux"
_NAME = f"cuda:{_VARIANT}"


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> None:
    """CUDA 13.0 in the session's cache; the tests that need it are skipped where it cannot be had."""
    yard = new_yard(tmp_path_factory.mktemp("toolchain") / "yard", cache)
    result = yard.doit("toolchain:cuda-13.0", "toolchain:cuobjdump")
    if "skipped" in result.out:
        pytest.skip(result.out)
    assert result.status == 0, result.out


def _built(yard: Yard, *arguments: str) -> Yard:
    if not (yard.root / "kernels/cuda").is_dir():
        yard.add("cuda")
    result = yard.doit(*arguments)
    assert result.status == 0, result.out
    return yard


@pytest.fixture(scope="module")
def built(compiler: None, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Yard:
    return _built(new_yard(tmp_path_factory.mktemp("cuda") / "yard", cache), f"check:{_NAME}")


def _library(yard: Yard) -> Path:
    return next(yard.artifact("cuda").glob("*.so"))


def _dynamic(library: Path) -> list[Any]:
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynamic")
        assert isinstance(section, DynamicSection)
        return list(section.iter_tags())


def test_built_checked_and_loaded(built: Yard) -> None:
    # The check has compared the images of each kernel with this, and loaded the library.
    metadata = built.metadata("cuda")
    assert metadata["backend"] == {"type": "cuda", "archs": ["8.0+PTX", "9.0"]}
    assert "nvcc 13.0.88" in metadata["kernelyard"]["toolchain"]


def test_what_is_not_compiled_for_is_told(built: Yard) -> None:
    rows = json.loads(built.doit("matrix", _NAME).out)
    assert rows[0]["notes"] == [
        "[kernel.near] is not compiled for 7.0: this CUDA cannot, or another serves it",
    ]


def test_links_the_runtime_and_brings_no_path(built: Yard) -> None:
    library = _library(built)
    tags = _dynamic(library)
    needed = {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"}
    assert "libcudart.so.13" in needed
    assert needed <= {"libcudart.so.13", "libstdc++.so.6", "libgcc_s.so.1", "libc.so.6", "libtvm_ffi.so"}
    assert {tag.entry.d_tag for tag in tags} & {"DT_RPATH", "DT_RUNPATH"} == set()
    content = library.read_bytes()
    assert str(built.root).encode() not in content
    assert b"cuda/csrc/same.cu" in content


def test_editors_find_the_sources_of_nvcc(built: Yard) -> None:
    commands = json.loads((built.root / "build/compile_commands.json").read_text())
    files = {command["file"] for command in commands}
    assert {str(built.root / "kernels/cuda/csrc" / name) for name in ("same.cu", "far/same.cu")} <= files


def test_nothing_is_done_twice(built: Yard) -> None:
    assert "up to date  2" in built.doit(f"check:{_NAME}").out


def test_another_checkout_gives_the_same_bytes(built: Yard, make_yard: Callable[[str], Yard]) -> None:
    other = _built(make_yard("deeper/and/elsewhere"), f"build:{_NAME}")
    hashes = {hashlib.sha256(_library(yard).read_bytes()).hexdigest() for yard in (built, other)}
    assert len(hashes) == 1
    assert built.artifact("cuda").name == other.artifact("cuda").name == _VARIANT


def test_narrowed_to_some_devices(compiler: None, yard: Yard) -> None:
    yard.add("cuda")
    # The environment has no say in what is compiled for which device.
    result = yard.doit(f"check:{_NAME}", "--cuda-capabilities", "9.0", TORCH_CUDA_ARCH_LIST="5.0")
    assert result.status == 0, result.out
    metadata = yard.metadata("cuda")
    # No machine code of the one component runs on such a device, but its PTX does.
    assert metadata["backend"]["archs"] == ["8.0+PTX", "9.0"]
    assert metadata["kernelyard"]["narrowed"] == ["--cuda-capabilities 9.0"]
    result = yard.doit(f"build:{_NAME}", "--cuda-capabilities", "8.6")
    assert result.status == 1
    assert "[kernel.near] cuda-capabilities: CUDA 13.0 can compile none of 9.0, 7.0 for 8.6" in result.out


def test_an_edited_header_rebuilds_what_includes_it(compiler: None, yard: Yard) -> None:
    folder = yard.add("cuda")
    (folder / "build.toml").write_text((folder / "build.toml").read_text().replace('["8.0+PTX"]', '["9.0"]'))
    _built(yard, f"build:{_NAME}")
    objects = yard.root / "build/work/cuda" / _VARIANT / "cmake/cuda/csrc"
    before = {path: path.stat().st_mtime_ns for path in objects.rglob("*.o")}
    header = folder / "include/near.cuh"
    header.write_text(header.read_text().replace("*=", "+="))
    _built(yard, f"build:{_NAME}")
    changed = {str(path.relative_to(objects)) for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert changed == {"same.cu/object.o"}


def test_a_message_of_nvcc_names_the_authors_file(compiler: None, yard: Yard) -> None:
    folder = yard.add("cuda")
    (folder / "csrc/same.cu").write_text("void near(float* x) { wrong; }\n")
    result = yard.doit(f"build:{_NAME}")
    assert result.status == 1
    assert 'kernels/cuda/csrc/same.cu(1): error: identifier "wrong" is undefined' in result.out


@dataclass(frozen=True)
class _Toolkit:
    """A CUDA toolkit of the machine, as it looks; its compiler is the one that is provisioned for 13.0."""

    root: Path

    @property
    def environ(self) -> dict[str, str]:
        return {"CUDA_HOME": str(self.root)}

    def calls(self) -> list[str]:
        """What the compiler was called with, beside questions."""
        said = self.root / "calls"
        return said.read_text().splitlines() if said.exists() else []

    @classmethod
    def install(cls, folder: Path, release: str, cache: Path) -> _Toolkit:
        (provisioned,) = (path for path in (cache / "toolchains").glob("cuda-13.0-*") if path.is_dir())
        nvcc = folder / "bin/nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.write_text(
            f"""#!/bin/sh
case "$*" in *--version*) echo "Cuda compilation tools, release {release}, V{release}.85"; exit ;; esac
echo "$*" >> "{folder}/calls"
exec "{provisioned}/bin/nvcc" "$@"
"""
        )
        nvcc.chmod(0o755)
        (folder / "include").symlink_to(provisioned / "include")
        (folder / "lib64").symlink_to(provisioned / "lib")
        return cls(folder)


_126 = "cuda:tvm-ffi01-cu126-x86_64-linux"


def test_a_toolkit_of_the_machine(compiler: None, yard: Yard, tmp_path: Path) -> None:
    toolkit = _Toolkit.install(tmp_path / "cuda-12.6", "12.6", yard.cache)
    yard.add("cuda", defaults=lambda text: re.sub(r"(?m)^cuda-capabilities = .*\n", "", text))
    assert re.search(r"(?m)^cuda-12.6 +on this machine .*nvcc 12\.6\.85", yard.doit("toolchain", **toolkit.environ).out)
    # What this CUDA compiles for by default, in the plan; the stand-in for its compiler knows less.
    yard.doit(f"build:{_126}", **toolkit.environ)
    assert "arch=compute_70,code=sm_70" in toolkit.calls()[0]
    assert "arch=compute_90,code=compute_90" in toolkit.calls()[0]
    result = yard.doit(f"build:{_126}", "--cuda-capabilities", "9.0", **toolkit.environ)
    assert result.status == 0, result.out
    assert "--orig_src_path_name" not in toolkit.calls()[-1]
    assert "nvcc 12.6.85" in yard.metadata("cuda")["kernelyard"]["toolchain"]
    # And since it is not what it says, but brings the runtime of another CUDA, no artifact of it passes.
    result = yard.doit(f"check:{_126}", "--cuda-capabilities", "9.0", **toolkit.environ)
    assert result.status == 1
    assert "needs the shared library libcudart.so.13, which a tvm-ffi kernel for cuda 12.6 may not" in result.out


def test_a_toolkit_that_is_not_what_its_folder_says(compiler: None, yard: Yard, tmp_path: Path) -> None:
    toolkit = _Toolkit.install(tmp_path / "cuda-12.6", "12.4", yard.cache)
    yard.add("cuda")
    rows = {row["variant"]: row for row in json.loads(yard.doit("matrix", **toolkit.environ).out)}
    assert rows[_126.partition(":")[2]]["reason"] == (
        f"{toolkit.root}/bin/nvcc reports CUDA 12.4, not 12.6 as the name of its folder; "
        "install CUDA 12.6 and set CUDA_HOME to it"
    )
    assert rows[_VARIANT]["status"] == "build"
    assert toolkit.calls() == []


def test_offline_cuda_is_skipped_and_the_rest_is_built(yard: Yard, tmp_path: Path) -> None:
    yard.add("cuda")
    yard.add("answer")
    result = yard.doit("check", KERNELYARD_CACHE=str(tmp_path / "empty"), PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert result.status == 0, result.out
    assert "toolchain cuda-13.0 cannot be fetched: no package index has it, or none can be reached" in result.out
    assert "ok     check:answer" in result.out
    assert not (yard.root / "build/kernels/cuda").exists()
    left = [path.name for path in (tmp_path / "empty/toolchains").iterdir() if path.suffix != ".lock"]
    assert left == []


def test_an_unknown_capability_fails_its_own_kernel(yard: Yard) -> None:
    yard.add("cuda", capability=lambda text: text.replace('"7.0"', '"11.8"'))
    yard.add("answer")
    result = yard.doit("build")
    assert result.status == 1
    message = "kernels/cuda/build.toml: [kernel.near] cuda-capabilities: no version of CUDA compiles for '11.8'"
    assert message in result.out
    assert "ok     build:answer" in result.out


def test_toolchains_are_listed(compiler: None, yard: Yard) -> None:
    rows = {line.split()[0]: line for line in yard.doit("toolchain").out.splitlines()}
    assert "provisioned" in rows["cuda-13.0"]
    assert "nvidia-cuda-nvcc 13.0.88" in rows["cuda-13.0"]
    assert "can be provisioned" in rows["torch-2.12-cu130"]
