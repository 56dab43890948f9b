"""Files, by content: hashes that are taken once for each content, and writes that never leave half a file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from buildlib.errors import SelectionError

# A file changed less than this before it was hashed may change again without its times moving on; such a record is
# used in the run that made it and not stored.
_CLOCK_TICK_NS = 100_000_000

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*(?:include|import)[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
_READS_INCLUDES = frozenset(
    {".c", ".c++", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hip", ".hpp", ".hxx", ".inc", ".inl", ".ipp"}
    | {".m", ".metal", ".mm", ".tpp"}
)
# The uses of the extension's name for which registration.h has macros of its own; see that template.
_NAME_THROUGH_MACRO = re.compile(
    rb"\b(?:(?:STABLE_)?TORCH_LIBRARY(?:_IMPL|_FRAGMENT)?_EXPAND|REGISTER_EXTENSION)\s*\(\s*TORCH_EXTENSION_NAME\b"
)
_NAME = re.compile(
    rb"\b(?:TORCH|TVM_FFI)_EXTENSION_NAME\b"
    rb"|#\s*define\s+(?:(?:STABLE_)?TORCH_LIBRARY(?:_IMPL|_FRAGMENT)?_EXPAND|REGISTER_EXTENSION)\b"
)


class FileInfo(msgspec.Struct, frozen=True, array_like=True):
    """What is known about one content.

    That is its SHA-256 in hex, the `#include`s in it (each with its opening `"` or `<`), and whether it spells the
    extension's name by itself.
    """

    sha256: str
    includes: tuple[str, ...] = ()
    spells_name: bool = False


def inspect(content: bytes, suffix: str) -> FileInfo:
    """The `FileInfo` of a file's content; only C-like files (by suffix) are looked into."""
    sha256 = hashlib.sha256(content).hexdigest()
    if suffix.lower() not in _READS_INCLUDES:
        return FileInfo(sha256)
    text = content.removeprefix(b"\xef\xbb\xbf")
    includes = tuple(
        dict.fromkeys((kind + name).decode("utf-8", "surrogateescape") for kind, name in _INCLUDE.findall(text))
    )
    spells_name = b"EXTENSION" in content or b"_EXPAND" in content
    return FileInfo(sha256, includes, spells_name and _NAME.search(_NAME_THROUGH_MACRO.sub(b"", content)) is not None)


class Files(Protocol):
    """Where the content of kernels is read: a checkout (`FileCache`), or a commit of it (`git.Tree`).

    Both take the paths that the checkout has.
    """

    def get(self, path: str) -> FileInfo | None:
        """The information about a file, or None where there is no such file."""

    def listing(self, folder: Path) -> tuple[str, ...]:
        """The files below a folder, as `listing` gives them."""


# Inode, size, mtime and ctime: a change of content moves at least one of these, even when a tool puts the mtime back.
_Signature = tuple[int, int, int, int]


