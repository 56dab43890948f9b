"""An artifact built here asks for no newer runtime than its platform's policy allows, and works all the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

from tests.integration.conftest import Yard, new_yard

_CEILINGS = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}


def _needed_versions(library: Path) -> set[str]:
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu.version_r")
        assert isinstance(section, GNUVerNeedSection)
        return {version.name for _, versions in section.iter_versions() for version in versions}


def _too_new(library: Path) -> set[str]:
    found = set()
    for version in _needed_versions(library):
        prefix, numbers = version.rsplit("_", 1)
        if prefix in _CEILINGS and tuple(map(int, numbers.split("."))) > _CEILINGS[prefix]:
            found.add(version)
    return found


def _undefined(library: Path) -> set[str]:
    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        assert isinstance(table, SymbolTableSection)
        return {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"} - {""}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Yard:
    yard = new_yard(tmp_path_factory.mktemp("portable") / "yard", cache)
    yard.add("portable")
    result = yard.doit("check")
    assert result.status == 0, result.out
    return yard


def test_symbol_versions_stop_at_the_ceiling(built: Yard) -> None:
    library = next(built.artifact("portable").glob("*.so"))
    assert _too_new(library) == set()
    assert any(version.startswith("GLIBC_") for version in _needed_versions(library))
    # What a newer libc has is defined inside, so it must not be looked for outside, versioned or not.
    newer = {"__libc_single_threaded", "stat", "lstat", "pthread_cond_clockwait", "pthread_mutex_clocklock"}
    assert _undefined(library) & newer == set()
    assert not any(name.startswith("__isoc23_") for name in _undefined(library))


@pytest.mark.parametrize("beside_torch", [False, True])
def test_the_runtime_works(built: Yard, *, beside_torch: bool) -> None:
    artifact = str(built.artifact("portable"))
    torch = "import torch; torch.ones(1000).exp().sum(); " if beside_torch else ""
    # Without the client, which imports torch by itself: the package's own __init__ is all that is loaded.
    load = (
        f"import importlib.util as u, sys; s = u.spec_from_file_location('portable', {artifact!r} + '/__init__.py'); "
    )
    load += "m = u.module_from_spec(s); sys.modules['portable'] = m; s.loader.exec_module(m); "
    parts = json.loads(built.call(f"{torch}{load}import json; print(json.dumps({{p: m.works(p) for p in m.PARTS}}))"))
    assert len(parts) == 11
    assert [part for part, works in parts.items() if not works] == []


def test_a_plain_link_would_not_do(built: Yard) -> None:
    # The other way round, so that the tests above are known to be able to fail on this host.
    result = built.doit("build", "--no-portable")
    assert result.status == 0
    library = next(built.artifact("portable").glob("*.so"))
    assert "not portable" in built.metadata("portable")["kernelyard"]["toolchain"]
    if re.search(r"GLIBC_2\.(29|[3-9]\d)", " ".join(_needed_versions(library))) is None:
        pytest.skip("this host's own runtime is old enough")
    assert _too_new(library) != set()
    assert built.doit("build").ran() == ["build:portable:tvm-ffi01-cpu-x86_64-linux"]
    assert _too_new(next(built.artifact("portable").glob("*.so"))) == set()
