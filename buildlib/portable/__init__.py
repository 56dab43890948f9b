"""Linking on any Linux host for an older one: link-time stand-ins for the runtime libraries.

A host's libc, libm, libstdc++ and libgcc_s still hold every older version of each symbol, but a plain link binds the
newest. The stand-ins are libraries of the same names that offer, of each symbol, the newest version below the ceiling
and nothing newer. They hold no code and are needed at link time only. What is newer comes from elsewhere, and hidden:
pieces of the C++ runtime from the host's libstdc++.a, and a few functions of glibc from compat.c.

glibc 2.28 kept the thread functions in libpthread and dlopen in libdl. A symbol is looked for by name and version in
all loaded libraries, and Python has loaded these two before it loads any extension, so binding them to libc is right
on old and new systems.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from buildlib import environment
from buildlib.environment import Settings
from buildlib.errors import StepError
from buildlib.process import Processes, output
from buildlib.toolchain import Compiler

# The libraries that get a stand-in, by their soname without `.so…`, and the names that -l finds them by.
_LIBRARIES = ("libc.so.6", "libm.so.6", "libmvec.so.1", "libstdc++.so.6", "libgcc_s.so.1")
_VERSION = re.compile(r"([A-Z]+)_([0-9.]+)")
_COMPAT = Path(__file__).with_name("compat.c")


class _Symbol(msgspec.Struct, frozen=True, order=True):
    """A dynamic symbol at the version that a stand-in offers; `size` in bytes."""

    name: str
    version: str
    kind: str
    size: int


def stand_ins(compiler: Compiler, ceilings: Mapping[str, str], settings: Settings, processes: Processes) -> Path:
    """The folder of stand-ins for a compiler and ceilings, made on first use and kept in the per-user cache.

    `ceilings` holds the newest version to offer by the prefix of its name, as in `{"GLIBC": "2.28"}`.

    Raises:
        StepError: the host's libraries cannot be read, or the compiler cannot link a stand-in.
    """
    recipe = (Path(__file__).read_bytes(), _COMPAT.read_bytes(), repr((compiler.identity, sorted(ceilings.items()))))
    key = hashlib.sha256(b"\0".join(part if isinstance(part, bytes) else part.encode() for part in recipe)).hexdigest()
    folder = settings.cache / "portable" / key[:16]
    if folder.is_dir():
        return folder
    # Imported here because only the first build of all needs it.
    import filelock  # noqa: PLC0415

    folder.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder.with_suffix(".lock")):
        if folder.is_dir():
            return folder
        making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-"))
        try:
            _Maker(compiler, ceilings, settings, processes, making).make()
            # Its name is what says that a folder is whole.
            making.rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder


class _Maker:
    """Makes one folder of stand-ins."""

    def __init__(
        self,
        compiler: Compiler,
        ceilings: Mapping[str, str],
        settings: Settings,
        processes: Processes,
        folder: Path,
    ) -> None:
        self._compiler = compiler
        self._ceilings = {prefix: _numbers(version) for prefix, version in ceilings.items()}
        self._env = environment.child(settings)
        self._processes = processes
        self._folder = folder

    def make(self) -> None:
        made = [soname for soname in _LIBRARIES if (real := self._find(soname)) and self._stand_in(soname, real)]
        self._compat()
        for soname in made:
            name = soname.partition(".so")[0]
            (self._folder / f"{name}.so").write_text(" ".join(self._script(name, soname)) + "\n")

    def _script(self, name: str, soname: str) -> Iterator[str]:
        """The linker script that `-l` finds: the stand-in, then where to look for what it does not offer.

        Paths are relative: the linker looks for them in the folders that it searches, the stand-ins' first.
        """
        yield f"GROUP ( {soname}"
        if name == "libc":
            yield "libkernelyard_compat.a"
            if nonshared := self._find("libc_nonshared.a"):
                yield f'"{nonshared}"'
            loaders = sorted(Path(loader).name for loader in self._loaders())
            yield "AS_NEEDED ( " + " ".join(loaders) + " )"
        if name == "libm" and (self._folder / "libmvec.so.1").exists():
            yield "AS_NEEDED ( libmvec.so.1 )"
        if name == "libstdc++" and (archive := self._find("libstdc++.a")):
            yield f'"{archive}"'
        if name == "libgcc_s":
            yield "-lgcc"
        yield ")"

    def _loaders(self) -> Iterator[str]:
        """The dynamic loader, which defines the access to thread-local storage."""
        for name in ("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"):
            if found := self._find(name):
                yield str(found)

    def _find(self, name: str) -> Path | None:
        """A file of the compiler's libraries; a compiler that has none prints the name back."""
        found = (output([self._compiler.path, f"-print-file-name={name}"], env=self._env) or "").strip()
        return Path(found).resolve() if "/" in found else None

    def _stand_in(self, soname: str, real: Path) -> bool:
        symbols = sorted(self._offered(real))
        if not symbols:
            return False
        versions = sorted({symbol.version for symbol in symbols})
        assembly = "".join(_assembly(index, symbol) for index, symbol in enumerate(symbols))
        # The labels of the definitions are not to be seen; a pattern may stand under one version only.
        first, *others = versions
        script = "".join(f"{version} {{ }};\n" for version in others) + f"{first} {{ local: kernelyard_*; }};\n"
        (self._folder / "stand-in.s").write_text(f'{assembly}.section .note.GNU-stack,"",%progbits\n')
        (self._folder / "stand-in.map").write_text(script)
        self._run(
            self._compiler.path, "-shared", "-nostdlib", "-o", soname, "stand-in.s",
            f"-Wl,-soname,{soname}", "-Wl,--version-script=stand-in.map",
        )  # fmt: skip
        return True

    def _offered(self, real: Path) -> list[_Symbol]:
        """The symbols of a library, each at its newest version that is not above the ceiling."""
        newest: dict[str, tuple[tuple[int, ...], _Symbol]] = {}
        for symbol in _symbols(real):
            match = _VERSION.fullmatch(symbol.version)
            if match is None or match[1] not in self._ceilings:
                continue
            numbers = _numbers(match[2])
            if numbers <= self._ceilings[match[1]] and (symbol.name not in newest or newest[symbol.name][0] < numbers):
                newest[symbol.name] = (numbers, symbol)
        return [symbol for _, symbol in newest.values()]

    def _compat(self) -> None:
        """The archive of hidden definitions; the linker takes it only where one of them is referenced."""
        shutil.copy(_COMPAT, self._folder / "compat.c")
        # A section for each function: extensions are linked with --gc-sections, so they keep only what they use.
        self._run(self._compiler.path, "-x", "c", "-std=gnu11", "-O2", "-fPIC", "-ffunction-sections", "-c", "compat.c")
        archiver = (output([self._compiler.path, "-print-prog-name=ar"], env=self._env) or "ar").strip()
        self._run(archiver, "rcsD", "libkernelyard_compat.a", "compat.o")

    def _run(self, *argv: str) -> None:
        log = self._folder / "log"
        if self._processes.run(argv, cwd=self._folder, env=self._env, log=log) != 0:
            said = log.read_text(encoding="utf-8")[-2000:]
            raise StepError(
                f"{argv[0]}: cannot link for an older Linux on this machine; "
                f"'--no-portable' builds for this machine alone\n{said}"
            )


