"""A folder as the destination, laid out as the cache of the `kernels` client, which loads from it offline.

With `KERNELS_CACHE=<folder> HF_HUB_OFFLINE=1`, `get_kernel("owner/name", version=1)` is all that a user needs. A branch
is a file `refs/<branch>` that names a snapshot, and a snapshot is named by its content, so a commit is one replacement
of that small file: whoever reads sees the old snapshot or the new one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec
from filelock import FileLock

from buildlib.errors import PublishError
from buildlib.files import listing, write
from buildlib.publish.content import RemoteFile, Tree, local
from buildlib.publish.destination import Commit, Committed, Moved, PullRequest

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _told(method: Callable[Concatenate[Folder, _P], _T]) -> Callable[Concatenate[Folder, _P], _T]:
    """Make what the system refuses an error of publishing, which stops one kernel and is for the user."""

    @functools.wraps(method)
    def telling(self: Folder, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(self, *args, **kwargs)
        except OSError as error:
            raise PublishError(
                f"--to {self.shown}: {error.filename or 'the folder'}: {error.strerror}; make room, give access, or "
                "name another folder"
            ) from None

    return telling


class Folder:
    """A `Destination` on this machine's disk."""

    def __init__(self, root: Path, shown: str) -> None:
        self._root = root
        self._shown = shown

    @property
    def shown(self) -> str:
        return self._shown

    @_told
    def heads(self, repo_id: str) -> dict[str, str] | None:
        refs = self._repository(repo_id) / "refs"
        if not refs.is_dir():
            return None
        # A branch whose snapshot somebody removed is one to begin anew.
        return {branch: name for branch, name in _names(refs).items() if self._snapshot(repo_id, name).is_dir()}

    @_told
    def tree(self, repo_id: str, commit: str, *, top: bool = False) -> Tree:
        snapshot = self._snapshot(repo_id, commit)
        paths = [path for path in listing(snapshot, hidden=True) if not top or "/" not in path]
        files = {path: local(snapshot / path) for path in paths}
        return {path: RemoteFile(size=file.size, sha256=file.sha256) for path, file in files.items()}

    @_told
    def read(self, repo_id: str, commit: str, path: str) -> bytes:
        return (self._snapshot(repo_id, commit) / path).read_bytes()

    @_told
    def create(self, repo_id: str, *, private: bool) -> None:
        if private:
            raise PublishError(f"{self._shown}: --private is for the Hub; leave it away for a folder")
        (self._repository(repo_id) / "refs").mkdir(parents=True, exist_ok=True)

    def begin(self, repo_id: str, branch: str, heads: Mapping[str, str]) -> None:
        """A branch of a folder begins with its first commit."""

    @_told
    def commit(self, commit: Commit) -> Committed:
        if commit.pull_request:
            raise PublishError(f"{self._shown}: a folder takes no pull requests; leave --create-pr away")
        repository = self._repository(commit.repo_id)
        with self._alone(repository):
            head = (self.heads(commit.repo_id) or {}).get(commit.branch)
            if head != commit.parent:
                raise Moved
            fresh = repository / "tmp"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            if head is not None:
                gone = {*commit.deletes, *commit.adds}
                _link(self._snapshot(commit.repo_id, head), fresh, gone)
            for path, file in commit.adds.items():
                _put(file.source, fresh / path)
            name = _name(fresh)
            target = self._snapshot(commit.repo_id, name)
            target.parent.mkdir(exist_ok=True)
            # A folder of this name has this content, if only nobody has touched it since.
            shutil.rmtree(target, ignore_errors=True)
            os.rename(fresh, target)
            if head is not None:
                write(repository / "before" / commit.branch, head.encode("ascii"))
            write(repository / "refs" / commit.branch, name.encode("ascii"))
            _sweep(repository)
        return Committed(commit=name)

    def pull_requests(self, repo_id: str) -> dict[str, PullRequest]:  # noqa: ARG002 - the protocol's signature
        return {}

    def check_rights(self, repo_ids: Sequence[str]) -> dict[str, str]:  # noqa: ARG002 - as above
        return {}

    def probe(self, repo_id: str, heads: Mapping[str, str]) -> str | None:
        """Whoever may not write to the folder is told so by the system."""

    def url(self, repo_id: str, branch: str) -> str:
        head = (self.heads(repo_id) or {}).get(branch, "")
        return self._snapshot(repo_id, head).absolute().as_uri()

    def _repository(self, repo_id: str) -> Path:
        return self._root / f"kernels--{repo_id.replace('/', '--')}"

    def _snapshot(self, repo_id: str, commit: str) -> Path:
        return self._repository(repo_id) / "snapshots" / commit

    @contextlib.contextmanager
    def _alone(self, repository: Path) -> Iterator[None]:
        repository.mkdir(parents=True, exist_ok=True)
        with FileLock(repository / ".lock"):
            yield


def _names(folder: Path) -> dict[str, str]:
    """The snapshots that the files of a folder name, by their paths in it."""
    return {path: (folder / path).read_text(encoding="ascii").strip() for path in listing(folder)}


def _sweep(repository: Path) -> None:
    """Remove the snapshots of no branch, but for the one before of each: a reader may be loading from it."""
    before = repository / "before"
    kept = {*_names(repository / "refs").values(), *(_names(before).values() if before.is_dir() else ())}
    for snapshot in (repository / "snapshots").iterdir():
        if snapshot.name not in kept:
            shutil.rmtree(snapshot, ignore_errors=True)


def _link(snapshot: Path, target: Path, less: set[str]) -> None:
    """Take the files of a snapshot over without copying them; no file of a snapshot is ever written to."""
    for path in listing(snapshot, hidden=True):
        if path not in less:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            os.link(snapshot / path, target / path)


def _put(source: Path | bytes, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(source, bytes):
        target.write_bytes(source)
    else:
        shutil.copyfile(source, target)


def _name(snapshot: Path) -> str:
    """A snapshot's name: 40 hex digits, as the client expects of a commit, of the paths and contents in it."""
    files = [(path, local(snapshot / path).sha256) for path in listing(snapshot, hidden=True)]
    return hashlib.sha256(msgspec.json.encode(files)).hexdigest()[:40]
