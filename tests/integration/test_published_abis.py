"""Artifacts, and the checks of them, against lists of symbols that others have published.

No package registry has a loader of glibc 2.28 to run an artifact under. So each symbol that artifacts need is looked up
in the symbol list of glibc 2.28, for both CPU architectures. The lists are those that glibc's releases contain; the
ziglang package carries them in one file. An artifact that was built here stands for the one of the other architecture
by the names of its symbols: their versions differ, as each architecture starts with another release.

There is no such package for libstdc++ and libgcc. The proof is this machine's own library: a symbol that it exports at
version V was exported by the release that brought V, because a version node never changes once it is released.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import kernel_abi_check
import pytest

from buildlib import portable
from buildlib.check import policy, python_abi, symbols
from buildlib.check.elf import Library, read_library
from buildlib.check.finding import Finding
from buildlib.variant import Platform
from tests.integration.conftest import PROJECTS, ROOT, new_yard
from tests.unit.check.subjects import subject

# One that uses much of the C++ runtime, and one that a person would write.
_KERNELS = ("portable", "relu")
_LIMITS = policy.load(ROOT / "toolchains")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> dict[str, Path]:
    """The library of each artifact, by kernel."""
    yard = new_yard(tmp_path_factory.mktemp("abis") / "yard", cache)
    yard.add("portable")
    shutil.copytree(ROOT / "kernels" / "relu", yard.root / "kernels" / "relu")
    result = yard.doit("build:*-cpu-*")
    assert result.status == 0, result.out
    return {kernel: next(yard.artifact(kernel).glob("*.so")) for kernel in _KERNELS}


def _read(path: Path) -> Library:
    library = read_library(path.name, path.read_bytes())
    assert isinstance(library, Library)
    return library


# --- glibc 2.28 ---


class Lists:
    """glibc's symbol lists, as one file of the ziglang package has them.

    The file starts with the names of libraries, versions and architectures, each group after its length. Functions,
    then data, follow in groups with a count of entries in front: a name, and its entries; an entry is a set of
    architectures as a bit mask, the size if it is data, a library, and versions. The top bit marks the last of several.
    """

    def __init__(self) -> None:
        spec = importlib.util.find_spec("ziglang")
        assert spec is not None
        assert spec.origin is not None
        self._bytes = (Path(spec.origin).parent / "lib/libc/glibc/abilists").read_bytes()
        self._at = 0
        libraries = [self._text() for _ in range(self._byte())]
        self._versions = [(self._byte(), self._byte(), self._byte()) for _ in range(self._byte())]
        self._architectures = [self._text() for _ in range(self._byte())]
        self._entries = [*self._group(has_size=False), *self._group(has_size=True)]
        assert libraries[:2] == ["m", "c"]
        assert len(self._entries) > 30_000

    def symbols(self, architecture: str, newest: tuple[int, int]) -> set[tuple[str, str]]:
        """Name and version of all that glibc exports at the release, or had by then."""
        bit = 1 << self._architectures.index(f"{architecture}-linux-gnu")
        return {
            (name, f"GLIBC_{'.'.join(map(str, version if version[2] else version[:2]))}")
            for name, mask, versions in self._entries
            for version in versions
            if mask & bit and version <= (*newest, 0)
        }

    def _group(self, *, has_size: bool) -> Iterator[tuple[str, int, list[tuple[int, int, int]]]]:
        left = self._byte() | self._byte() << 8
        while left:
            name, last = self._text(), False
            while not last:
                left -= 1
                mask = self._number()
                if has_size:
                    self._number()
                last = bool(self._byte() & 0x80)
                yield name, mask, list(self._numbers())

    def _numbers(self) -> Iterator[tuple[int, int, int]]:
        last = 0
        while not last:
            byte = self._byte()
            last = byte & 0x80
            yield self._versions[byte & 0x7F]

    def _byte(self) -> int:
        self._at += 1
        return self._bytes[self._at - 1]

    def _text(self) -> str:
        end = self._bytes.index(0, self._at)
        text, self._at = self._bytes[self._at : end].decode(), end + 1
        return text

    def _number(self) -> int:
        number, shift, byte = 0, 0, 0x80
        while byte & 0x80:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            shift += 7
        return number


@pytest.fixture(scope="module")
def lists() -> Lists:
    return Lists()


def test_the_lists_are_read_right(lists: Lists) -> None:
    x86_64, aarch64 = lists.symbols("x86_64", (2, 28)), lists.symbols("aarch64", (2, 28))
    assert {("memcpy", "GLIBC_2.14"), ("memcpy", "GLIBC_2.2.5"), ("pthread_create", "GLIBC_2.2.5")} <= x86_64
    assert {("memcpy", "GLIBC_2.17"), ("environ", "GLIBC_2.17"), ("fcntl64", "GLIBC_2.28")} <= aarch64
    assert not {name for name, _ in x86_64 | aarch64} & {"stat", "__libc_single_threaded", "pthread_cond_clockwait"}
    assert ("stat", "GLIBC_2.33") in lists.symbols("x86_64", (2, 33))


@pytest.mark.parametrize("kernel", _KERNELS)
@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_glibc_2_28_has_all_that_an_artifact_needs(
    libraries: dict[str, Path], lists: Lists, kernel: str, architecture: str
) -> None:
    library = _read(libraries[kernel])
    needed = {
        (symbol.name, symbol.version.name)
        for symbol in library.imports
        if symbol.version and symbol.version.name.startswith("GLIBC_")
    }
    assert needed
    published = lists.symbols(architecture, (2, 28))
    if library.machine == {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[architecture]:
        assert needed - published == set()
    else:
        assert {name for name, _ in needed} - {name for name, _ in published} == set()


@pytest.mark.parametrize("kernel", _KERNELS)
def test_gcc_8_s_runtime_has_all_that_an_artifact_needs(libraries: dict[str, Path], kernel: str) -> None:
    exported = {
        (symbol.name, symbol.version)
        for name in ("libstdc++.so.6", "libgcc_s.so.1")
        for symbol in portable._symbols(Path(_of_compiler(name)))
    }
    needed = {
        (symbol.name, symbol.version.name)
        for symbol in _read(libraries[kernel]).imports
        if symbol.version and not symbol.version.name.startswith("GLIBC_")
    }
    assert needed - exported == set()
    ceilings = _LIMITS.platforms[Platform.X86_64_LINUX].symbol_versions
    newest = {family: tuple(map(int, version.split("."))) for family, version in ceilings.items()}
    for _, version in needed:
        family, _, number = version.rpartition("_")
        assert tuple(map(int, number.split("."))) <= newest[family]


def _of_compiler(name: str) -> str:
    return subprocess.run(
        ["c++", f"-print-file-name={name}"], check=True, capture_output=True, text=True
    ).stdout.strip()


# --- what upstream's checker says ---


def _link(folder: Path, text: str, *options: str) -> Path:
    source, library = folder / "library.cpp", folder / "library.so"
    source.write_text(text)
    subprocess.run(["c++", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), *options], check=True)
    return library


def _too_new(path: Path) -> set[str]:
    """The names that our check of symbol versions finds fault with."""
    library = _read(path)
    found = list(symbols.check(subject(None, library), lambda _: False))
    assert all(isinstance(finding, Finding) for finding in found)
    text = " ".join(finding.message for finding in found if isinstance(finding, Finding))
    return {symbol.name for symbol in library.imports if symbol.name in text.replace(",", " ").split()}


@pytest.mark.parametrize("kernel", _KERNELS)
def test_upstream_s_checker_finds_nothing_either(libraries: dict[str, Path], kernel: str) -> None:
    checked = kernel_abi_check.ObjectFile(libraries[kernel])
    assert checked.check_manylinux("manylinux_2_28") == []
    assert checked.check_python_abi("3.9") == []


def test_both_find_the_same_symbols_too_new(tmp_path: Path) -> None:
    text = (PROJECTS / "bad/check-symbols/kernels/symbols/vendored.cpp").read_text()
    text += '#include <sys/stat.h>\nextern "C" int f(struct stat* s) { return stat("/", s); }\n'
    library = _link(tmp_path, text, "-std=c++20")
    theirs = kernel_abi_check.ObjectFile(library).check_manylinux("manylinux_2_28")
    names = {violation.name for violation in theirs}
    assert "_ZSt8to_charsPcS_d" in names
    assert _too_new(library) == names
    # It reads the symbol table that a stripped library lacks; ours is what the loader reads.
    subprocess.run(["strip", "--strip-all", str(library)], check=True)
    assert kernel_abi_check.ObjectFile(library).check_manylinux("manylinux_2_28") == []
    assert _too_new(library) == names


def test_both_agree_about_every_symbol_of_python(tmp_path: Path) -> None:
    # All that the stable ABI ever had, and as many names again that it never had.
    stable = python_abi.stable_abi()
    names = sorted({*stable, *(f"{name}_" for name in stable), "_PyLong_Sign", "PyUnicode_AsUTF8"})
    declared = "".join(f'extern "C" char {name}[];\n' for name in names)
    text = f'{declared}extern "C" {{ const void* table[] = {{{", ".join(names)}}}; }}\n'
    library = _link(tmp_path, text)
    theirs = {violation.name for violation in kernel_abi_check.ObjectFile(library).check_python_abi("3.9")}
    ours = {
        finding.message.split()[0]
        for finding in python_abi.check(subject(None, _read(library)))
        if isinstance(finding, Finding)
    }
    assert ours == theirs
