"""Crates laid out as Cargo workspaces, and pinned.

`build/cargo` mirrors the repository: `kernels/<key>` and `kernels/_rust` hold the crates, `extensions/` a generated
crate for each kernel × backend, `emitters/` a generated program for each device crate of tile programs, and the
manifest at its root makes them one workspace, so that what they share is compiled once and pinned by one Cargo.lock,
that of the repository. A kernel that brings a workspace of its own gets
the same layout below its work folder, with its own root.

Cargo refuses a workspace for one bad member. Where it does, the kernels are taken in one by one, and who makes it fail
is left out, with what cargo said about it. Cargo.lock holds more than a workspace without such a kernel needs, and
nothing of the generated crates where it was made for fewer kernels; so cargo adapts a copy of it. The copy may drop
and add crates of this repository, but may pin nothing that Cargo.lock does not.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from buildlib import layout, render
from buildlib.config.model import Dsl
from buildlib.errors import StepError
from buildlib.files import length, write, write_if_changed
from buildlib.rust import files, manifest
from buildlib.rust.command import run, said
from buildlib.rust.crates import TILE, Crates, Device
from buildlib.rust.lock import Lock
from buildlib.rust.toolchain import Rust
from buildlib.variant import Backend

if TYPE_CHECKING:
    from buildlib.workspace import Workspace


# How many packages a message names.
_SHOWN = 5


class _Pinned(msgspec.Struct, frozen=True):
    """How a workspace was pinned: from what state of its manifests, to which Cargo.lock, and who was left out."""

    state: str
    lock: str
    refused: dict[str, str]


class CargoWorkspace:
    """One Cargo workspace in a folder; whoever uses it holds `lock` from laying out to the end of cargo."""

    def __init__(self, folder: Path, kernels: Iterable[Crates], pins: Path, log: Path, workspace: Workspace) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        # Held, before `lock`, by whoever makes images of device code.
        self.images = threading.Lock()
        self.pins = pins
        self.log = log
        self._workspace = workspace
        self._kernels = tuple(kernels)
        self._hashes: dict[str, dict[str, str]] = {}
        self._unreadable: dict[str, str] = {}
        self._refused: dict[str, str] = {}

    @property
    def root(self) -> Path:
        """The folder of the root's manifest, in which cargo runs."""
        own = self._own
        return self.folder / "kernels" / own.key / (own.own or "") if own else self.folder

    @property
    def target(self) -> Path:
        return self.folder / "target"

    def layouts(self, crates: Crates) -> list[Path]:
        """The folders of one kernel alone."""
        return [
            self.folder / "kernels" / crates.key,
            *(self.folder / folder for folder, _ in _generated(crates)),
        ]

    def use(self, crates: Crates, rust: Rust) -> dict[str, str]:
        """Make the workspace as the files are now, for building a kernel; SHA-256 of the kernel's by path.

        `crates` may be a part of the kernel's; all of them are laid out, for one workspace is all of its members.

        Raises:
            StepError: a file of the kernel cannot be read, or cargo refuses the kernel.
        """
        first = not self._hashes
        for each in self._kernels:
            if first or each.key == crates.key:
                self._lay_out(each)
        self._pin(rust)
        if message := self._refused.get(crates.key):
            raise StepError(message)
        return self._hashes[crates.key]

    def update(self, rust: Rust, *, upgrade: bool) -> bytes:
        """A Cargo.lock that pins what all kernels need: what is pinned stays, unless newer versions are asked for.

        Raises:
            StepError: a file cannot be read, or cargo refuses a kernel; without it the lock would lose its versions.
        """
        for each in self._kernels:
            self._lay_out(each)
        wanted = _content(self.pins)
        self._start_over(list(self._kernels), wanted)
        argv = (rust.cargo, "update", *(() if upgrade else ("--workspace",)))
        since = length(self.log)
        if self._unreadable or run(argv, self.root, self.folder, rust, self.log, self._workspace) != 0:
            message = said(self.log, since)
            refused = self._unreadable or self._settle(list(self._kernels), wanted, rust)
            raise StepError("\n".join(refused.values()) or f"Cargo.lock: cargo cannot update it\n{message}")
        return _content(self.root / "Cargo.lock")

    def _lay_out(self, crates: Crates) -> None:
        self._unreadable.pop(crates.key, None)
        found = files.find(crates, self._workspace.cache)
        target = self.folder / "kernels" / crates.key
        every = {*found.sources, *found.tests}
        changed = layout.sweep(target, (path for path in every if not path.startswith("../")), self._workspace)
        edits: dict[str, Callable[[bytes], bytes]] = {
            part.crate.manifest: manifest.as_library for parts in crates.extensions.values() for part in parts
        }
        own = set()
        if crates.own is not None:
            # Cargo adapts its copy of the lock; see _try.
            own.add(posixpath.join(crates.own, "Cargo.lock"))
            edits[posixpath.join(crates.own, "Cargo.toml")] = self._as_root
        try:
            hashes = layout.lay_out(sorted(every - own), crates.kernel, target, self._workspace, edits, changed)
            hashes |= {path: _sha256(layout.read(crates.kernel / path, self._workspace)) for path in own}
        except StepError as error:
            self._unreadable[crates.key] = str(error)
            return
        if any(not path.endswith(".rs") for path in changed):
            # Cargo runs a build script again for what the script names, which is often too little.
            for crate in crates.crates:
                with contextlib.suppress(FileNotFoundError):
                    os.utime(target / crate.folder / crate.script)
        self._hashes[crates.key] = {path: hashes[path] for path in found.sources}

    def _pin(self, rust: Rust) -> None:
        """Bring the root's manifest and Cargo.lock up to date, and find out which kernels cargo refuses."""
        candidates = [each for each in self._kernels if each.key not in self._unreadable]
        wanted = _content(self.pins)
        manifests = sorted(
            (each.key, path, sha256)
            for each in candidates
            for path, sha256 in self._hashes[each.key].items()
            if path.endswith("Cargo.toml")
        )
        state = _sha256(repr((manifests, rust.identity)).encode() + wanted)
        record = self.folder / "pinned.json"
        known = None
        with contextlib.suppress(OSError, msgspec.DecodeError):
            known = msgspec.json.decode(record.read_bytes(), type=_Pinned)
        if known and known.state == state and known.lock == _sha256(_content(self.root / "Cargo.lock")):
            self._render([each for each in candidates if each.key not in known.refused])
            self._refused = {**self._unreadable, **known.refused}
            return
        record.unlink(missing_ok=True)
        refused = self._settle(candidates, wanted, rust)
        self._refused = {**self._unreadable, **refused}
        pinned = _Pinned(state, _sha256(_content(self.root / "Cargo.lock")), refused)
        write(record, msgspec.json.encode(pinned))

    def _settle(self, candidates: list[Crates], wanted: bytes, rust: Rust) -> dict[str, str]:
        """Find members that cargo accepts, and that need nothing but what is pinned; the others, and why."""
        members, refused = candidates, dict[str, str]()
        if self._try(members, wanted, rust) is not None:
            members = []
            for each in candidates:
                message = self._try([*members, each], wanted, rust)
                if message is None:
                    members.append(each)
                else:
                    refused[each.key] = f"kernels/{each.key}: cargo refuses its crates\n{message}"
            self._try(members, wanted, rust)
        pinned = Lock.parse(wanted, self._workspace.shown(self.pins))
        while members:
            lock = Lock.parse(_content(self.root / "Cargo.lock"), "Cargo.lock")
            missing = lock.missing_from(pinned)
            unpinned = {
                each.key: self._unpinned(each, {package.pin for package in missing & lock.reach(self._names(each))})
                for each in members
            }
            late = {key: message for key, message in unpinned.items() if message}
            if not late:
                break
            refused |= late
            members = [each for each in members if each.key not in late]
            self._try(members, wanted, rust)
        return refused

    def _unpinned(self, crates: Crates, missing: set[str]) -> str:
        if not missing:
            return ""
        first, others = sorted(missing)[:_SHOWN], len(missing) - _SHOWN
        packages = ", ".join(first) + (f" and {others} more" if others > 0 else "")
        remedy = "'doit lock'" if crates.own is None else "'cargo update --workspace' there"
        shown = self._workspace.shown(self.pins)
        return f"{shown}: does not pin {packages} for kernels/{crates.key}; run {remedy}"

    def _try(self, members: list[Crates], wanted: bytes, rust: Rust) -> str | None:
        """Let cargo resolve the workspace of some members, and fetch what they need; what it says if it cannot."""
        message = None
        # Without asking a registry, where what is pinned has been fetched before.
        for offline in (("--offline",), ()):
            self._start_over(members, wanted)
            argv = (rust.cargo, "fetch", "--target", rust.host, *offline)
            since = length(self.log)
            if run(argv, self.root, self.folder, rust, self.log, self._workspace) == 0:
                return None
            message = said(self.log, since)
        return message

    def _start_over(self, members: list[Crates], wanted: bytes) -> None:
        """Make the workspace one of these members, and its Cargo.lock as it is wanted."""
        self._render(members)
        if wanted:
            write(self.root / "Cargo.lock", wanted)
        else:
            (self.root / "Cargo.lock").unlink(missing_ok=True)

    def _render(self, members: list[Crates]) -> None:
        """Write the root's manifest and the generated crates of the members."""
        folders = []
        for crates in members:
            for folder, made_for in _generated(crates):
                folders.append(folder)
                texts = (
                    self._emitter(crates, made_for)
                    if isinstance(made_for, Device)
                    else self._extension(crates, made_for)
                )
                for name, text in texts.items():
                    write_if_changed(self.folder / folder / name, text.encode())
            folders += (_beside(crates, crate.folder) for crate in crates.crates)
        if self._own is not None:
            return  # Its root was laid out.
        text = render.text("rust/workspace.toml.j2", {"members": sorted(set(folders))})
        write_if_changed(self.root / "Cargo.toml", text.encode())

    def _extension(self, crates: Crates, backend: Backend) -> dict[str, str]:
        values: dict[str, object] = {
            "name": extension_name(crates.key, backend),
            "root": self._root_from_generated,
            "parts": [
                {
                    "name": part.crate.name,
                    "path": posixpath.join("../..", _beside(crates, part.crate.folder)),
                    "features": list(part.features),
                }
                for part in crates.extensions[backend]
            ],
        }
        return {
            "Cargo.toml": render.text("rust/extension.toml.j2", values),
            "lib.rs": render.text("rust/extension.rs.j2", values),
        }

    def _emitter(self, crates: Crates, device: Device) -> dict[str, str]:
        tile = next(crate for crate in crates.reach(device.crate.folder) if crate.name == TILE)
        values: dict[str, object] = {
            "name": emitter_name(crates.key, device),
            "root": self._root_from_generated,
            "crates": {
                name: {"name": crate.name, "path": posixpath.join("../..", _beside(crates, crate.folder))}
                for name, crate in (("device", device.crate), ("tile", tile))
            },
        }
        return {
            "Cargo.toml": render.text("rust/emitter.toml.j2", values),
            "main.rs": render.text("rust/emitter.rs.j2", values),
        }

    @property
    def _root_from_generated(self) -> str:
        return os.path.relpath(self.root, self.folder / "extensions" / "any")

    def _as_root(self, content: bytes) -> bytes:
        """The manifest of the root that a kernel brings, with the generated crates as members."""
        assert self._own is not None
        up = os.path.relpath(self.folder, self.root)
        return manifest.with_members(
            manifest.as_library(content), [f"{up}/{folder}" for folder, _ in _generated(self._own)]
        )

    def _names(self, crates: Crates) -> list[str]:
        return [posixpath.basename(folder) for folder, _ in _generated(crates)]

    @property
    def _own(self) -> Crates | None:
        return next((each for each in self._kernels if each.own is not None), None)


def extension_name(key: str, backend: Backend) -> str:
    """The name of the generated crate for a kernel × backend."""
    return f"kernelyard-{_slug(key)}-{backend}"


def emitter_name(key: str, device: Device) -> str:
    """The name of the generated crate whose program writes the tile programs of a device crate."""
    return f"kernelyard-{_slug(key)}-{_slug(device.component)}-emitter"


def _slug(name: str) -> str:
    """A name as a part of a crate's: a kernel's folder may have one that no crate can."""
    slug = re.sub(r"[^a-z0-9-]", "-", name)
    return slug if slug == name else f"{slug}-{_sha256(name.encode())[:6]}"


def _generated(crates: Crates) -> Iterator[tuple[str, Backend | Device]]:
    """The folders of the crates that are generated for a kernel, each with what it is for."""
    yield from ((f"extensions/{extension_name(crates.key, backend)}", backend) for backend in crates.extensions)
    for device in crates.devices:
        if device.dsl is Dsl.CUTILE:
            yield f"emitters/{emitter_name(crates.key, device)}", device


def _beside(crates: Crates, folder: str) -> str:
    return posixpath.normpath(posixpath.join("kernels", crates.key, folder))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
