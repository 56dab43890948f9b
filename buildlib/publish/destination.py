"""What publishing needs of a destination, be it the Hub or a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from buildlib.errors import PublishError
from buildlib.publish.content import LocalFile, Tree

_FOLDER_SCHEME = "file:"


class Moved(Exception):  # noqa: N818 - it tells of an event, and is no error
    """Somebody else committed in between; read again and decide again."""


class Unclear(Exception):  # noqa: N818 - as above
    """The connection or the server failed, and the change may or may not have happened."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One commit to make: on `branch`, if its head is still `parent` (None where the branch is to begin with it)."""

    repo_id: str
    branch: str
    parent: str | None
    title: str
    description: str
    adds: Mapping[str, LocalFile]
    deletes: Sequence[str]
    # Ask for a pull request; `branch` is then its target.
    pull_request: bool = False


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that was made, and the pull request that it opened, if it was to."""

    commit: str
    pull_request: PullRequest | None = None


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An open pull request: the branch that takes more commits for it, that branch's head, and its page."""

    title: str
    branch: str
    head: str
    url: str


class Destination(Protocol):
    """Repositories of kernels, each with branches of files."""

    @property
    def shown(self) -> str:
        """What messages call it."""

    def heads(self, repo_id: str) -> dict[str, str] | None:
        """The commit at the head of each branch, or None where there is no such repository."""

    def tree(self, repo_id: str, commit: str, *, top: bool = False) -> Tree:
        """The files of a commit by path; with `top`, only those that are in no folder."""

    def read(self, repo_id: str, commit: str, path: str) -> bytes:
        """The content of a small file."""

    def create(self, repo_id: str, *, private: bool) -> None:
        """Make a repository; nothing is done where there is one.

        Raises:
            PublishError: it may not be made.
        """

    def begin(self, repo_id: str, branch: str, heads: Mapping[str, str]) -> str | None:
        """Make a branch that holds no variants; its head, or None where the first commit will make it."""

    def commit(self, commit: Commit) -> Committed:
        """Make a commit.

        Raises:
            Moved: the branch's head is not the parent any more.
            Unclear: it is not known whether the commit was made.
            PublishError: it was refused.
        """

    def pull_requests(self, repo_id: str) -> dict[str, PullRequest]:
        """The open pull requests by title."""

    def check_rights(self, repo_ids: Sequence[str]) -> dict[str, str]:
        """Why not, for each repository that must not be written to; only those where that is certain."""

    def probe(self, repo_id: str, heads: Mapping[str, str]) -> str | None:
        """Why an existing repository may not be written to, if the destination says so."""

    def url(self, repo_id: str, branch: str) -> str:
        """Where a branch can be looked at."""


def folder_of(to: str, root: Path) -> Path | None:
    """The folder that `--to` names, relative to the checkout, or None for the Hub.

    Raises:
        PublishError: it names neither.
    """
    if to == "hub":
        return None
    if not to.startswith(_FOLDER_SCHEME) or to == _FOLDER_SCHEME:
        raise PublishError(f"--to {to}: not a destination; use 'hub', or 'file:FOLDER' such as file:dist/hub")
    # No shell does that for what stands behind a colon.
    named = os.path.expanduser(to.removeprefix(_FOLDER_SCHEME))
    folder = Path(os.path.normpath(root / named))
    if folder == root or (root / "kernels") in (folder, *folder.parents):
        raise PublishError(f"--to {to}: among the sources; use a folder of its own, such as file:dist/hub")
    return folder


def problem_with_names(repo_id: str, branch: str) -> str | None:
    """What is wrong with a repository's or a branch's name, if anything: a folder is named after each."""
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", repo_id):
        return f"[general.hub] repo-id: {repo_id!r} is not of the form 'owner/name'; correct it"
    if not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)*", branch) or ".." in branch or branch.startswith("refs/"):
        return f"[general.hub] branch: {branch!r} is not a name for a branch; use one such as 'v1', or leave it away"
    return None


def staged(repo_id: str, prefix: str) -> str:
    """The repository's stand-in under `--repo-prefix`: `org` is another owner, `org/try-` renames it as well."""
    name = repo_id.rpartition("/")[2]
    return f"{prefix}{name}" if "/" in prefix else f"{prefix}/{name}"
