"""What this machine has, found without importing it and, mostly, without asking it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import stat
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest

from buildlib import process, toolchain
from buildlib.environment import Settings
from buildlib.errors import ToolchainError
from buildlib.toolchain import Compiler, Host, Library, Portability, Toolchain, Torch
from buildlib.variant import Platform

from .factories import GCC, write_files

_HOST_TOML = '[cxx]\ngcc = "11.0"\nclang = "15.0"\ninstall = "install one"\n'

_GCC_MACROS = """\
#define __GNUC__ 12
#define __GNUC_MINOR__ 2
#define __GNUC_PATCHLEVEL__ 0
#define __GNUC_STDC_INLINE__ 1
#define __VERSION__ "12.2.0"
"""
_CLANG_MACROS = """\
#define __GNUC__ 4
#define __GNUC_MINOR__ 2
#define __GNUC_PATCHLEVEL__ 1
#define __clang__ 1
#define __clang_major__ 19
#define __clang_minor__ 1
#define __clang_patchlevel__ 7
"""


class _Machine:
    """A PATH with compilers in it, whose answers a test sets; it counts the questions."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.cache = folder / "cache"
        self.macros: str | None = _GCC_MACROS
        self.target: str | None = "x86_64-linux-gnu\n"
        self.asked = 0

    def add(self, name: str, content: bytes = b"\x7fELF and more") -> str:
        path = write_files(self.bin, {name: content}) / name
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def answer(self, argv: Sequence[str], **_: object) -> str | None:
        self.asked += 1
        return self.target if "-dumpmachine" in argv else self.macros

    def find(self, *, cxx: str | None = None) -> Compiler | str:
        required = toolchain._Requirements(gcc="11.0", clang="15.0", install="install one")
        settings = Settings(cache=self.cache, cxx=cxx, passed={"PATH": str(self.bin)})
        return toolchain._compiler(settings, required)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Machine:
    made = _Machine(tmp_path)
    monkeypatch.setattr(process, "output", made.answer)
    return made


# --- the compiler ---


def test_gcc(machine: _Machine) -> None:
    path = machine.add("g++")
    assert machine.find() == Compiler(path=path, family="gcc", version="12.2.0", target="x86_64-linux-gnu")


def test_clang_is_not_taken_for_the_gcc_that_it_says_to_be(machine: _Machine) -> None:
    machine.macros = _CLANG_MACROS
    path = machine.add("clang++")
    assert machine.find() == Compiler(path=path, family="clang", version="19.1.7", target="x86_64-linux-gnu")


@pytest.mark.parametrize(
    ("present", "cxx", "taken"),
    [
        (["c++", "g++", "clang++"], None, "c++"),
        (["clang++", "g++"], None, "g++"),
        (["clang++"], None, "clang++"),
        (["c++", "g++-13"], "g++-13", "g++-13"),
    ],
)
def test_which_compiler(machine: _Machine, present: list[str], cxx: str | None, taken: str) -> None:
    paths = {name: machine.add(name) for name in present}
    found = machine.find(cxx=cxx)
    assert isinstance(found, Compiler)
    assert found.path == paths[taken]


@pytest.mark.parametrize(
    ("cxx", "message"),
    [
        (None, "a C++ compiler is not on this machine; install one"),
        ("g++-99", "CXX names 'g++-99', which is not on this machine; install one"),
        ("ccache g++", "CXX names 'ccache g++', which is not on this machine; install one"),
    ],
)
def test_a_missing_compiler(machine: _Machine, cxx: str | None, message: str) -> None:
    assert machine.find(cxx=cxx) == message


@pytest.mark.parametrize(
    ("macros", "said"),
    [
        (_GCC_MACROS.replace("12", "10"), "gcc 10.2.0, older than 11.0"),
        (_CLANG_MACROS.replace("19", "14"), "clang 14.1.7, older than 15.0"),
    ],
)
def test_an_old_compiler(machine: _Machine, macros: str, said: str) -> None:
    machine.macros = macros
    path = machine.add("c++")
    assert machine.find() == f"{path} is {said}; install one"


@pytest.mark.parametrize(
    ("macros", "target"), [(None, "x86_64-linux-gnu"), (_GCC_MACROS, None), ("#define _MSC_VER 1940\n", "x")]
)
def test_what_is_no_compiler_that_is_known(machine: _Machine, macros: str | None, target: str | None) -> None:
    machine.macros, machine.target = macros, target
    path = machine.add("c++")
    assert machine.find() == f"{path} does not answer as gcc or clang do; install one"


def test_a_compiler_is_asked_once(machine: _Machine) -> None:
    machine.add("g++")
    assert machine.find() == machine.find()
    assert machine.asked == 2


def test_a_compiler_that_was_replaced_is_asked_again(machine: _Machine) -> None:
    machine.add("g++")
    machine.find()
    machine.macros = _GCC_MACROS.replace("12", "13")
    machine.add("g++", b"\x7fELF and much more")
    found = machine.find()
    assert isinstance(found, Compiler)
    assert found.version == "13.2.0"


