"""A Hub on 127.0.0.1: repositories of kernels behind real HTTP, with the accidents that a real one has.

It keeps commits, branches, pull requests and large files in memory, and answers what `huggingface_hub` and `kernels`
ask. A `Fault` makes it answer something else, late, or not at all.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import itertools
import json
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

WRITER, READER, STRANGER = "hf_writerwriterwriter", "hf_readerreaderreader", "hf_strangerstranger"
# Larger files, and all libraries, are stored outside of git.
_LARGE = 1 << 20


@dataclass(frozen=True)
class Blob:
    content: bytes
    large: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def git(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.content) + self.content).hexdigest()


Files = dict[str, Blob]


@dataclass(frozen=True)
class Commit:
    files: Files
    parent: str | None
    title: str
    description: str = ""


@dataclass
class Repository:
    private: bool
    branches: dict[str, str] = field(default_factory=dict)
    # The target branch and the title of each pull request; its own branch is refs/pr/<number>.
    pull_requests: dict[int, tuple[str, str]] = field(default_factory=dict)


@dataclass
class Fault:
    """What goes wrong with the first `times` requests whose "METHOD path" matches, after `skip` that go well."""

    matches: str
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    skip: int = 0
    # Do what was asked for all the same, and only then fail.
    after: bool = False
    # Answer nothing and close the connection.
    drop: bool = False
    # Something that happens before the request is answered, as it should be unless there is a status.
    meanwhile: Callable[[], None] | None = None


class Hub:
    """The state behind the server, and what it was asked."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.commits: dict[str, Commit] = {}
        self.large: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.faults: list[Fault] = []
        self.page_size = 1000
        # Owners that the writer may not create repositories for.
        self.closed: set[str] = set()
        self.writes_refused = False
        # Branches as they were, which the next requests for refs are answered with: some servers lag behind.
        self.stale: list[dict[str, str]] = []
        # Files that are lost on their way into a commit.
        self.lost: set[str] = set()
        self.role = "write"
        self.lock = threading.RLock()
        self._count = itertools.count(1)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.hub = self  # type: ignore[attr-defined]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # --- what tests ask and do ---

    def asked(self, pattern: str) -> list[str]:
        return [request for request in self.requests if re.search(pattern, request)]

    @property
    def writes(self) -> list[str]:
        """The requests that change something."""
        return self.asked(r"^PUT |^POST \S*/(commit|branch)/|^POST /api/repos/create")

    def files(self, repo_id: str, branch: str) -> Files:
        return self.commits[self.repositories[repo_id].branches[branch]].files

    def paths(self, repo_id: str, branch: str) -> set[str]:
        return set(self.files(repo_id, branch)) - {".gitattributes"}

    def log(self, repo_id: str, branch: str) -> list[Commit]:
        """The commits of a branch, the newest first."""
        found, oid = [], self.repositories[repo_id].branches.get(branch)
        while oid is not None:
            found.append(self.commits[oid])
            oid = found[-1].parent
        return found

    def create(self, repo_id: str, *, private: bool = False) -> Repository:
        repository = self.repositories[repo_id] = Repository(private)
        self.put(repo_id, "main", {".gitattributes": b"*.so filter=lfs\n"}, title="initial commit")
        return repository

    def put(
        self, repo_id: str, branch: str, files: dict[str, bytes], *, deletes: tuple[str, ...] = (), title: str = "other"
    ) -> str:
        """Commit as somebody else would."""
        with self.lock:
            head = self.repositories[repo_id].branches.get(branch)
            now = dict(self.commits[head].files) if head else {}
            for path in deletes:
                del now[path]
            now |= {path: Blob(content) for path, content in files.items()}
            return self.record(repo_id, branch, Commit(now, head, title))

    def record(self, repo_id: str, branch: str, commit: Commit) -> str:
        oid = hashlib.sha1(f"{next(self._count)} {repo_id} {branch}".encode()).hexdigest()
        self.commits[oid] = commit
        self.repositories[repo_id].branches[branch] = oid
        return oid

    def fault(self, request: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if re.search(fault.matches, request) and fault.times:
                    if fault.skip:
                        fault.skip -= 1
                    else:
                        fault.times -= 1
                        return fault
        return None


class _AnswerError(Exception):
    """Ends the handling of a request; not all answers are errors."""

    def __init__(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        super().__init__()
        self.status, self.body, self.headers = status, body, headers or {}


def _error(status: int, message: str, code: str = "") -> _AnswerError:
    headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
    return _AnswerError(status, {"error": message}, headers)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Small answers go out at once instead of waiting for more.
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_: object) -> None:
        pass

    @property
    def hub(self) -> Hub:
        return self.server.hub  # type: ignore[attr-defined, no-any-return]

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - the names that the server looks for

    def _serve(self) -> None:
        request = f"{self.command} {self.path}"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.hub.lock:
            self.hub.requests.append(request)
        fault = self.hub.fault(request)
        if fault and fault.meanwhile:
            fault.meanwhile()
        if fault and not fault.after and (fault.status or fault.drop):
            return self._fail(fault)
        try:
            with self.hub.lock:
                self._route(urlsplit(self.path), body)
            raise _error(404, f"nothing at {self.path}")
        except _AnswerError as answer:
            if fault and fault.after:
                return self._fail(fault)
            self._answer(answer)

    def _fail(self, fault: Fault) -> None:
        if fault.drop:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self._answer(_AnswerError(fault.status, {"error": "by design"}, fault.headers))

    def _answer(self, answer: _AnswerError) -> None:
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        kind = "application/octet-stream" if isinstance(answer.body, bytes) else "application/json"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    # --- who asks ---

    @property
    def _token(self) -> str | None:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None

    def _may_write(self) -> None:
        if self._token is None:
            raise _error(401, "Invalid username or password.")
        if self._token != WRITER or self.hub.writes_refused:
            raise _error(403, "You don't have the required permissions")

    # --- where to ---

    def _route(self, url: Any, body: bytes) -> None:
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        parts = [unquote(part) for part in url.path.split("/") if part]
        match parts:
            case ["api", "whoami-v2"]:
                self._whoami()
            case ["api", "validate-yaml"]:
                raise _AnswerError(200, {"errors": [], "warnings": []})
            case ["api", "repos", "create"]:
                self._create(json.loads(body))
            case ["api", "organizations", name, "overview"]:
                raise _AnswerError(
                    200, {"name": name, "fullname": name, "avatarUrl": "", "trustedKernelPublisher": True}
                )
            case ["api", "kernels", owner, name, *rest]:
                self._api(f"{owner}/{name}", rest, query, body)
            case ["kernels", owner, name, "info", "lfs", "objects", "batch"]:
                self._batch(f"{owner}/{name.removesuffix('.git')}", json.loads(body))
            case ["kernels", owner, name, "resolve", revision, *path]:
                self._resolve(f"{owner}/{name}", revision, "/".join(path))
            case ["large", sha256] if self.command == "PUT":
                assert hashlib.sha256(body).hexdigest() == sha256
                self.hub.large[sha256] = body
                raise _AnswerError(200, {})

    def _api(self, repo_id: str, rest: list[str], query: dict[str, str], body: bytes) -> None:
        repository = self._repository(repo_id)
        match rest:
            case ["refs"]:
                self._refs(repository, query)
            case ["tree", revision, *path]:
                self._tree(self._commit(repository, revision), "/".join(path), query)
            case ["commits", revision]:
                self._commits(repository, revision)
            case ["branch", name]:
                self._branch(repository, name, json.loads(body or b"{}"))
            case ["preupload", revision]:
                self._preupload(repository, revision, query, json.loads(body))
            case ["commit", revision]:
                lines = [json.loads(line) for line in body.splitlines()]
                self._make_commit(repo_id, repository, revision, query, lines)
            case ["discussions"]:
                self._discussions(repo_id, repository)
            case [] | ["revision", _]:
                self._info(repo_id, repository, rest[1] if rest else "main")

    def _repository(self, repo_id: str) -> Repository:
        repository = self.hub.repositories.get(repo_id)
        if repository is None or (repository.private and self._token != WRITER):
            raise _error(404, "Repository not found", "RepoNotFound")
        return repository

    def _oid(self, repository: Repository, revision: str) -> str:
        oid = repository.branches.get(revision.removeprefix("refs/heads/"), revision)
        if oid not in self.hub.commits:
            raise _error(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return oid

    def _commit(self, repository: Repository, revision: str) -> Commit:
        return self.hub.commits[self._oid(repository, revision)]

    # --- reading ---

    def _whoami(self) -> None:
        if self._token not in {WRITER, READER, STRANGER}:
            raise _error(401, "Invalid credentials in Authorization header")
        role = "read" if self._token == READER else self.hub.role
        token: dict[str, object] = {"role": role, "displayName": "test"}
        orgs = [] if self._token == STRANGER else ["kernelyard-test", "kernelyard", "staging"]
        raise _AnswerError(
            200,
            {
                "type": "user",
                "name": "someone",
                "orgs": [{"name": name, "roleInOrg": "write"} for name in orgs],
                "auth": {"type": "access_token", "accessToken": token},
            },
        )

    def _refs(self, repository: Repository, query: dict[str, str]) -> None:
        branches = self.hub.stale.pop(0) if self.hub.stale else repository.branches

        def shown(prefix: str, names: list[str]) -> list[dict[str, str]]:
            return [{"name": name, "ref": prefix + name, "targetCommit": branches[name]} for name in names]

        heads = sorted(name for name in branches if not name.startswith("refs/pr/"))
        answer = {"branches": shown("refs/heads/", heads), "tags": [], "converts": []}
        if "include_prs" in query:
            answer["pullRequests"] = shown("", [f"refs/pr/{number}" for number in repository.pull_requests])
        raise _AnswerError(200, answer)

    def _tree(self, commit: Commit, folder: str, query: dict[str, str]) -> None:
        prefix = f"{folder}/" if folder else ""
        recursive = query.get("recursive", "false").lower() == "true"
        entries: dict[str, dict[str, object]] = {}
        for path, blob in sorted(commit.files.items()):
            if not path.startswith(prefix):
                continue
            parts = path.removeprefix(prefix).split("/")
            for depth in range(1, len(parts)) if recursive else range(1, min(2, len(parts))):
                parent = prefix + "/".join(parts[:depth])
                entries[parent] = {"type": "directory", "path": parent, "oid": "0" * 40, "size": 0}
            if recursive or len(parts) == 1:
                entries[path] = _file(path, blob)
        if folder and not entries:
            raise _error(404, f"{folder} does not exist", "EntryNotFound")
        start = int(query.get("cursor", 0))
        page = list(entries.values())[start : start + self.hub.page_size]
        more = {}
        if start + self.hub.page_size < len(entries):
            address = f"{self.hub.endpoint}{self.path.partition('?')[0]}"
            more = {"Link": f'<{address}?recursive={recursive}&cursor={start + self.hub.page_size}>; rel="next"'}
        raise _AnswerError(200, page, more)

    def _commits(self, repository: Repository, revision: str) -> None:
        found, oid = [], self._oid(repository, revision)
        while oid:
            commit = self.hub.commits[oid]
            found.append(
                {
                    "id": oid,
                    "title": commit.title,
                    "message": commit.description,
                    "date": "2026-01-01T00:00:00.000Z",
                    "authors": [],
                }
            )
            oid = commit.parent or ""
        raise _AnswerError(200, found)

    def _info(self, repo_id: str, repository: Repository, revision: str) -> None:
        commit = self._commit(repository, revision)
        raise _AnswerError(
            200,
            {
                "id": repo_id,
                "author": repo_id.partition("/")[0],
                "sha": self._oid(repository, revision),
                "private": repository.private,
                "gated": False,
                "disabled": False,
                "downloads": 0,
                "likes": 0,
                "tags": [],
                "lastModified": "2026-01-01T00:00:00.000Z",
                "createdAt": "2026-01-01T00:00:00.000Z",
                "siblings": [{"rfilename": path} for path in sorted(commit.files)],
            },
        )

    def _resolve(self, repo_id: str, revision: str, path: str) -> None:
        repository = self._repository(repo_id)
        blob = self._commit(repository, revision).files.get(path)
        if blob is None:
            raise _error(404, f"{path} does not exist", "EntryNotFound")
        name = blob.sha256 if blob.large else blob.git
        raise _AnswerError(200, blob.content, {"X-Repo-Commit": self._oid(repository, revision), "ETag": f'"{name}"'})

    def _discussions(self, repo_id: str, repository: Repository) -> None:
        found = [
            {
                "num": number,
                "title": title,
                "isPullRequest": True,
                "status": "open",
                "createdAt": "2026-01-01T00:00:00.000Z",
                "author": {"name": "someone"},
                "repo": {"name": repo_id, "type": "kernel"},
            }
            for number, (_, title) in repository.pull_requests.items()
        ]
        raise _AnswerError(200, {"discussions": found, "count": len(found), "start": 0})

    # --- writing ---

    def _create(self, wanted: dict[str, Any]) -> None:
        assert wanted["type"] == "kernel", "a repository of another type"
        repo_id = f"{wanted['organization']}/{wanted['name']}"
        if wanted["organization"] in self.hub.closed:
            raise _error(403, "Creating kernel repositories requires approval")
        self._may_write()
        if repo_id in self.hub.repositories:
            raise _error(409, "You already created this repo")
        self.hub.create(repo_id, private=wanted.get("visibility") == "private")
        raise _AnswerError(200, {"url": f"{self.hub.endpoint}/kernels/{repo_id}"})

    def _branch(self, repository: Repository, name: str, wanted: dict[str, str]) -> None:
        self._may_write()
        if name in repository.branches:
            raise _error(409, "Reference already exists")
        repository.branches[name] = self._oid(repository, wanted.get("startingPoint", "main"))
        raise _AnswerError(200, {})

    def _preupload(self, repository: Repository, revision: str, query: dict[str, str], wanted: dict[str, Any]) -> None:
        if "create_pr" not in query:
            self._may_write()
        commit = self._commit(repository, revision)
        hosted = commit.files.get(".gitignore")
        ignored = wanted.get("gitIgnore", hosted.content.decode() if hosted else "").split()
        answer = []
        for file in wanted["files"]:
            path = file["path"]
            known = commit.files.get(path)
            large = path.endswith(".so") or file["size"] > _LARGE
            answer.append(
                {
                    "path": path,
                    "uploadMode": "lfs" if large else "regular",
                    "shouldIgnore": any(fnmatch.fnmatch(path, f"*{pattern}*") for pattern in ignored),
                    "oid": (known.sha256 if known.large else known.git) if known else None,
                }
            )
        raise _AnswerError(200, {"files": answer})

    def _batch(self, repo_id: str, wanted: dict[str, Any]) -> None:
        self._repository(repo_id)
        if self._token is None:
            raise _error(401, "Invalid username or password.")
        objects = []
        for each in wanted["objects"]:
            answer = dict(each)
            if each["oid"] not in self.hub.large:
                answer["actions"] = {"upload": {"href": f"{self.hub.endpoint}/large/{each['oid']}?X-Signature=secret"}}
            objects.append(answer)
        raise _AnswerError(200, {"transfer": "basic", "objects": objects})

    def _make_commit(
        self,
        repo_id: str,
        repository: Repository,
        revision: str,
        query: dict[str, str],
        lines: list[dict[str, Any]],
    ) -> None:
        head, *operations = lines
        if "create_pr" not in query:
            self._may_write()
        elif self._token is None:
            raise _error(401, "Invalid username or password.")
        parent = self._oid(repository, revision)
        if head["value"].get("parentCommit", parent) != parent:
            raise _error(412, "A commit has happened since. Please refresh and try again.")
        files = dict(self.hub.commits[parent].files)
        for operation in operations:
            if operation["value"]["path"] not in self.hub.lost:
                self._operate(files, operation)
        title = head["value"]["summary"]
        answer: dict[str, object] = {}
        target = revision
        if "create_pr" in query:
            number = len(repository.pull_requests) + 1
            repository.pull_requests[number] = (revision, title)
            target = f"refs/pr/{number}"
            answer["pullRequestUrl"] = f"{self.hub.endpoint}/kernels/{repo_id}/discussions/{number}"
        oid = self.hub.record(repo_id, target, Commit(files, parent, title, head["value"]["description"]))
        raise _AnswerError(
            200, {"commitOid": oid, "commitUrl": f"{self.hub.endpoint}/kernels/{repo_id}/commit/{oid}", **answer}
        )

    def _operate(self, files: Files, operation: dict[str, Any]) -> None:
        value = operation["value"]
        match operation["key"]:
            case "file":
                files[value["path"]] = Blob(base64.b64decode(value["content"]))
            case "lfsFile":
                assert value["oid"] in self.hub.large, f"{value['path']} was not uploaded"
                files[value["path"]] = Blob(self.hub.large[value["oid"]], large=True)
            case "deletedFile":
                if value["path"] not in files:
                    raise _error(404, "A file with this name doesn't exist", "EntryNotFound")
                del files[value["path"]]
            case other:
                raise _error(400, f"{other} is not expected of this client")


def _file(path: str, blob: Blob) -> dict[str, object]:
    size = len(blob.content)
    if not blob.large:
        return {"type": "file", "path": path, "oid": blob.git, "size": size}
    large = {"oid": blob.sha256, "size": size, "pointerSize": 130}
    # Git's own name is that of the pointer.
    return {"type": "file", "path": path, "oid": "f" * 40, "size": size, "lfs": large}
