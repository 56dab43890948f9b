"""Device code in nvptx: compiled and assembled for real with a rustc of this machine, which need not have a GPU."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from buildlib import environment
from buildlib.data import read
from buildlib.rust import nvptx_toolchain
from buildlib.rust.nvptx_toolchain import Nvptx, Requirements
from tests.integration.conftest import ROOT, Yard, needs_cargo, new_yard

pytestmark = needs_cargo

_VARIANT = "tvm-ffi01-cu130-x86_64-linux"
_NAME = f"rust-nvptx:{_VARIANT}"


class _Data(msgspec.Struct):
    nvptx: Requirements


def _compiler() -> Nvptx:
    found = nvptx_toolchain.find(environment.read(), read(ROOT / "toolchains/dsl.toml", _Data).nvptx)
    if isinstance(found, str):
        pytest.skip(found)
    return found


_ENSURE = """
import sys
from pathlib import Path
from buildlib import environment
from buildlib.data import read
from buildlib.rust import nvptx_toolchain
from buildlib.workspace import Workspace
from tests.integration.test_nvptx import _Data
settings = environment.read()
workspace = Workspace(Path(sys.argv[1]), settings)
workspace.notify = lambda _, text: print(text, flush=True)
found = nvptx_toolchain.find(settings, read(Path("toolchains/dsl.toml"), _Data).nvptx)
nvptx_toolchain.ensure_core(found, workspace)
"""


def _ensure(cache: Path) -> subprocess.Popen[str]:
    """Another process that wants the compiler's core; it prints what it has to say of its progress."""
    argv = [sys.executable, "-c", _ENSURE, str(cache / "yard")]
    environ = {**os.environ, "KERNELYARD_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(argv, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True)


def _kept(cache: Path) -> list[Path]:
    return [path for path in cache.glob("toolchains/*nvptx-*") if path.is_dir()]


@pytest.fixture(scope="module")
def core(cache: Path) -> list[str]:
    """The compiler's core in the session's cache; what two processes said that wanted it after one that was killed."""
    _compiler()
    killed = _ensure(cache)
    while not (making := _kept(cache)) or not (making[0] / "root").exists():
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert [path.name[0] for path in _kept(cache)] == ["."]
    two = [_ensure(cache), _ensure(cache)]
    said = [each.communicate(timeout=300)[0].partition("\n")[0] for each in two]
    assert [each.returncode for each in two] == [0, 0]
    return said


@pytest.fixture(scope="module")
def toolkit(core: list[str], tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Nvptx:
    """CUDA 13.0 in the session's cache; the tests that need it are skipped where it cannot be had."""
    found = _compiler()
    yard = new_yard(tmp_path_factory.mktemp("toolchain") / "yard", cache)
    result = yard.doit("toolchain:cuda-13.0", "toolchain:cuobjdump")
    if "skipped" in result.out:
        pytest.skip(result.out)
    assert result.status == 0, result.out
    return found


def _build(yard: Yard) -> None:
    yard.add("rust-nvptx")
    result = yard.doit(f"check:{_NAME}")
    assert result.status == 0, result.out


@pytest.fixture(scope="module")
def built(toolkit: Nvptx, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Yard:
    """A checkout with a kernel that is built and checked. Tests put back what they edit."""
    yard = new_yard(tmp_path_factory.mktemp("nvptx") / "yard", cache)
    _build(yard)
    return yard


def _images(yard: Yard) -> Path:
    (folder,) = (yard.root / "build/work/rust-nvptx/images").iterdir()
    return folder


def _ptx(yard: Yard, arch: int) -> str:
    return (_images(yard) / "code" / f"rust-nvptx-device.sm_{arch}.ptx").read_text()


def _times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def _edit(path: Path, old: str, new: str) -> Callable[[], object]:
    """Edit a file; returns how to put it back."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return lambda: path.write_text(text)


# --- the compiler's core ---


def test_core_is_compiled_once_and_whole(core: list[str], cache: Path) -> None:
    assert sorted(core) == ["compiling core for GPUs", "waiting for another process that provisions it"]
    (kept,) = _kept(cache)
    assert kept.name.startswith("nvptx-1.")


# --- what is built ---


def test_built_checked_and_loaded(built: Yard, toolkit: Nvptx) -> None:
    # The check has compared the images of each entry with this, and loaded the library.
    metadata = built.metadata("rust-nvptx")
    assert metadata["backend"] == {"type": "cuda", "archs": ["8.0", "9.0+PTX"]}
    identity = f"{toolkit.identity} and nvcc 13.0.88"
    assert identity in metadata["kernelyard"]["toolchain"]


def test_the_table_has_the_entries_and_what_they_take(built: Yard) -> None:
    table = (_images(built) / "rust-nvptx.rs").read_text()
    assert re.findall(r'"(\w+)",\n +"(\w+)"', table) or '"look_up"' in table
    kinds = [re.findall(r"Parameter::(\w+)", line) for line in table.splitlines() if "Parameter::" in line]
    assert kinds == [["Pointer", "Pointer", "Pointer", "B64", "F32"], ["Pointer", "Pointer"]]


def test_bounds_are_checked_by_traps_and_nothing_is_left_to_link(built: Yard) -> None:
    for arch in (80, 90):
        text = _ptx(built, arch)
        assert text.count(".visible .entry") == 2
        # One in the entry, and one in the function of the other crate.
        assert text.count("trap;") == 2
        assert ".extern" not in text
        assert "panic" not in text


def test_nothing_says_where_it_was_built(built: Yard, toolkit: Nvptx) -> None:
    places = [str(built.root), str(built.cache), str(toolkit.sysroot / "lib"), "/home/", "/root/", ".cargo"]
    for path in (*_images(built).rglob("*"), built.artifact("rust-nvptx") / "metadata.json"):
        if path.is_file() and path.suffix != ".json":
            content = path.read_bytes()
            assert [place for place in places if place.encode() in content] == [], path


def test_the_same_bytes_from_another_place(built: Yard, make_yard: Callable[[str], Yard]) -> None:
    yard = make_yard("another place")
    _build(yard)
    assert (_images(yard) / "rust-nvptx.fatbin").read_bytes() == (_images(built) / "rust-nvptx.fatbin").read_bytes()
    (library,), (other,) = (each.artifact("rust-nvptx").glob("*.so") for each in (yard, built))
    assert library.read_bytes() == other.read_bytes()


# --- what is built again, and what is not ---


def test_a_second_build_runs_nothing(built: Yard) -> None:
    before = _times(_images(built) / "code")
    assert built.doit(f"build:{_NAME}").ran() == []
    assert _times(_images(built) / "code") == before


def test_an_edit_of_device_code_runs_only_its_own_steps(built: Yard) -> None:
    cubins = _times(_images(built) / "cubins")
    device = built.root / "kernels/rust-nvptx/device/src/lib.rs"
    back = _edit(device, "//! Looks", "//! It looks")
    assert built.doit(f"build:{_NAME}").status == 0
    # A comment is no other PTX, so nothing was assembled.
    assert _times(_images(built) / "cubins") == cubins
    _edit(device, "factor * x", "factor + x")
    assert built.doit(f"build:{_NAME}").status == 0
    assert not {*_times(_images(built) / "cubins")} & {*cubins}
    back()
    assert built.doit(f"build:{_NAME}").status == 0
    assert {*_times(_images(built) / "cubins")} == {*cubins}


def test_an_edit_of_host_code_leaves_images_alone(built: Yard) -> None:
    before = _times(_images(built) / "code")
    back = _edit(built.root / "kernels/rust-nvptx/src/lib.rs", "by its index", "by index")
    assert built.doit(f"build:{_NAME}").status == 0
    assert _times(_images(built) / "code") == before
    back()


def test_a_crate_beside_the_device_crate_counts(built: Yard) -> None:
    back = _edit(built.root / "kernels/rust-nvptx/table/src/lib.rs", "[1.0,", "[16.0,")
    assert built.doit(f"build:{_NAME}").status == 0
    # The bytes of 16.0, least significant first.
    assert "TABLE[16] = {0, 0, 128, 65" in _ptx(built, 80)
    back()
    assert built.doit(f"build:{_NAME}").status == 0


# --- what is wrong ---


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("factor * x", "factor * y", ["does not compile for 8.0", "--> kernels/rust-nvptx/device/src/lib.rs:", "`y`"]),
        ("factor: f32", "factor: f32, _: [f32; 3]", ["look_up: parameter 6 is neither a number nor a pointer"]),
        ('extern "ptx-kernel" fn', 'extern "C" fn', ["there is nothing that can be launched"]),
        ("#![no_std]", "#![no_std]\nextern crate std;", ["can't find crate", "std"]),
        (
            "out.add(thread()) = factor",
            "out.add((*(x.as_ptr() as *const [u8; 99]) == [7; 99]) as usize) = factor",
            ["uses memcmp, which nothing defines for GPUs"],
        ),
    ],
    ids=["an error", "a parameter", "no entry", "std", "not defined"],
)
def test_device_code_that_cannot_be(built: Yard, old: str, new: str, expected: list[str]) -> None:
    back = _edit(built.root / "kernels/rust-nvptx/device/src/lib.rs", old, new)
    result = built.doit(f"build:{_NAME}")
    back()
    assert result.status == 1
    for words in expected:
        assert words in result.out
    assert result.out.count("error[") <= 1
    assert str(built.root) not in result.out
    assert "Traceback" not in result.out + result.err


def test_without_a_rustc_kernels_are_skipped(yard: Yard) -> None:
    yard.add("rust-nvptx")
    _edit(yard.root / "toolchains/dsl.toml", 'rustc = "1.95"', 'rustc = "9.0"')
    result = yard.doit("build")
    assert (result.status, result.ran()) == (0, [])
    assert re.search(
        r"skipped .*nvptx: no rustc of 9\.0 or newer for nvptx64-nvidia-cuda \(.*apt-get install", result.out
    )
