"""`doit publish` as a user runs it, and what was published as users load it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import ROOT, Yard
from tests.integration.publish.conftest import PREFIX, REPO, VARIANT, commit_all, git
from tests.integration.publish.hub_server import READER, WRITER, Fault, Hub

SNIPPET = re.compile(r"```python\n(.*?)```", re.DOTALL)
LOAD = f'from kernels import get_kernel; print(get_kernel("{REPO}", version=1, backend="cpu").answer())'


def logged_in(hub: Hub, token: str = WRITER) -> dict[str, str]:
    return {
        "HF_ENDPOINT": hub.endpoint,
        "HF_TOKEN": token,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


def report(yard: Yard) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((yard.root / "out.json").read_text())
    return loaded


def test_what_was_published_is_what_the_client_loads(built: Yard, hub: Hub, tmp_path: Path) -> None:
    first = built.doit("publish:answer", "--to", "hub", "--output-json", "out.json", **logged_in(hub))
    assert first.status == 0, first.out + first.err
    assert f"publishing answer to {REPO}, branch v1: 5 added" in first.out
    assert WRITER not in first.out + first.err + (built.root / "out.json").read_text()
    url = f"{hub.endpoint}/kernels/{REPO}/tree/v1"
    row = report(built)["kernels"][0]
    assert {name: value for name, value in report(built).items() if name != "kernels"} == {
        "status": "uploaded",
        "repo_id": REPO,
        "branch": "v1",
        "url": url,
        "pull_requests": [],
    }
    assert (row["kernel"], row["status"], row["repo_id"], row["url"]) == ("answer", "uploaded", REPO, url)
    # The card's own words, but for the device: torch here may be a build for CUDA.
    readme = hub.files(REPO, "main")["README.md"].content.decode()
    (snippet,) = SNIPPET.findall(readme)
    code = snippet.replace("version=1", "version=1, backend='cpu'") + "print(kernel.answer(), kernel.DATA)"
    env = {**logged_in(hub), "HF_HUB_OFFLINE": "0", "KERNELS_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path)}
    # With that, the client of today sends a header that no server may accept.
    del env["HF_HUB_DISABLE_TELEMETRY"]
    assert built.call(code, **env) == "111 {'unit': 'none'}"
    second = built.doit("publish", "answer", "--to", "hub", "--output-json", "out.json", **logged_in(hub))
    assert (second.status, report(built)["status"], second.ran()) == (0, "no_changes", [])


def test_the_folder_is_the_default_and_loads_offline(built: Yard) -> None:
    shutil.copytree(ROOT / "kernels" / "geglu", built.root / "kernels" / "geglu")
    commit_all(built.root)
    done = built.doit("publish", "answer", "ge*", "--output-json", "out.json")
    assert done.status == 0, done.out + done.err
    assert [(row["kernel"], row["status"]) for row in report(built)["kernels"]] == [
        ("answer", "uploaded"),
        ("geglu", "uploaded"),
    ]
    cache = built.root / "dist" / "hub"
    (readme,) = (path for path in cache.rglob("README.md") if "geglu" in str(path))
    # It has a variant for each device that torch could be built for, so its card needs no help.
    snippet = SNIPPET.findall(readme.read_text())[0]
    assert built.call(f"{snippet}\nprint(tuple(y.shape))\n{LOAD}", KERNELS_CACHE=str(cache)) == "(16, 1024)\n111"
    verified = built.doit("verify", "answer", "dist/hub")
    assert verified.status == 0
    assert verified.out.count("whole; not signed") == 4


def test_a_token_without_rights_is_told_of_before_anything_is_built(yard: Yard, hub: Hub) -> None:
    yard.add("answer")
    git(yard.root, "init", "-q")
    (yard.root / ".gitignore").write_text("/build/\n")
    commit_all(yard.root)
    done = yard.doit("publish", "--to", "hub", "--output-json", "out.json", **logged_in(hub, READER))
    assert (done.status, done.ran()) == (1, [])
    assert f"refused              answer: {REPO}: the token may only read" in done.out
    assert (report(yard)["status"], report(yard)["kernels"][0]["status"]) == ("failed", "refused")
    words = ("publish", "--to", "hub", "--output-json", "out.json")
    none = yard.doit(*words, **(logged_in(hub, "") | {"HF_HOME": str(yard.cache)}))
    (row,) = report(yard)["kernels"]
    assert (row["kernel"], row["status"], "no token to publish with" in row["message"]) == ("answer", "failed", True)
    assert (none.status, none.ran()) == (1, [])
    assert "there is no token to publish with; run 'hf auth login', or set HF_TOKEN" in none.err
    assert "Traceback" not in done.err + none.err


def test_kernels_that_cannot_be_published_are_in_the_report_beside_those_that_can(built: Yard, hub: Hub) -> None:
    broken = built.root / "kernels" / "twin" / "build.toml"
    broken.write_text(broken.read_text().replace("edition = 5", "edition = 5\nbackend = 1"))
    commit_all(built.root)
    done = built.doit("publish", "--to", "hub", "--output-json", "out.json", **logged_in(hub))
    assert done.status == 1
    assert report(built)["status"] == "failed"
    rows = {row["kernel"]: row for row in report(built)["kernels"]}
    assert {kernel: row["status"] for kernel, row in rows.items()} == {"answer": "uploaded", "twin": "failed"}
    assert "[general] key 'backend': unknown key" in rows["twin"]["message"]


def test_words_that_select_nothing_and_options_that_are_none(built: Yard) -> None:
    for words, said in (
        (("publish", "anwser"), "did you mean answer"),
        (("publish:anwser",), "did you mean answer"),
        (("publish", "--to", "ftp:x"), "--to ftp:x: not a destination"),
        (("publish", "--too", "x"), "--too"),
        (("publish", "--output-json", "kernels"), "--output-json kernels: cannot be written (Is a directory)"),
    ):
        done = built.doit(*words)
        assert done.status != 0
        assert said in done.err
        assert "Traceback" not in done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("during", ["an upload", "a commit"])
def test_the_run_after_a_stopped_one_finishes_cleanly(
    built: Yard, hub: Hub, number: signal.Signals, during: str
) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        go_on.wait(60)

    matches = "^PUT " if during == "an upload" else r"^POST \S+/commit/v1"
    hub.faults.append(Fault(matches, meanwhile=hold))
    run = built.start("publish", "answer", "--to", "hub", "--output-json", "out.json", **logged_in(hub))
    assert reached.wait(60)
    run.send_signal(number)
    if number is not signal.SIGKILL:
        time.sleep(0.2)
    go_on.set()
    out, err = run.communicate(timeout=60)
    assert run.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number], out + err
    assert "Traceback" not in out + err
    told = report(built)
    assert (told["status"], told["kernels"][0]["message"]) == (
        "failed",
        "publishing was cut short; run it again, which finishes it",
    )
    after = built.doit("publish", "answer", "--to", "hub", **logged_in(hub))
    assert after.status == 0, after.out + after.err
    assert [commit.title for commit in hub.log(REPO, "v1")] == ["Publish answer to v1", "initial commit"]
    assert PREFIX + "metadata.json" in hub.paths(REPO, "v1")
    assert [commit.title for commit in hub.log(REPO, "main")] == ["Publish answer to main", "initial commit"]


def test_nothing_is_signed_without_an_identity_and_altered_artifacts_are_found(built: Yard) -> None:
    signed = built.doit("sign", "answer", GITHUB_ACTIONS="")
    assert signed.status == 0
    assert f"skipped    answer:{VARIANT}: no identity here to sign with" in signed.out
    assert not (built.artifact("answer") / "metadata.json.sigstore").exists()
    (built.artifact("answer") / "metadata.json.sigstore").write_text("{}")
    (built.artifact("twin") / "data.json").write_text("altered")
    verified = built.doit("verify")
    assert verified.status == 1
    assert f"BAD        build/kernels/answer/build/{VARIANT}: the signature is not valid" in verified.out
    assert f"BAD        build/kernels/twin/build/{VARIANT}: data.json: altered" in verified.out
    assert "Traceback" not in verified.err
