"""The files of a commit, read from git's objects: nothing is checked out, and no folder of the checkout is touched.

Content is taken as git stores it. A file that git changes on checkout (line ends, large-file pointers) so differs from
its commit, and a kernel that uses it counts as changed; never the other way round.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from buildlib import process
from buildlib.errors import SelectionError
from buildlib.files import FileInfo, inspect, write

_SYMLINK, _SUBMODULE = "120000", "160000"
# A chain of symbolic links longer than this is a circle.
_MAX_LINKS = 8
# The store of what is known about objects is cut back to those of the last run when it holds this many times as many.
_STALE = 4


class Tree:
    """A commit's files below the root of a checkout, by the paths that the checkout has."""

    def __init__(self, root: Path, commit: str, objects: Mapping[str, str], read: Callable[[str], bytes]) -> None:
        """`objects` holds the object name of each file by its path below `root`; `read` the content of an object."""
        self.root = root
        self.commit = commit
        self._objects = objects
        self._read = read
        self._seen: dict[str, FileInfo] = {}
        self._known: dict[str, FileInfo] = {}
        self._paths = sorted(objects)

    def get(self, path: str) -> FileInfo | None:
        """The information about a file, or None where the commit has no such file."""
        name = self._objects.get(self._below(path))
        if name is None:
            return None
        suffix = posixpath.splitext(path)[1]
        key = name + suffix
        if key not in self._seen:
            self._seen[key] = self._known.get(key) or inspect(self._read(name), suffix)
        return self._seen[key]

    def listing(self, folder: Path) -> tuple[str, ...]:
        """The files below a folder, without bytecode and without anything hidden, as in a checkout."""
        prefix = self._below(str(folder)) + "/"
        return tuple(path for path in self._starting_with(prefix) if not _is_passed_over(path))

    def content(self, path: Path) -> bytes | None:
        """A file's content, or None where the commit has no such file."""
        name = self._objects.get(self._below(str(path)))
        return None if name is None else self._read(name)

    def below(self, folder: str) -> dict[str, str]:
        """The object names of the files below a folder of the root, by path relative to it; hidden ones too."""
        prefix = f"{folder}/"
        return {path: self._objects[prefix + path] for path in self._starting_with(prefix)}

    def remember(self, store: Path) -> None:
        """Use what earlier runs stored about objects."""
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self._known = msgspec.msgpack.decode(store.read_bytes(), type=dict[str, FileInfo])

    def save(self, store: Path) -> None:
        """Store what is known, for `remember`."""
        if self._seen.keys() <= self._known.keys():
            return
        kept = self._known | self._seen
        # As with the record of a checkout's files, a full disk costs time in the next run and nothing else.
        with contextlib.suppress(OSError):
            write(store, msgspec.msgpack.encode(kept if len(kept) < _STALE * len(self._seen) else self._seen))

    def _starting_with(self, prefix: str) -> Iterator[str]:
        """What follows the prefix in the paths that have it, sorted."""
        for index in range(bisect.bisect_left(self._paths, prefix), len(self._paths)):
            if not self._paths[index].startswith(prefix):
                return
            yield self._paths[index].removeprefix(prefix)

    def _below(self, path: str) -> str:
        return os.path.relpath(path, self.root) if ".." in path else path.removeprefix(f"{self.root}{os.sep}")


def _is_passed_over(path: str) -> bool:
    """Whether a listing of a checkout leaves a path out."""
    return path.startswith(".") or "/." in path or "__pycache__/" in path or path.endswith(".pyc")


@contextlib.contextmanager
def tree(root: Path, ref: str, env: Mapping[str, str]) -> Iterator[Tree]:
    """The files of the commit that `ref` names.

    Raises:
        SelectionError: there is no repository, or the ref is unknown in it; the message says how to fetch it.
    """
    commit = _commit(root, ref, env)
    listed = process.output(["git", "ls-tree", "-r", "-z", commit], env=env, cwd=root, errors="surrogateescape")
    if listed is None:
        raise SelectionError(f"{ref}: its files cannot be listed; the clone lacks objects, get them with 'git fetch'")
    with process.conversation(["git", "cat-file", "--batch"], env=env, cwd=root) as (asking, answers):

        def read(name: str) -> bytes:
            asking.write(name.encode() + b"\n")
            asking.flush()
            words = answers.readline().split()
            if len(words) != 3:  # noqa: PLR2004 - the object's name, its kind, its size
                raise SelectionError(f"{ref}: the object {name} is not in this clone; get it with 'git fetch'")
            return answers.read(int(words[2]) + 1)[:-1]

        yield Tree(root, commit, _objects(listed, read), read)


def _objects(listed: str, read: Callable[[str], bytes]) -> dict[str, str]:
    """The object of each file in the output of `git ls-tree -r -z`; a symbolic link has that of what it names."""
    objects: dict[str, str] = {}
    links: dict[str, str] = {}
    for line in filter(None, listed.split("\0")):
        about, _, path = line.partition("\t")
        mode, _, name = about.split()
        if mode == _SYMLINK:
            links[path] = posixpath.normpath(posixpath.join(posixpath.dirname(path), os.fsdecode(read(name))))
        elif mode != _SUBMODULE:
            objects[path] = name
    for path, target in links.items():
        end = target
        for _ in range(_MAX_LINKS):
            end = links.get(end, end)
        if end in objects:
            objects[path] = objects[end]
        else:
            below = {each: name for each, name in objects.items() if each.startswith(f"{end}/")}
            objects |= {path + each.removeprefix(end): name for each, name in below.items()}
    return objects


def _commit(root: Path, ref: str, env: Mapping[str, str]) -> str:
    asked = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"]
    commit = process.output(asked, env=env, cwd=root)
    if commit is not None:
        return commit.strip()
    shallow = process.output(["git", "rev-parse", "--is-shallow-repository"], env=env, cwd=root)
    if shallow is None:
        raise SelectionError(f"{ref}: {root} is no git repository; compare with a matrix.json of 'doit matrix' instead")
    if shallow.strip() == "true":
        how = "this clone is shallow; get its history with 'git fetch --unshallow', or clone with a greater depth"
    else:
        name = re.sub(r"[~^@].*", "", ref.removeprefix("origin/")) or ref
        how = f"correct its name, or get it with 'git fetch origin {name}'"
    raise SelectionError(f"{ref}: git knows no such commit, branch or tag; {how}")
