"""Which files of a kernel's folder a build reads.

Sources are listed in build.toml. Headers are those that the sources reach through `#include`, listed or not: so a
header-only folder needs no list, and a header that no source reaches rebuilds nothing. Nothing but these files is laid
out for the compiler, so a build cannot come to depend on a file that its digest does not cover.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from buildlib.config.model import Kernel, RustCpu, RustCuda, TorchNoarch, TvmFfi
from buildlib.files import FileCache
from buildlib.plan import BuildSpec
from buildlib.rust import files as rust

# Searched for every source, whatever build.toml says; `registration.h` is generated as if it stood in the second.
IMPLICIT_INCLUDES = ("csrc", "torch-ext")

# What a compiler, of whichever backend, makes an object of. Anything else that is listed is there to be read.
_COMPILED = frozenset({".c", ".c++", ".cc", ".cpp", ".cu", ".cxx", ".hip", ".m", ".metal", ".mm"})


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Paths relative to the kernel's folder, sorted. `sources` holds the headers too, `crates` all of Rust."""

    sources: tuple[str, ...]
    package: tuple[str, ...]
    crates: tuple[str, ...] = ()
    # The compiled files that spell the extension's name by themselves, or reach a header that does.
    spell_name: frozenset[str] = frozenset()

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(sorted({*self.sources, *self.package, *self.crates}))


def is_compiled(path: str) -> bool:
    """Whether a listed source is a translation unit; headers are listed only to be found."""
    return posixpath.splitext(path)[1].lower() in _COMPILED


def package_folder(kernel: Kernel) -> str:
    """The folder of the kernel's Python package, relative to the kernel's own."""
    parent = "tvm-ffi-ext" if isinstance(kernel.framework, TvmFfi) else "torch-ext"
    return f"{parent}/{kernel.general.module}"


def find(spec: BuildSpec, cache: FileCache) -> Inputs:
    """The inputs of a spec, from the folder's present content."""
    files = frozenset(cache.listing(spec.kernel.folder))
    sources: set[str] = set()
    spell_name = set()
    for listed, includes in _groups(spec):
        search = (*includes, *IMPLICIT_INCLUDES)
        for path in listed:
            reached = _reach(spec.kernel.folder, path, search, files, cache)
            sources |= reached
            if is_compiled(path) and any(_info_spells(spec.kernel.folder, each, cache) for each in reached):
                spell_name.add(path)
    return Inputs(
        sources=tuple(sorted(sources)),
        package=tuple(sorted(_package(spec.kernel, files))),
        crates=rust.find(spec.crates, cache).sources if spec.crates else (),
        spell_name=frozenset(spell_name),
    )


def _groups(spec: BuildSpec) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The listed files, with the include folders that hold for them."""
    framework = spec.kernel.framework
    if spec.toolchain is None or isinstance(framework, TorchNoarch):
        return
    yield framework.src, framework.include
    for component in spec.components:
        if not isinstance(component, RustCpu | RustCuda):
            yield component.src, component.include


def _reach(folder: Path, path: str, search: Iterable[str], files: frozenset[str], cache: FileCache) -> set[str]:
    """`path` and all files of the folder that it includes, directly or not."""
    search = tuple(search)
    reached = {path}
    waiting = [path]
    while waiting:
        current = waiting.pop()
        info = cache.get(f"{folder}/{current}")
        for include in info.includes if info else ():
            bases = (posixpath.dirname(current), *search) if include[0] == '"' else search
            for base in bases:
                candidate = posixpath.normpath(posixpath.join(base, include[1:]))
                if candidate in files:
                    if candidate not in reached:
                        reached.add(candidate)
                        waiting.append(candidate)
                    break
    return reached


def _info_spells(folder: Path, path: str, cache: FileCache) -> bool:
    info = cache.get(f"{folder}/{path}")
    return info is not None and info.spells_name


def _package(kernel: Kernel, files: Iterable[str]) -> Iterator[str]:
    """The files of the Python package that ship: Python, stubs, and what `pyext` adds."""
    prefix = package_folder(kernel) + "/"
    shipped = {"py", "pyi", *kernel.framework.pyext}
    return (path for path in files if path.startswith(prefix) and path.rpartition(".")[2] in shipped)
