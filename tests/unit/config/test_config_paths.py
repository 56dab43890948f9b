"""A kernel loads only if the files that it lists are there, inside its folder, under names that a build can use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buildlib import config
from buildlib.config.model import CppCpu, RustCpu, RustCuda, Torch
from buildlib.errors import ConfigError

FILE = Path("kernels/relu/build.toml")

TEXT = """\
[general]
name = "relu"
version = 1
edition = 6
license = "Apache-2.0"
backends = ["cpu"]

[torch]
src = ["torch-ext/torch_binding.cpp"]

[kernel.on_cpu]
language = "cpp-cpu"
depends = ["torch"]
include = ["."]
src = [
    "csrc/relu.cpp",
]
"""
CRATE = """
[kernel.crate]
language = "rust-cpu"
cargo-manifest = "crate/Cargo.toml"
src = ["crate/src", "crate/build.rs"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = FILE.parent
    for name in ("torch-ext/torch_binding.cpp", "csrc/relu.cpp", "crate/src/lib.rs", "crate/build.rs"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "crate/Cargo.toml").touch()
    return folder


def _message(text: str) -> str:
    FILE.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        config.load(FILE)
    lines = str(raised.value).split("\n")
    assert all(line.startswith(f"{FILE}:") for line in lines)
    return "\n".join(line.removeprefix(f"{FILE}:") for line in lines)


SOURCES = {
    "csrc/rleu.cpp": "'csrc/rleu.cpp' does not exist; did you mean 'csrc/relu.cpp'? correct the path, or drop it",
    "other/relu.cpp": "'other/relu.cpp' does not exist; correct the path, or drop it",
    "csrc": "'csrc' is a folder; list the files in it that are needed",
    "/csrc/relu.cpp": "'/csrc/relu.cpp' is absolute; write it relative to the folder of build.toml",
    "../relu/csrc/relu.cpp": (
        "'../relu/csrc/relu.cpp' leaves the kernel's folder; "
        "copy what is needed into the folder, as each kernel builds on its own"
    ),
    "csrc/../../relu/csrc/relu.cpp": (
        "'csrc/../../relu/csrc/relu.cpp' leaves the kernel's folder; "
        "copy what is needed into the folder, as each kernel builds on its own"
    ),
    "csrc/a;b.cpp": "'csrc/a;b.cpp' has the character ';', which CMake cannot have in a list; rename the file",
    "csrc/a\\nb.cpp": "'csrc/a\\nb.cpp' has the character '\\n', which CMake cannot have in a list; rename the file",
    "": "the path is empty; name a file or a folder, or drop it",
}


@pytest.mark.parametrize(("path", "expected"), [*SOURCES.items()], ids=[*SOURCES])
def test_wrong_sources(path: str, expected: str) -> None:
    assert _message(TEXT.replace("csrc/relu.cpp", path)) == f"16: [kernel.on_cpu] key 'src' item 1: {expected}"


def test_a_source_that_is_there_and_cannot_be_read(folder: Path) -> None:
    (folder / "csrc/loop.cpp").symlink_to("loop.cpp")
    os.mkfifo(folder / "csrc/pipe.cpp")
    where = "16: [kernel.on_cpu] key 'src' item 1: "
    expected = f"{where}'csrc/loop.cpp' cannot be read (too many levels of symbolic links); make it a readable file"
    assert _message(TEXT.replace("csrc/relu.cpp", "csrc/loop.cpp")) == expected
    expected = f"{where}'csrc/pipe.cpp' is no file; put a file there, or drop it"
    assert _message(TEXT.replace("csrc/relu.cpp", "csrc/pipe.cpp")) == expected


def test_wrong_source_of_a_framework() -> None:
    assert _message(TEXT.replace("torch_binding.cpp", "torch_binding.cc")) == (
        "9: [torch] key 'src' item 1: 'torch-ext/torch_binding.cc' does not exist; "
        "did you mean 'torch-ext/torch_binding.cpp'? correct the path, or drop it"
    )


@pytest.mark.parametrize("path", ["csrc/../../x", "/usr/include", "a;b"])
def test_wrong_include_folders(path: str) -> None:
    assert _message(TEXT.replace('["."]', f'["{path}"]')).startswith("14: [kernel.on_cpu] key 'include' item 1: ")


def test_wrong_manifests() -> None:
    text = TEXT + CRATE.replace("crate/Cargo.toml", "crate/build.rs")
    assert _message(text) == (
        "21: [kernel.crate] key 'cargo-manifest': 'crate/build.rs' is not a manifest of Cargo, "
        "which is always called Cargo.toml; name the crate's Cargo.toml"
    )
    text = TEXT + CRATE.replace("crate/Cargo.toml", "Cargo.toml").replace("rust-cpu", "rust-cuda")
    assert _message(text + 'device-manifest = "../device/Cargo.toml"\n') == (
        "21: [kernel.crate] key 'cargo-manifest': 'Cargo.toml' does not exist; correct the path, or drop it\n"
        "23: [kernel.crate] key 'device-manifest': '../device/Cargo.toml' leaves the kernel's folder; "
        "copy what is needed into the folder, as each kernel builds on its own"
    )


def test_all_wrong_paths_are_told_at_once() -> None:
    text = TEXT.replace("csrc/relu.cpp", "a.cpp").replace("torch-ext/torch_binding.cpp", "b.cpp")
    assert [line.split(" ")[0] for line in _message(text).split("\n")] == ["9:", "16:"]


@pytest.mark.parametrize("name", ["a b.cpp", "a=1.cpp", "#a.cpp", "$a.cpp", "a'b.cpp", "a,b.cpp", "ä.cpp", "a..b.cpp"])
def test_odd_names_that_a_build_can_use(folder: Path, name: str) -> None:
    (folder / "csrc" / name).touch()
    FILE.write_text(TEXT.replace("relu.cpp", name), encoding="utf-8")
    (component,) = config.load(FILE).components
    assert component.src == (f"csrc/{name}",)


def test_each_file_has_one_spelling_and_counts_once() -> None:
    spellings = '"csrc/relu.cpp", "./csrc/relu.cpp", "csrc//relu.cpp", "csrc/./relu.cpp"'
    FILE.write_text(TEXT.replace('"csrc/relu.cpp"', spellings).replace('["."]', '["csrc/", "."]'), encoding="utf-8")
    (component,) = config.load(FILE).components
    assert isinstance(component, CppCpu)
    assert component.src == ("csrc/relu.cpp",)
    assert component.include == ("csrc", ".")


def test_crate() -> None:
    FILE.write_text(TEXT + CRATE, encoding="utf-8")
    kernel = config.load(FILE)
    assert kernel.folder == FILE.parent
    assert isinstance(kernel.framework, Torch)
    assert kernel.components[1] == RustCpu(
        name="crate", cargo_manifest="crate/Cargo.toml", src=("crate/src", "crate/build.rs")
    )
    assert not isinstance(kernel.components[1], RustCuda)


def test_folder_of_a_file_named_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FILE.write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(folder)
    assert config.load(Path("build.toml")).key == "relu"