class FileCache:
    """`FileInfo` by path, remembered between runs; safe to use from several threads.

    Within one run a path is looked at once, until `forget` asks for another look.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._seen: dict[str, FileInfo | None] = {}
        self._listings: dict[str, tuple[str, ...]] = {}
        self._known: dict[str, tuple[_Signature, FileInfo]] = {}
        self._changed = False
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self._known = msgspec.msgpack.decode(store.read_bytes(), type=dict[str, tuple[_Signature, FileInfo]])

    def get(self, path: str) -> FileInfo | None:
        """The information about a file, or None where there is no such file, or none that can be read."""
        if path in self._seen:
            return self._seen[path]
        try:
            info = self._look(path)
        except OSError:
            # Missing, or nothing that can be read; whoever needs its content gets to say which.
            info = None
            self._changed |= path in self._known
        self._seen[path] = info
        return info

    def listing(self, folder: Path) -> tuple[str, ...]:
        """`listing`, remembered within a run."""
        key = str(folder)
        if key not in self._listings:
            self._listings[key] = listing(folder)
        return self._listings[key]

    def forget(self, folder: Path) -> None:
        """Look again at everything below a folder."""
        key = str(folder)
        self._listings.pop(key, None)
        for known in (self._listings, self._seen):
            # A copy first: other threads add to it meanwhile.
            for path in [path for path in list(known) if path.startswith(key + "/")]:
                known.pop(path, None)

    def _look(self, path: str) -> FileInfo:
        stat = os.stat(path)
        signature = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        known = self._known.get(path)
        if known is not None and known[0] == signature:
            return known[1]
        now = time.time_ns()
        with open(path, "rb") as file:
            info = inspect(file.read(), os.path.splitext(path)[1])
        if now - max(stat.st_mtime_ns, stat.st_ctime_ns) > _CLOCK_TICK_NS:
            with self._lock:
                self._known[path] = (signature, info)
                self._changed = True
        return info

    def save(self) -> None:
        """Store what was learnt, less what belongs to files that are gone."""
        with self._lock:
            if not self._changed:
                return
            kept = {
                path: known
                for path, known in self._known.items()
                if (self._seen[path] is not None if path in self._seen else os.path.exists(path))
            }
            self._changed = False
        # Without the record the next run hashes again; a full disk, or a name that is not UTF-8, must not turn a
        # finished run into a failed one.
        with contextlib.suppress(OSError, UnicodeEncodeError):
            write(self._store, msgspec.msgpack.encode(kept))


def length(path: Path) -> int:
    """The bytes of a file, such as a log that programs add to; 0 before there is one."""
    return path.stat().st_size if path.exists() else 0


def write(path: Path, content: bytes) -> None:
    """Replace a file as one step: a reader, or a run after a crash, sees the old content or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            # mkstemp makes files that only their owner may read.
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
    except OSError as error:
        # It is about this file, and not about the temporary one, or none.
        error.filename, error.filename2 = str(path), None
        raise


@contextlib.contextmanager
def named_by_user(where: str) -> Iterator[None]:
    """While something is written to a path of the user's choice; `where` is what they know it by.

    Raises:
        SelectionError: nothing can be written there.
    """
    try:
        yield
    except OSError as error:
        raise SelectionError(
            f"{where}: cannot be written ({error.strerror}); name another file, make room, or give access"
        ) from None


def write_if_changed(path: Path, content: bytes) -> bool:
    """`write`, unless the file already holds `content`; whether it was written. Spares ninja a rebuild."""
    with contextlib.suppress(OSError):
        if path.read_bytes() == content:
            return False
    write(path, content)
    return True


def listing(folder: Path, *, hidden: bool = False) -> tuple[str, ...]:
    """The files below a folder, relative to it with `/`, sorted.

    Without bytecode, without what cargo left behind when it was run in the folder, and without anything hidden unless
    it is asked for.
    """
    above = (os.path.realpath(folder),)
    return tuple(sorted(_walk(str(folder), "", above, hidden=hidden)))


def prune(folder: Path, kept: set[str]) -> None:
    """Remove the files that are not to be kept; a folder left empty goes too, for a file may take its place."""
    for stale in set(listing(folder, hidden=True)) - kept:
        (folder / stale).unlink()
    for path, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _walk(folder: str, prefix: str, above: tuple[str, ...], *, hidden: bool) -> Iterator[str]:
    """Yield the files below a folder; `above` are the real paths of the folders that the walk has come through.

    A folder that may not be read has none: what a build needs of it is missed by name, where it is named.
    """
    with contextlib.suppress(PermissionError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") and not hidden:
                continue
            if _is_dir(entry):
                real = os.path.realpath(entry.path) if entry.is_symlink() else f"{above[-1]}/{entry.name}"
                # A link may lead back to where the walk came from; following it would never end.
                if entry.name != "__pycache__" and real not in above and not _is_cargos(entry):
                    yield from _walk(entry.path, f"{prefix}{entry.name}/", (*above, real), hidden=hidden)
            elif not entry.name.endswith(".pyc"):
                yield prefix + entry.name


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # A link that leads to itself. Reading it says what is wrong with it.


def _is_cargos(entry: os.DirEntry[str]) -> bool:
    """Whether a folder holds what cargo built: it marks such a folder as a cache."""
    return entry.name == "target" and os.path.exists(os.path.join(entry.path, "CACHEDIR.TAG"))
