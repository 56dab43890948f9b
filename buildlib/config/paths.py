"""Whether the files that a build.toml names are there, in the kernel's folder, under names that a build can use."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from buildlib.config.grammar import FRAMEWORKS
from buildlib.config.locate import KeyPath
from buildlib.config.problems import Problem, Reading, did_you_mean, excerpt
from buildlib.config.values import as_table, normal_path

# CMake separates the items of a list by `;`, and no build file can spell a line break in a name.
_UNSPEAKABLE = re.compile(r"[;\x00-\x1f\x7f]")
_MANIFEST = "Cargo.toml"
_MANIFESTS = ("cargo-manifest", "device-manifest")


def check(document: Mapping[str, object], folder: Path) -> list[Problem]:
    """All that is wrong with the paths in a document that the grammar accepts.

    It goes by the document and not by the model, which no longer knows where in the file a path stands.
    """
    checking = _Checking(folder)
    for name in FRAMEWORKS:
        if (table := as_table(document.get(name))) is not None:
            checking.table((name,), table)
    for name, component in (as_table(document.get("kernel")) or {}).items():
        checking.table(("kernel", name), as_table(component) or {})
    return checking.reading.problems


def paired(text: str) -> bool:
    """Whether each `[` has its `]`: CMake does not end the items of a list within brackets, paired or not."""
    return text.count("[") == text.count("]")


class _Checking:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.reading = Reading(0)

    def table(self, path: KeyPath, table: Mapping[str, object]) -> None:
        is_rust = _MANIFESTS[0] in table
        for at, value in _items(path, table, "src"):
            if self._is_inside(at, value):
                self._exists(at, value, folders_too=is_rust)
        for at, value in _items(path, table, "include"):
            self._is_inside(at, value)
        for key in _MANIFESTS:
            manifest = table.get(key)
            if isinstance(manifest, str) and self._is_inside((*path, key), manifest):
                self._manifest((*path, key), manifest)

    def _is_inside(self, path: KeyPath, value: str) -> bool:
        """Whether a path can name something in the kernel's folder at all."""
        if not value:
            self.reading.at_key(path, "the path is empty", "name a file or a folder, or drop it")
        elif bad := _UNSPEAKABLE.search(value):
            what = f"{excerpt(value)} has the character {bad[0]!r}, which CMake cannot have in a list"
            self.reading.at_key(path, what, "rename the file")
        elif not paired(value):
            what = f"{excerpt(value)} has a bracket '[' or ']' without its other half, which CMake takes for a list's"
            self.reading.at_key(path, what, "rename the file")
        elif value.startswith("/"):
            what = f"{excerpt(value)} is absolute"
            self.reading.at_key(path, what, "write it relative to the folder of build.toml")
        elif _climbs(value):
            what = f"{excerpt(value)} leaves the kernel's folder"
            self.reading.at_key(path, what, "copy what is needed into the folder, as each kernel builds on its own")
        else:
            return True
        return False

    def _exists(self, path: KeyPath, value: str, *, folders_too: bool) -> None:
        try:
            mode = os.stat(os.path.join(self._folder, value)).st_mode
        except (FileNotFoundError, NotADirectoryError):
            close = did_you_mean(normal_path(value), _files_beside(self._folder, value))
            self.reading.at_key(path, f"{excerpt(value)} does not exist", f"{close}correct the path, or drop it")
        except OSError as fault:
            reason = (fault.strerror or "unknown reason").lower()
            self.reading.at_key(path, f"{excerpt(value)} cannot be read ({reason})", "make it a readable file")
        else:
            if stat.S_ISREG(mode) or (folders_too and stat.S_ISDIR(mode)):
                return
            if stat.S_ISDIR(mode):
                self.reading.at_key(path, f"{excerpt(value)} is a folder", "list the files in it that are needed")
            else:
                self.reading.at_key(path, f"{excerpt(value)} is no file", "put a file there, or drop it")

    def _manifest(self, path: KeyPath, value: str) -> None:
        if value.rpartition("/")[2] == _MANIFEST:
            self._exists(path, value, folders_too=False)
        else:
            what = f"{excerpt(value)} is not a manifest of Cargo, which is always called {_MANIFEST}"
            self.reading.at_key(path, what, f"name the crate's {_MANIFEST}")


def _items(path: KeyPath, table: Mapping[str, object], key: str) -> Iterator[tuple[KeyPath, str]]:
    given = table.get(key, [])
    if isinstance(given, list):
        yield from (((*path, key, index), str(item)) for index, item in enumerate(given))


def _climbs(value: str) -> bool:
    """Whether a path, followed part by part, is ever outside of where it starts."""
    if ".." not in value:
        return False
    depth = 0
    for part in value.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return True
    return False


def _files_beside(folder: Path, value: str) -> list[str]:
    """The files in the folder that a missing file was looked for in, spelled from the kernel's folder."""
    parent = (folder / value).parent
    try:
        return [entry.relative_to(folder).as_posix() for entry in parent.iterdir() if entry.is_file()]
    except OSError:
        return []
