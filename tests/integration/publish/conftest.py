"""A built checkout, a Hub to publish to, and the publication of the one to the other within the test's own process."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from buildlib.publish import Options
from buildlib.publish.destination import Destination
from buildlib.publish.hub import Hub as RealHub
from buildlib.publish.report import Row, Show
from buildlib.publish.stage import Stage, by_kernel, destination
from buildlib.tasks import Session
from tests.integration.conftest import Yard, new_yard
from tests.integration.publish.hub_server import WRITER, Hub

REPO, OTHER_REPO = "kernelyard-test/answer", "kernelyard-test/twin"
VARIANT = "tvm-ffi01-cpu-x86_64-linux"
PREFIX = f"build/{VARIANT}/"


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments], cwd=root, check=True)


def commit_all(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Yard:
    """A committed checkout with two kernels of one content, `answer` and `twin`, both built and checked."""
    yard = new_yard(tmp_path_factory.mktemp("publish") / "yard", cache)
    yard.add("answer")
    yard.add("answer", "twin", rename=lambda text: text.replace(REPO, OTHER_REPO))
    (yard.root / ".gitignore").write_text("/build/\n/dist/\n")
    git(yard.root, "init", "-q")
    commit_all(yard.root)
    result = yard.doit("check")
    assert result.status == 0, result.out
    return yard


@pytest.fixture
def built(built_once: Yard, tmp_path: Path) -> Yard:
    """A copy of the built checkout that a test may change."""
    shutil.copytree(built_once.root, tmp_path / "yard", symlinks=True)
    return Yard(tmp_path / "yard", built_once.cache)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """An empty Hub, and an environment in which its one writer is logged in."""
    monkeypatch.setenv("HF_TOKEN", WRITER)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    server = Hub()
    yield server
    server.close()


@dataclass
class Shown(Show):
    """What a person would see, and how long they would wait; nobody waits in tests."""

    out: io.StringIO = field(default_factory=io.StringIO)
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.out)

    def wait(self, seconds: float, why: str) -> None:
        self.waits.append(seconds)
        self.line(f"waiting {seconds:.0f} s; {why}")


@dataclass(frozen=True)
class Published:
    rows: list[Row]
    shown: Shown

    @property
    def row(self) -> Row:
        (only,) = self.rows
        return only

    @property
    def text(self) -> str:
        return self.shown.out.getvalue()


Publish = Callable[..., Published]


@pytest.fixture
def publish(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Publish kernels of a checkout to the Hub, or elsewhere, as `doit publish` does after it has built and checked."""

    def run(yard: Yard, *kernels: str, **options: Any) -> Published:
        monkeypatch.setenv("KERNELYARD_CACHE", str(yard.cache))
        session, shown = Session.open(yard.root), Shown()
        asked = Options(**{"to": "hub", **options})
        # The library reads HF_ENDPOINT only when it is imported; the tests that start doit set it.
        where: Destination = RealHub(shown.wait, bars=False, endpoint=hub.endpoint)
        if asked.to != "hub":
            where = destination(asked, yard.root, shown, bars=False)
        stage = Stage(where, asked, session.workspace, shown)
        specs = by_kernel([spec for spec in session.plan.specs if spec.kernel.key in (kernels or ("answer",))])
        by_key = {kernel.key: kernel for kernel in session.kernels}
        stage.carry_out(stage.prepare([(by_key[key], found) for key, found in specs.items()]))
        return Published(stage.rows, shown)

    return run


def rewrite(
    yard: Yard,
    kernel: str = "answer",
    *,
    files: Mapping[str, bytes | None] = {},
    edit: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    """Make the built artifact another one that passed its checks, as if its sources had been edited.

    `files` are written into it, or removed where they are None; `edit` changes its metadata.
    """
    folder = yard.artifact(kernel)
    metadata = yard.metadata(kernel)
    for path, content in files.items():
        if content is None:
            (folder / path).unlink()
            del metadata["digest"]["files"][path]
        else:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
            metadata["digest"]["files"][path] = base64.b64encode(hashlib.sha256(content).digest()).decode()
    metadata["kernelyard"]["digest"] = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    if edit:
        edit(metadata)
    content = json.dumps(metadata, indent=2).encode()
    (folder / "metadata.json").write_bytes(content)
    report = yard.root / "build" / "reports" / kernel / folder.name / "check.json"
    told = json.loads(report.read_text())
    told["artifact"] = hashlib.sha256(content).hexdigest()
    report.write_text(json.dumps(told))
