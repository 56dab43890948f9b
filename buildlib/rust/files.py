"""Which files of its crates a build reads. Nothing else is laid out for cargo, but what only tests are made of."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Sequence

import msgspec

from buildlib.files import Files
from buildlib.rust.crates import Crates

# Cargo compiles these for `cargo test` and the like. They are laid out, as cargo misses those that a manifest names.
_TARGETS_OF_TESTS = ("benches", "examples", "tests")


class CrateFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Paths relative to the kernel's folder, sorted: what a build reads, and what only tests do."""

    sources: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


def find(crates: Crates, cache: Files) -> CrateFiles:
    """The files of a kernel's crates, from the folders' present content.

    That is each crate's manifest, its `src` folder, any other Rust source, and what `src` in build.toml lists; what is
    below the manifest of another crate is of that one.
    """
    files = cache.listing(crates.kernel)
    manifests = {posixpath.dirname(path) for path in files if posixpath.basename(path) == "Cargo.toml"}
    sources, tests = set(_listed(crates, files)), set[str]()
    roots = {device.root for device in crates.devices if device.root is not None}
    # Cargo reads the manifests of all members of a workspace.
    members = {folder for folder in manifests if any(f"{folder}/".startswith(f"{root}/") for root in roots if root)}
    if crates.own is not None:
        roots.add(crates.own)
        members = manifests
    for folder in {*(crate.folder for crate in crates.crates), *members}:
        shared = folder.startswith("../")
        inside = cache.listing(crates.kernel / folder) if shared else _of_crate(files, folder, manifests)
        for path in inside:
            whole = posixpath.join(folder, path)
            if path.partition("/")[0] in _TARGETS_OF_TESTS:
                tests.add(whole)
            elif path == "Cargo.toml" or path.startswith("src/") or path.endswith(".rs"):
                sources.add(whole)
    sources |= {posixpath.join(root, name) for root in roots for name in ("Cargo.toml", "Cargo.lock")}
    return CrateFiles(sources=tuple(sorted(sources)), tests=tuple(sorted(tests - sources)))


def _of_crate(files: Sequence[str], folder: str, manifests: Collection[str]) -> Iterator[str]:
    """The files below a crate's folder, less those of crates below it; relative to the folder."""
    prefix = f"{folder}/" if folder else ""
    inner = tuple(f"{other}/" for other in manifests if other != folder and other.startswith(prefix))
    return (path.removeprefix(prefix) for path in files if path.startswith(prefix) and not path.startswith(inner))


def _listed(crates: Crates, files: Sequence[str]) -> Iterator[str]:
    """What `src` of the components lists: files, and all that is in folders."""
    for listed in dict.fromkeys(path for paths in crates.src.values() for path in paths):
        yield from (path for path in files if path == listed or path.startswith(f"{listed}/"))
