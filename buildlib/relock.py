"""`doit lock --toolchains`: from toolchains/packages.toml, what is wanted, to lock.toml, what is fetched.

What is pinned and still wanted stays as it is, and no index is asked about it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from buildlib import environment, lock, render
from buildlib.data import read
from buildlib.errors import ToolchainError, UnavailableError
from buildlib.fetch.resolve import Found, Wanted, resolve
from buildlib.files import write_if_changed
from buildlib.lock import Entry
from buildlib.variant import Platform
from buildlib.workspace import Workspace

_PLATFORMS = (Platform.X86_64_LINUX, Platform.AARCH64_LINUX)


class _Packages(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The packages of a toolchain, as pip writes requirements; `python` and `index` are of all of them."""

    packages: tuple[str, ...]
    python: str | None = None
    index: str | None = None


def update(workspace: Workspace, *, upgrade: bool) -> str:
    """Write lock.toml anew; what changed, in a line. With `upgrade`, the newest versions that are wanted are pinned.

    Raises:
        UnavailableError: a package index cannot be reached, or nobody has said where it is.
        ToolchainError: packages.toml or lock.toml cannot be used, or no index has a package.
    """
    data = workspace.root / "toolchains"
    wanted = read(data / "packages.toml", dict[str, _Packages])
    before = lock.entries(data / "lock.toml")
    after = tuple(
        entry
        for toolchain, packages in wanted.items()
        for requirement in packages.packages
        for entry in (_entry(toolchain, requirement, packages, before, workspace, upgrade=upgrade),)
    )
    write_if_changed(data / "lock.toml", text(after).encode())
    return "; ".join(_changes(before, after)) or "nothing to change"


def text(entries: tuple[Entry, ...]) -> str:
    """lock.toml with these entries."""
    rows = [
        {
            "entry": entry,
            "files": [(str(platform), file) for platform in _PLATFORMS if (file := entry.file(platform))],
        }
        for entry in entries
    ]
    return render.text("toolchains/lock.toml.j2", {"rows": rows})


def _entry(
    toolchain: str,
    requirement: str,
    packages: _Packages,
    before: tuple[Entry, ...],
    workspace: Workspace,
    *,
    upgrade: bool,
) -> Entry:
    where = f"toolchains/packages.toml: [{toolchain}] packages"
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement as error:
        raise ToolchainError(f"{where}: {requirement!r}: {str(error).splitlines()[0]}; correct it") from None
    name = canonicalize_name(parsed.name)
    for pinned in before:
        like = (pinned.toolchain, pinned.name, pinned.python, pinned.index)
        if like == (toolchain, name, packages.python, packages.index) and parsed.specifier.contains(pinned.version):
            if not upgrade:
                return pinned
            break
    variable = environment.index_variable(packages.index) if packages.index else None
    if variable and variable not in workspace.settings.indexes:
        raise UnavailableError(
            f"{where}: index {packages.index!r}: nobody has said where it is; set {variable} to its URL"
        )
    workspace.notify(toolchain, name)
    sizes = {file.sha256: file.size for entry in before for each in _PLATFORMS if (file := entry.file(each))}
    found = _resolve(requirement, name, packages, sizes, workspace)
    if not found:
        raise ToolchainError(f"{where}: no package index has {requirement!r} for any platform; correct it")
    files = {str(platform): {"sha256": each.sha256, "size": each.size} for platform, each in found.items()}
    version = next(iter(found.values())).version
    rest = {
        "toolchain": toolchain,
        "name": name,
        "version": version,
        "python": packages.python,
        "index": packages.index,
    }
    return msgspec.convert({**rest, **files}, Entry)


def _resolve(
    requirement: str, name: str, packages: _Packages, sizes: dict[str, int], workspace: Workspace
) -> dict[Platform, Found]:
    """The files by platform: of the newest version on the first one that has any, and of the same on the others."""
    found: dict[Platform, Found] = {}
    for platform in _PLATFORMS:
        wanted = Wanted(requirement=requirement, machine=platform.cpu, python=packages.python, index=packages.index)
        with tempfile.TemporaryDirectory(prefix="kernelyard-lock-") as folder:
            file = resolve(wanted, sizes, Path(folder), workspace.settings, workspace.processes)
        if file:
            found[platform] = file
            requirement = f"{name}=={file.version}"
    return found


def _changes(before: tuple[Entry, ...], after: tuple[Entry, ...]) -> Iterator[str]:
    """What differs, by package."""
    old, new = ({(entry.toolchain, entry.name): entry for entry in entries} for entries in (before, after))
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key), new.get(key)
        if was == now:
            continue
        versions = [entry.version if entry else None for entry in (was, now)]
        what = "removed" if now is None else "added" if was is None else "changed"
        shown = f"{versions[0]} → {versions[1]}" if was and now and was.version != now.version else ""
        yield f"{key[0]}: {key[1]} {shown or f'{versions[1] or versions[0]} {what}'}"