@pytest.mark.parametrize(
    ("name", "content"), [("g++", b"#!/bin/sh\nexec g++-12"), ("g++", b"\x7fELF")], ids=["a script", "ccache"]
)
def test_what_may_call_another_compiler_tomorrow_is_asked_each_time(
    machine: _Machine, name: str, content: bytes
) -> None:
    if content.startswith(b"#!"):
        machine.add(name, content)
    else:
        machine.add("ccache", content)
        (machine.bin / name).symlink_to("ccache")
    machine.find()
    machine.find()
    assert machine.asked == 4


@pytest.mark.parametrize("content", [b"", b"{}", b"garbage"])
def test_a_record_that_is_not_understood_is_made_anew(machine: _Machine, content: bytes) -> None:
    machine.add("g++")
    first = machine.find()
    (record,) = (machine.cache / "probes").iterdir()
    record.write_bytes(content)
    assert (machine.find(), machine.find(), machine.asked) == (first, first, 4)


def test_a_cache_that_cannot_be_written_costs_time_and_nothing_else(machine: _Machine) -> None:
    # As in a container whose home folder is read-only.
    machine.cache.write_text("a file where the folder should be")
    machine.add("g++")
    assert isinstance(machine.find(), Compiler)


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_cache_that_cannot_be_a_folder_is_told(machine: _Machine, tmp_path: Path, below: str) -> None:
    file = tmp_path / "cache"
    file.write_text("")
    machine.cache = file / below
    with pytest.raises(ToolchainError) as caught:
        _probe(machine, write_files(tmp_path / "data", _DATA))
    said = f"{file / below}: {file} is not a folder; remove it, or set KERNELYARD_CACHE to another place"
    assert str(caught.value) == said


# --- libraries ---


def _module(monkeypatch: pytest.MonkeyPatch, **modules: Path | None) -> None:
    """Let each module be found in a folder, or not at all."""

    def find_spec(name: str) -> ModuleSpec | None:
        folder = modules[name]
        if folder is None:
            return None
        found = ModuleSpec(name, None, origin=str(folder / "__init__.py"))
        found.submodule_search_locations = [str(folder)]
        return found

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


@pytest.mark.parametrize(
    ("text", "version", "cuda"),
    [
        ("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n", "2.13.0+cu130", "13.0"),
        ("import typing\n__version__ = '2.13.0'\ndebug = False\ncuda: Optional[str] = None\n", "2.13.0", None),
        ("__version__ = '2.9.1'\n", "2.9.1", None),
    ],
    ids=["CUDA", "CPU", "neither"],
)
def test_torch_is_read_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, version: str, cuda: str | None
) -> None:
    write_files(tmp_path, {"torch/version.py": text, "torch/__init__.py": "raise ImportError"})
    _module(monkeypatch, torch=tmp_path / "torch")
    assert toolchain._torch() == Torch(version=version, cuda=cuda, root=tmp_path / "torch")


def test_tvm_ffi_is_found_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _module(monkeypatch, tvm_ffi=tmp_path)
    monkeypatch.setattr(importlib.metadata, "version", {"apache-tvm-ffi": "0.1.15"}.__getitem__)
    assert toolchain._tvm_ffi() == Library(
        name="tvm-ffi",
        version="0.1.15",
        includes=(f"{tmp_path}/include",),
        libraries=(f"{tmp_path}/lib/libtvm_ffi.so",),
    )


def test_missing_libraries_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    _module(monkeypatch, torch=None, tvm_ffi=None)
    assert (toolchain._torch(), toolchain._tvm_ffi()) == (
        "torch is not in this Python environment; install it, for instance with 'pip install torch'",
        "tvm-ffi is not in this Python environment; install it with 'pip install apache-tvm-ffi'",
    )


def test_a_cpu_extension_links_only_what_every_build_of_torch_has() -> None:
    library = Torch(version="2.13.0+cu130", cuda="13.0", root=Path("/env/torch")).library()
    assert (library.libraries, library.includes) == (
        ("/env/torch/lib/libtorch_cpu.so", "/env/torch/lib/libc10.so"),
        ("/env/torch/include", "/env/torch/include/torch/csrc/api/include"),
    )


def test_nothing_of_python_is_linked() -> None:
    python = toolchain._python()
    assert (python.version, python.libraries) == (f"{sys.version_info.major}.{sys.version_info.minor}", ())


def test_identity_has_versions_and_no_paths() -> None:
    libraries = (Library(name="torch", version="2.13.0+cpu", includes=("/env",), libraries=("/env/x.so",)),)
    limits = Portability(policy="manylinux_2_28", symbol_versions={"GLIBC": "2.28"})
    identities = [
        Toolchain(
            compiler=GCC, libraries=libraries, portability=portability, cmake="/env/cmake", ninja="/env/ninja"
        ).identity
        for portability in (limits, None)
    ]
    assert identities == [
        ("gcc 12.2.0 x86_64-linux-gnu", "torch 2.13.0", "manylinux_2_28 (GLIBC 2.28)"),
        ("gcc 12.2.0 x86_64-linux-gnu", "torch 2.13.0", "not portable"),
    ]