def _symbols(library: Path) -> Iterator[_Symbol]:
    """The versioned symbols that a library defines."""
    # Imported here because only the first build of all needs it.
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415
    from elftools.elf.gnuversions import GNUVerDefSection, GNUVerSymSection  # noqa: PLC0415
    from elftools.elf.sections import SymbolTableSection  # noqa: PLC0415

    with library.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".dynsym")
        of_symbol = elf.get_section_by_name(".gnu.version")
        definitions = elf.get_section_by_name(".gnu.version_d")
        if not (
            isinstance(table, SymbolTableSection)
            and isinstance(of_symbol, GNUVerSymSection)
            and isinstance(definitions, GNUVerDefSection)
        ):
            return
        names = {entry["vd_ndx"]: next(names).name for entry, names in definitions.iter_versions()}
        for index, symbol in enumerate(table.iter_symbols()):
            info = symbol["st_info"]
            # The absolute ones are the names of the versions themselves.
            if symbol["st_shndx"] in {"SHN_UNDEF", "SHN_ABS"} or info["bind"] == "STB_LOCAL":
                continue
            # The top bit marks a version that is not the default one.
            version = of_symbol.get_symbol(index)["ndx"]
            name = names.get(version & 0x7FFF) if isinstance(version, int) else None
            if name is not None:
                yield _Symbol(symbol.name, name, str(info["type"]), int(symbol["st_size"]))


def _assembly(index: int, symbol: _Symbol) -> str:
    """A definition of one symbol, of the right kind and size and without content."""
    section, kind = {
        "STT_TLS": ('.section .tbss,"awT",%nobits', "%tls_object"),
        "STT_OBJECT": (".bss", "%object"),
    }.get(symbol.kind, (".text", "%function"))
    size = 1 if kind == "%function" else max(1, symbol.size)
    label = f"kernelyard_{index}"
    return (
        f"{section}\n.globl {label}\n.type {label},{kind}\n.size {label},{size}\n{label}: .zero {size}\n"
        f".symver {label},{symbol.name}@@{symbol.version}\n"
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
