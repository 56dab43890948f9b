"""One Cargo.toml: what a build needs to know of it, and what is wrong with it.

Cargo itself refuses a whole workspace for one bad member, and often without saying whose it is. So what can be seen
in a manifest alone is found here, per kernel, before any workspace is made.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import tomli

from buildlib.errors import ConfigError

Document = Mapping[str, Any]

_DEPENDENCIES = ("dependencies", "build-dependencies")
# Cargo reads these at a workspace's root only, and passes over them elsewhere with a warning that nobody sees.
_ROOT_ONLY = ("profile", "patch", "replace")


class Crate(msgspec.Struct, frozen=True, kw_only=True):
    """A crate of a kernel: `folder` is relative to the kernel's, `""` for that itself, `../_rust/…` for a shared one.

    `requires` names the packages that it is built with and that are not beside it by path; `script` is where its
    build script is, if it has one.
    """

    name: str
    folder: str
    requires: tuple[str, ...] = ()
    script: str = "build.rs"

    @property
    def manifest(self) -> str:
        return posixpath.join(self.folder, "Cargo.toml")

    @property
    def is_shared(self) -> bool:
        """Whether it is one that kernels share."""
        return self.folder.startswith("../")


def read(path: Path, shown: str) -> Document:
    """The content of a manifest.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    try:
        return parse(path.read_bytes(), shown)
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read ({error.strerror}); correct what names it") from None


def parse(content: bytes, shown: str) -> Document:
    """The content of a TOML file of Rust's tools.

    Raises:
        ConfigError: it is not TOML.
    """
    try:
        return tomli.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise ConfigError(f"{shown}: not UTF-8; save it as UTF-8") from None
    except tomli.TOMLDecodeError as error:
        raise ConfigError(f"{shown}: {error}; correct it") from None


def crate(document: Document, folder: str, shown: str) -> Crate:
    """The crate that a manifest describes.

    Raises:
        ConfigError: it has no [package] with a name.
    """
    package = document.get("package")
    name = package.get("name") if isinstance(package, dict) else None
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{shown}: [package] name: missing; every crate needs one")
    requires = {
        str(value.get("package", key)) if isinstance(value, dict) else key
        for key, value in _dependencies(document, _DEPENDENCIES)
        if not (isinstance(value, dict) and "path" in value)
    }
    build = package.get("build") if isinstance(package, dict) else None
    script = build if isinstance(build, str) else "build.rs"
    return Crate(name=name, folder=folder, requires=tuple(sorted(requires)), script=script)


def check_library(document: Document, folder: Path, shown: str) -> None:
    """Check that a crate has a library, which is all that can be linked into an extension.

    Raises:
        ConfigError: it has none.
    """
    library = document.get("lib", {})
    path = str(library.get("path", "src/lib.rs"))
    if library.get("proc-macro") or library.get("proc_macro"):
        raise ConfigError(f"{shown}: [lib]: a proc-macro is no part of an extension; name the crate that uses it")
    if not (folder / path).is_file():
        raise ConfigError(f"{shown}: [lib] path: {path!r} does not exist; an extension needs a library crate")


def check_member(document: Document, shown: str) -> None:
    """Check that a crate can be a member of the workspace that all kernels share.

    Raises:
        ConfigError: it says what only a workspace's root may say, or takes values from one.
    """
    own = "give the kernel a workspace of its own, with a Cargo.lock beside its Cargo.toml"
    for table in _ROOT_ONLY:
        if table in document:
            raise ConfigError(f"{shown}: [{table}]: has no effect in a member of a workspace; drop it, or {own}")
    if "workspace" in document:
        raise ConfigError(f"{shown}: [workspace]: Cargo.lock is missing beside it; run 'cargo generate-lockfile' there")
    for where, value in _inheriting(document):
        if isinstance(value, dict) and value.get("workspace"):
            raise ConfigError(f"{shown}: {where}: there is no workspace to take it from; write it out, or {own}")


def path_dependencies(document: Document) -> Iterator[tuple[str, str]]:
    """Name and path, as written, of each dependency by path: those for tests too, and those that a root offers."""
    tables = (*_DEPENDENCIES, "dev-dependencies")
    offered = document.get("workspace", {}).get("dependencies", {})
    for name, value in (*_dependencies(document, tables), *_items(offered)):
        if isinstance(value, dict) and isinstance(path := value.get("path"), str):
            yield name, path


def as_library(content: bytes) -> bytes:
    """The manifest of a crate as a dependency can use it: not as a static or dynamic library of its own."""
    import tomlkit  # noqa: PLC0415 - takes longer to import than doit to list

    document = tomlkit.parse(content.decode("utf-8"))
    library = document.get("lib", {})
    for key in ("crate-type", "crate_type"):
        if key in library:
            library[key] = ["rlib"]
    return tomlkit.dumps(document).encode("utf-8")


def with_members(content: bytes, members: list[str]) -> bytes:
    """The manifest of a workspace's root with more members."""
    import tomlkit  # noqa: PLC0415 - as above

    document = tomlkit.parse(content.decode("utf-8"))
    workspace = document.setdefault("workspace", tomlkit.table())
    workspace["members"] = [*workspace.get("members", []), *members]
    return tomlkit.dumps(document).encode("utf-8")


def _inheriting(document: Document) -> Iterator[tuple[str, Any]]:
    """Everything in a manifest that can be taken from a workspace: where it stands, and its value."""
    yield "[lints]", document.get("lints")
    for key, value in _items(document.get("package")):
        yield f"[package] {key}", value
    for key, value in _dependencies(document, (*_DEPENDENCIES, "dev-dependencies")):
        yield f"dependency {key!r}", value


def _dependencies(document: Document, tables: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    targets = [document, *(target for _, target in _items(document.get("target")))]
    for target in targets:
        for table in tables:
            yield from _items(target.get(table) if isinstance(target, dict) else None)


def _items(table: object) -> Iterator[tuple[str, Any]]:
    if isinstance(table, dict):
        yield from table.items()
