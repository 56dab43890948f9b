"""The symbols of libraries: of Rust's own and of linked ones."""

from __future__ import annotations

from pathlib import Path

_MAGIC, _HEADER = 8, 60


def symbols(library: Path) -> list[str]:
    """The symbols in the index of an archive such as an .rlib, whose members need not be object files.

    With link-time optimisation they are LLVM's, which only its own tools can read; the index lists their symbols too.
    """
    content = library.read_bytes()
    header = content[_MAGIC : _MAGIC + _HEADER]
    # The index is the first member, named "/": how many symbols, where each one's member is, and then the names.
    if content[:_MAGIC] != b"!<arch>\n" or header[:2] != b"/ ":
        return []
    size = int(header[48:58])
    index = content[_MAGIC + _HEADER : _MAGIC + _HEADER + size]
    count = int.from_bytes(index[:4], "big")
    return [name.decode("utf-8", "replace") for name in index[4 + 4 * count :].split(b"\0")[:count]]


def dynamic_symbols(library: Path) -> set[str]:
    """The symbols that a shared library defines for others."""
    # Imported here because only builds need it.
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415
    from elftools.elf.sections import SymbolTableSection  # noqa: PLC0415

    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        if not isinstance(table, SymbolTableSection):
            return set()
        return {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"}
