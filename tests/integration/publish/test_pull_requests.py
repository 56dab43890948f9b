"""`--create-pr`: for repositories that one may not push to."""

from __future__ import annotations

import pytest

from tests.integration.conftest import Yard
from tests.integration.publish.conftest import PREFIX, REPO, VARIANT, Publish, rewrite
from tests.integration.publish.hub_server import READER, STRANGER, WRITER, Fault, Hub

URL = "/kernels/kernelyard-test/answer/discussions/"


@pytest.fixture
def theirs(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A Hub with the kernel's repository, in which we may only ask."""
    hub.create(REPO)
    hub.put(REPO, "v1", {"build/torch-cuda/metadata.json": b"{}"})
    monkeypatch.setenv("HF_TOKEN", STRANGER)
    return hub


def test_one_pull_request_for_each_branch(built: Yard, theirs: Hub, publish: Publish) -> None:
    before = theirs.paths(REPO, "v1"), theirs.paths(REPO, "main")
    row = publish(built, create_pr=True).row
    assert row.status == "pull_request_created"
    assert [(opened.branch, opened.url.removeprefix(theirs.endpoint)) for opened in row.pull_requests] == [
        ("v1", f"{URL}1"),
        ("main", f"{URL}2"),
    ]
    assert theirs.repositories[REPO].pull_requests == {
        1: ("v1", "Publish answer to v1"),
        2: ("main", "Publish answer to main"),
    }
    assert (theirs.paths(REPO, "v1"), theirs.paths(REPO, "main")) == before
    assert {PREFIX + "metadata.json", "build/torch-cuda/metadata.json"} <= theirs.paths(REPO, "refs/pr/1")
    assert f"`{VARIANT}`" in theirs.files(REPO, "refs/pr/2")["README.md"].content.decode()


def test_an_open_pull_request_is_not_opened_again(built: Yard, theirs: Hub, publish: Publish) -> None:
    publish(built, create_pr=True)
    theirs.requests.clear()
    row = publish(built, create_pr=True).row
    assert (row.status, theirs.writes) == ("no_changes", [])
    assert [opened.branch for opened in row.pull_requests] == ["v1", "main"]


def test_a_changed_artifact_goes_to_the_pull_request_that_is_open(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.create(REPO)
    hub.put(REPO, "v1", {"build/torch-cuda/metadata.json": b"{}"})
    publish(built, create_pr=True)
    rewrite(built, files={"data.json": b"2"})
    row = publish(built, create_pr=True).row
    assert (row.status, len(hub.repositories[REPO].pull_requests)) == ("pull_request_created", 2)
    assert [opened.url.removeprefix(hub.endpoint) for opened in row.pull_requests] == [f"{URL}1", f"{URL}2"]
    assert hub.files(REPO, "refs/pr/1")[PREFIX + "data.json"].content == b"2"


def test_a_pull_request_whose_answer_was_lost_is_not_opened_twice(built: Yard, theirs: Hub, publish: Publish) -> None:
    theirs.faults.append(Fault(r"/commit/v1", status=502, after=True))
    row = publish(built, create_pr=True).row
    assert (row.status, len(row.pull_requests)) == ("pull_request_created", 2)
    assert len(theirs.repositories[REPO].pull_requests) == 2


def test_more_commits_than_one_go_to_the_same_pull_request(
    built: Yard, hub: Hub, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.create(REPO)
    hub.put(REPO, "v1", {"build/torch-cuda/metadata.json": b"{}"})
    monkeypatch.setattr("buildlib.publish.plan.batches.__defaults__", (2, 1 << 20))
    publish(built, create_pr=True)
    assert len(hub.repositories[REPO].pull_requests) == 2
    assert len(hub.log(REPO, "refs/pr/1")) == 4
    assert PREFIX + "metadata.json" in hub.paths(REPO, "refs/pr/1")


def test_a_branch_that_is_missing_is_made_before_the_build_or_asked_for(
    built: Yard, hub: Hub, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.create(REPO)
    monkeypatch.setenv("HF_TOKEN", READER)
    row = publish(built, create_pr=True).row
    assert row.status == "refused"
    assert "has no branch v1, and you may not make it" in (row.message or "")
    assert not hub.asked("/commit/")
    monkeypatch.setenv("HF_TOKEN", WRITER)
    assert publish(built, create_pr=True).row.status == "pull_request_created"


def test_there_is_no_pull_request_without_a_repository(built: Yard, hub: Hub, publish: Publish) -> None:
    row = publish(built, create_pr=True).row
    assert (row.status, hub.writes) == ("refused", [])
    assert "no such repository to open a pull request in" in (row.message or "")
