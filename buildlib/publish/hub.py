"""The Hugging Face Hub as the destination, through `huggingface_hub`: repositories of the type `kernel`.

Token, endpoint and proxies follow that library's own conventions. Its `create_commit` is used rather than
`upload_folder`, which in recent releases makes several commits of one folder.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import httpx2
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token, hf_hub_url
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import build_hf_headers, disable_progress_bars, get_session, hf_raise_for_status, logging

from buildlib.errors import PublishError
from buildlib.publish.asking import Asking, NotFoundError, RefusedError
from buildlib.publish.content import RemoteFile, Tree
from buildlib.publish.destination import Commit, Committed, PullRequest
from buildlib.publish.plan import MAIN
from buildlib.publish.rights import Rights, rights

_TYPE = "kernel"


class Hub:
    """A `Destination` behind HTTP. `wait` is called with seconds and a reason, and returns when they are over."""

    def __init__(self, wait: Callable[[float, str], None], *, bars: bool, endpoint: str | None = None) -> None:
        self._api = HfApi(endpoint=endpoint, library_name="kernelyard")
        self._asking = Asking(wait)
        self._known: dict[str, Rights] = {}
        # The library's warnings would show the addresses of uploads, which let anyone who has them in.
        logging.set_verbosity(logging.ERROR)
        if not bars:
            disable_progress_bars()

    @property
    def shown(self) -> str:
        return self._api.endpoint

    def heads(self, repo_id: str) -> dict[str, str] | None:
        try:
            refs = self._asking.ask(repo_id, lambda: self._api.list_repo_refs(repo_id, repo_type=_TYPE))
        except NotFoundError:
            return None
        return {branch.name: branch.target_commit for branch in refs.branches}

    def tree(self, repo_id: str, commit: str, *, top: bool = False) -> Tree:
        found = self._asking.ask(
            repo_id,
            lambda: list(self._api.list_repo_tree(repo_id, recursive=not top, revision=commit, repo_type=_TYPE)),
        )
        files = (entry for entry in found if isinstance(entry, RepoFile))
        return {
            file.path: RemoteFile(size=file.size, sha256=file.lfs.sha256)
            if file.lfs
            else RemoteFile(size=file.size, git=file.blob_id)
            for file in files
        }

    def read(self, repo_id: str, commit: str, path: str) -> bytes:
        url = hf_hub_url(repo_id, path, repo_type=_TYPE, revision=commit, endpoint=self._api.endpoint)
        return self._asking.ask(repo_id, lambda: self._get(url).content)

    def create(self, repo_id: str, *, private: bool) -> None:
        try:
            self._asking.ask(
                repo_id,
                lambda: self._api.create_repo(repo_id, repo_type=_TYPE, private=private or None, exist_ok=True),
            )
        except RefusedError as refusal:
            raise PublishError(
                f"{repo_id}: the Hub does not let you make this repository ({refusal}); ask an administrator of "
                f"{repo_id.partition('/')[0]} for the right to create repositories, and the Hub's team to approve "
                f"the owner for kernels ({self._api.endpoint}/settings/account), or use --create-pr or --repo-prefix"
            ) from None

    def begin(self, repo_id: str, branch: str, heads: Mapping[str, str]) -> str:
        """Make the branch from a commit of `main` that holds no variants, so that it inherits none at any moment."""
        if MAIN not in heads:
            raise PublishError(f"{repo_id}: has no branch {MAIN}; make it by hand, or remove the repository")
        start = next(
            (commit for commit in self._starts(repo_id, heads) if not self._holds_variants(repo_id, commit)), None
        )
        if start is None:
            raise PublishError(
                f"{repo_id}: every commit of {MAIN} that {branch} could begin from holds variants of an older version; "
                f"make the branch {branch} without a build/ folder by hand"
            )
        try:
            self._asking.ask(
                repo_id,
                lambda: self._api.create_branch(repo_id, branch=branch, revision=start, repo_type=_TYPE, exist_ok=True),
            )
        except RefusedError as refusal:
            raise PublishError(
                f"{repo_id}: has no branch {branch}, and you may not make it ({refusal}); a pull request, too, needs "
                "the branch to be there: ask the owner to make it"
            ) from None
        return start

    def commit(self, commit: Commit) -> Committed:
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            *(CommitOperationDelete(path, is_folder=False) for path in commit.deletes),
            *self._uploaded(commit),
        ]
        try:
            made = self._asking.once(
                commit.repo_id,
                lambda: self._api.create_commit(
                    commit.repo_id,
                    operations,
                    commit_message=commit.title,
                    commit_description=commit.description,
                    repo_type=_TYPE,
                    revision=commit.branch,
                    parent_commit=commit.parent,
                    create_pr=commit.pull_request,
                ),
            )
        except RefusedError as refusal:
            raise PublishError(self._no_rights(commit.repo_id, str(refusal))) from None
        opened = None
        if commit.pull_request and made.pr_url and made.pr_revision:
            opened = PullRequest(title=commit.title, branch=made.pr_revision, head=made.oid, url=made.pr_url)
        return Committed(commit=made.oid, pull_request=opened)

    def pull_requests(self, repo_id: str) -> dict[str, PullRequest]:
        """The open pull requests by title, read by their plain address: the library knows no discussions of kernels."""
        refs = self._asking.ask(
            repo_id, lambda: self._api.list_repo_refs(repo_id, repo_type=_TYPE, include_pull_requests=True)
        )
        heads = {ref.ref: ref.target_commit for ref in refs.pull_requests or ()}
        address = f"{self._api.endpoint}/api/kernels/{repo_id}/discussions?type=pull_request&status=open&p="
        found: dict[str, PullRequest] = {}
        seen = 0
        for page in itertools.count():
            answer = self._asking.ask(repo_id, lambda page=page: self._get(f"{address}{page}").json())  # type: ignore[misc]
            for entry in answer["discussions"]:
                branch = f"refs/pr/{entry['num']}"
                if entry["isPullRequest"] and branch in heads:
                    url = f"{self._page(repo_id)}/discussions/{entry['num']}"
                    found[entry["title"]] = PullRequest(
                        title=entry["title"], branch=branch, head=heads[branch], url=url
                    )
            seen += len(answer["discussions"])
            if seen >= answer["count"] or not answer["discussions"]:
                break
        return found

    def check_rights(self, repo_ids: Sequence[str]) -> dict[str, str]:
        if get_token() is None:
            raise PublishError(
                f"{self.shown}: there is no token to publish with; run 'hf auth login', or set HF_TOKEN, to one that "
                "may write"
            )
        who = self._asking.ask("the token", self._api.whoami)
        self._known = {repo_id: rights(who, repo_id) for repo_id in repo_ids}
        return {repo_id: f"{repo_id}: {found.why}" for repo_id, found in self._known.items() if found.may is False}

    def probe(self, repo_id: str, heads: Mapping[str, str]) -> str | None:
        """Ask how a file would be uploaded, which changes nothing and is answered only to those who may write."""
        if self._known[repo_id].may or MAIN not in heads:
            return None
        question = CommitOperationAdd("README.md", b"?")
        try:
            self._asking.ask(
                repo_id,
                lambda: self._api.preupload_lfs_files(repo_id, [question], repo_type=_TYPE, revision=MAIN),
            )
        except RefusedError as refusal:
            return self._no_rights(repo_id, str(refusal))
        return None

    def url(self, repo_id: str, branch: str) -> str:
        return f"{self._page(repo_id)}/tree/{branch}"

    def _page(self, repo_id: str) -> str:
        return f"{self._api.endpoint}/kernels/{repo_id}"

    def _no_rights(self, repo_id: str, refusal: str) -> str:
        return (
            f"{repo_id}: you may not write there ({refusal}); use a token with write access to "
            f"{repo_id.partition('/')[0]}, or --create-pr"
        )

    def _starts(self, repo_id: str, heads: Mapping[str, str]) -> Iterator[str]:
        """Where a branch could begin: the head of main, or else its first commit, which the Hub itself made."""
        yield heads[MAIN]
        commits = self._asking.ask(
            repo_id, lambda: self._api.list_repo_commits(repo_id, repo_type=_TYPE, revision=MAIN)
        )
        yield commits[-1].commit_id

    def _holds_variants(self, repo_id: str, commit: str) -> bool:
        return any(path.startswith("build/") for path in self.tree(repo_id, commit))

    def _uploaded(self, commit: Commit) -> list[CommitOperationAdd]:
        """Send what the Hub stores outside of git, each content once; what remains to do is a small commit."""
        first: dict[str, CommitOperationAdd] = {}
        copies: list[CommitOperationAdd] = []
        for path, file in commit.adds.items():
            operation = CommitOperationAdd(path, file.source)
            operation.upload_info.sha256 = bytes.fromhex(file.sha256)
            if first.setdefault(file.sha256, operation) is not operation:
                copies.append(operation)
        for group in ([*first.values()], copies):
            if group:
                self._upload(commit, group)
        return [*first.values(), *copies]

    def _upload(self, commit: Commit, operations: Sequence[CommitOperationAdd]) -> None:
        try:
            self._asking.once(
                commit.repo_id,
                lambda: self._api.preupload_lfs_files(
                    commit.repo_id,
                    operations,
                    repo_type=_TYPE,
                    revision=commit.branch,
                    create_pr=commit.pull_request,
                    free_memory=False,
                    # A .gitignore at the destination would make the Hub drop files without a word.
                    gitignore_content="",
                ),
            )
        except RefusedError as refusal:
            raise PublishError(self._no_rights(commit.repo_id, str(refusal))) from None

    def _get(self, url: str) -> httpx2.Response:
        response = get_session().get(url, headers=build_hf_headers(library_name="kernelyard"))
        hf_raise_for_status(response)
        return response