# --- the machine and its tools ---


@pytest.mark.parametrize(
    ("system", "cpu", "expected"),
    [
        ("Linux", "x86_64", Platform.X86_64_LINUX),
        ("Linux", "aarch64", Platform.AARCH64_LINUX),
        ("Darwin", "arm64", Platform.AARCH64_DARWIN),
        ("Windows", "AMD64", Platform.X86_64_WINDOWS),
        ("Linux", "riscv64", None),
        ("FreeBSD", "x86_64", None),
    ],
)
def test_platform(monkeypatch: pytest.MonkeyPatch, system: str, cpu: str, expected: Platform | None) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: cpu)
    assert toolchain._platform() is expected


def test_a_tool_inside_of_its_wheel_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"cmake/data/bin/cmake": "", "bin/cmake": ""})
    _module(monkeypatch, cmake=tmp_path / "cmake")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    assert toolchain._tool("cmake", "cmake/data/bin/cmake") == f"{tmp_path}/cmake/data/bin/cmake"


def test_a_tool_beside_python_comes_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"bin/cmake": "", "cmake/__init__.py": ""})
    _module(monkeypatch, cmake=tmp_path / "cmake")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    assert toolchain._tool("cmake", "cmake/data/bin/cmake") == f"{tmp_path}/bin/cmake"


def test_a_tool_on_the_path_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _module(monkeypatch, cmake=None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setattr(toolchain, "shutil", SimpleNamespace(which=lambda name: f"/usr/bin/{name}"))
    assert toolchain._tool("cmake", "cmake/data/bin/cmake") == "/usr/bin/cmake"


def test_a_missing_tool_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _module(monkeypatch, ninja=None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setattr(toolchain, "shutil", SimpleNamespace(which=lambda _: None))
    with pytest.raises(ToolchainError) as caught:
        toolchain._tool("ninja", "ninja/data/bin/ninja")
    assert str(caught.value) == "ninja: not found; install it with 'pip install ninja'"


# --- the data files ---

_PLATFORMS_TOML = """\
[x86_64-linux]
policy = "manylinux_2_28"
symbol-versions = { GLIBC = "2.28" }
"""
_DATA = {"host.toml": _HOST_TOML, "platforms.toml": _PLATFORMS_TOML, "cuda.toml": "", "lock.toml": "", "deps.toml": ""}


def _probe(machine: _Machine, data: Path, *, portable: bool = True) -> Host:
    settings = Settings(cache=machine.cache, passed={"PATH": str(machine.bin)})
    return toolchain.probe(settings, data, portable=portable)


@pytest.fixture
def on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_platform", lambda: Platform.X86_64_LINUX)


def test_probe_puts_the_parts_together(machine: _Machine, tmp_path: Path, on_linux: None) -> None:
    machine.add("g++")
    host = _probe(machine, write_files(tmp_path / "data", _DATA))
    assert (host.platform, host.compiler, host.python, host.portability) == (
        Platform.X86_64_LINUX,
        machine.find(),
        toolchain._python(),
        Portability(policy="manylinux_2_28", symbol_versions={"GLIBC": "2.28"}),
    )


def test_a_build_for_this_machine_alone_has_no_limits(machine: _Machine, tmp_path: Path, on_linux: None) -> None:
    assert _probe(machine, write_files(tmp_path / "data", _DATA), portable=False).portability is None


def test_a_platform_without_a_policy_has_no_limits(
    machine: _Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_platform", lambda: None)
    assert _probe(machine, write_files(tmp_path / "data", _DATA)).portability is None


def test_the_oldest_compiler_that_will_do_is_data(machine: _Machine, tmp_path: Path) -> None:
    path = machine.add("g++")
    data = write_files(tmp_path / "data", {**_DATA, "host.toml": _HOST_TOML.replace("11.0", "99.0")})
    assert _probe(machine, data).compiler == f"{path} is gcc 12.2.0, older than 99.0; install one"


@pytest.mark.parametrize("name", _DATA)
@pytest.mark.parametrize(
    "text",
    [None, "[cxx", "unknown = 1\n", "[cxx]\ngcc = 11\n", b"\xff"],
    ids=["missing", "syntax", "unknown key", "type", "not text"],
)
def test_a_wrong_data_file_is_named(machine: _Machine, tmp_path: Path, name: str, text: str | bytes | None) -> None:
    data = write_files(tmp_path / "data", {**_DATA, **({name: text} if text is not None else {})})
    if text is None:
        (data / name).unlink()
    with pytest.raises(ToolchainError) as caught:
        _probe(machine, data)
    said = str(caught.value)
    assert said.startswith(f"{data / name}: ")
    assert said.endswith("; restore it from version control")


def test_the_repositorys_data_files_are_right(machine: _Machine, on_linux: None) -> None:
    machine.add("g++")
    host = _probe(machine, Path(__file__).parents[2] / "toolchains")
    assert isinstance(host.compiler, Compiler)
    assert host.portability is not None
    assert host.portability.policy == "manylinux_2_28"
