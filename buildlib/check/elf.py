"""A shared library's dynamic section and dynamic symbols: what the loader reads, so what a stripped library keeps."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

# pyelftools is imported where it is used: only a run that checks something reads libraries.

# Tags of the dynamic section, each with pyelftools' attribute for its value.
_NEEDED = {"DT_NEEDED": "needed"}
_RUN_PATHS = {"DT_RPATH": "rpath", "DT_RUNPATH": "runpath"}


class Version(NamedTuple):
    """A version node that a library needs, and the library that it is wanted from."""

    name: str
    file: str


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """A symbol that a library needs; without a version, any library may give it."""

    name: str
    version: Version | None = None
    # The library can be loaded without it.
    weak: bool = False


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """A shared library of an artifact, at `path` within it."""

    path: str
    content: bytes = b""
    machine: str = "EM_X86_64"
    needed: tuple[str, ...] = ()
    run_paths: tuple[str, ...] = ()
    # All that are needed: a version may be needed for the sake of no symbol, such as GLIBC_ABI_DT_RELR.
    versions: tuple[Version, ...] = ()
    imports: tuple[Import, ...] = ()
    exports: tuple[str, ...] = ()
    sections: frozenset[str] = frozenset()


def read_library(path: str, content: bytes) -> Library | str:
    """Read a library, or say why it cannot be read. The content must be what a linker wrote, not damaged."""
    from elftools.common.exceptions import ELFError  # noqa: PLC0415
    from elftools.elf.dynamic import DynamicSection  # noqa: PLC0415
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415

    try:
        elf = ELFFile(io.BytesIO(content))
        dynamic = elf.get_section_by_name(".dynamic")
        if not isinstance(dynamic, DynamicSection):
            return "not a shared library: it has no dynamic section"
        versions = _versions(elf)
        imports, exports = _symbols(elf, versions)
        return Library(
            path=path,
            content=content,
            machine=elf["e_machine"],
            needed=tuple(_values(dynamic, _NEEDED)),
            run_paths=tuple(_values(dynamic, _RUN_PATHS)),
            versions=tuple(versions.values()),
            imports=tuple(imports),
            exports=tuple(exports),
            sections=frozenset(section.name for section in elf.iter_sections()),
        )
    except ELFError as error:
        return f"not an ELF file that can be read ({error})"


def _values(dynamic: DynamicSection, attributes: Mapping[str, str]) -> Iterator[str]:
    for tag in dynamic.iter_tags():
        if attribute := attributes.get(tag.entry.d_tag):
            yield getattr(tag, attribute)


def _versions(elf: ELFFile) -> dict[int, Version]:
    """The versions that a library needs, each by the number that stands for it in .gnu.version."""
    from elftools.elf.gnuversions import GNUVerNeedSection  # noqa: PLC0415

    section = elf.get_section_by_name(".gnu.version_r")
    if not isinstance(section, GNUVerNeedSection):
        return {}
    return {
        entry["vna_other"]: Version(str(entry.name), str(need.name))
        for need, entries in section.iter_versions()
        for entry in entries
    }


def _symbols(elf: ELFFile, versions: dict[int, Version]) -> tuple[list[Import], list[str]]:
    from elftools.elf.gnuversions import GNUVerSymSection  # noqa: PLC0415
    from elftools.elf.sections import SymbolTableSection  # noqa: PLC0415

    table = elf.get_section_by_name(".dynsym")
    numbers = elf.get_section_by_name(".gnu.version")
    imports: list[Import] = []
    exports: list[str] = []
    for index, symbol in enumerate(table.iter_symbols() if isinstance(table, SymbolTableSection) else ()):
        binding, section = symbol["st_info"]["bind"], symbol["st_shndx"]
        if not symbol.name or binding == "STB_LOCAL":
            continue
        if section == "SHN_UNDEF":
            number = numbers.get_symbol(index)["ndx"] if isinstance(numbers, GNUVerSymSection) else 0
            imports.append(Import(name=symbol.name, version=versions.get(number), weak=binding == "STB_WEAK"))
        elif section != "SHN_ABS":  # A version node of the library's own is an absolute symbol that nothing refers to.
            exports.append(symbol.name)
    return sorted(imports, key=lambda symbol: symbol.name), sorted(exports)
