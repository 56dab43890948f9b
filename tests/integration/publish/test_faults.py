"""What goes wrong between here and there: each accident that a Hub can have, and how it ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.conftest import Yard
from tests.integration.publish.conftest import PREFIX, REPO, VARIANT, Publish, rewrite
from tests.integration.publish.hub_server import READER, STRANGER, WRITER, Fault, Hub

COMMIT = r"^POST \S+/commit/v1"
OTHER = "build/torch-cuda/metadata.json"


@pytest.fixture
def kept(built: Yard, hub: Hub, publish: Publish) -> Yard:
    """A kernel that is published already, and whose artifact has changed since."""
    publish(built)
    rewrite(built, files={"data.json": b"new"})
    hub.requests.clear()
    return built


def somebody(hub: Hub, branch: str, path: str) -> Callable[[], None]:
    """Somebody else's commit."""
    return lambda: void(hub.put(REPO, branch, {path: b"{}"}))


def void(_: object) -> None:
    pass


def ours(hub: Hub, branch: str = "v1") -> int:
    return sum(commit.title == f"Publish answer to {branch}" for commit in hub.log(REPO, branch))


@pytest.mark.parametrize("status", [409, 412])
def test_another_commit_in_between_is_no_obstacle(kept: Yard, hub: Hub, publish: Publish, status: int) -> None:
    # The Hub says 412; what other services say is 409.
    refused = status if status == 409 else 0
    hub.faults.append(Fault(COMMIT, status=refused, times=2, meanwhile=somebody(hub, "v1", OTHER)))
    assert publish(kept).row.status == "uploaded"
    assert {OTHER, PREFIX + "data.json"} <= hub.paths(REPO, "v1")
    assert hub.files(REPO, "v1")[PREFIX + "data.json"].content == b"new"
    assert (ours(hub), len(hub.asked(COMMIT))) == (2, 3)


def test_a_head_that_lags_behind_is_read_again(kept: Yard, hub: Hub, publish: Publish) -> None:
    before = dict(hub.repositories[REPO].branches)
    hub.put(REPO, "v1", {OTHER: b"{}"})
    hub.stale = [before, before, before]
    done = publish(kept)
    assert done.row.status == "uploaded"
    assert {OTHER, PREFIX + "data.json"} <= hub.paths(REPO, "v1")
    assert "somebody else committed in between" in done.text


def test_the_card_is_rendered_again_when_another_machine_brings_variants(
    built: Yard, hub: Hub, publish: Publish
) -> None:
    def other_machine() -> None:
        hub.put(REPO, "v1", {OTHER: b"{}"})
        hub.put(REPO, "main", {"README.md": b"about torch-cuda alone"})

    hub.faults.append(Fault(r"^POST \S+/commit/main", meanwhile=other_machine))
    publish(built)
    readme = hub.files(REPO, "main")["README.md"].content.decode()
    assert "| `torch-cuda` |" in readme
    assert f"| `{VARIANT}` |" in readme


def test_attempts_are_bounded(kept: Yard, hub: Hub, publish: Publish) -> None:
    hub.faults.append(Fault(COMMIT, times=1000, meanwhile=somebody(hub, "v1", OTHER)))
    row = publish(kept).row
    assert row.status == "failed"
    assert row.message == (f"{REPO}: in 25 attempts, somebody else was always faster on branch v1; publish again later")


@pytest.mark.parametrize(
    ("headers", "waits"), [({"Retry-After": "7"}, 7.0), ({"RateLimit": '"api";r=0;t=55'}, 55.0), ({}, 60.0)]
)
@pytest.mark.parametrize("request_", [COMMIT, r"^GET \S+/refs"])
def test_it_waits_as_told(
    kept: Yard, hub: Hub, publish: Publish, headers: dict[str, str], waits: float, request_: str
) -> None:
    hub.faults.append(Fault(request_, status=429, headers=headers, times=2))
    done = publish(kept)
    assert (done.row.status, done.shown.waits) == ("uploaded", [waits, waits])
    assert ours(hub) == 2


def test_it_does_not_wait_for_ever(kept: Yard, hub: Hub, publish: Publish) -> None:
    hub.faults.append(Fault(COMMIT, status=429, headers={"Retry-After": "999999"}, times=9))
    done = publish(kept)
    assert done.shown.waits == [3600.0]
    assert "still asks to wait after an hour; try again later (429" in (done.row.message or "")


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_commit_whose_answer_was_lost_is_not_made_twice(kept: Yard, hub: Hub, publish: Publish, status: int) -> None:
    hub.faults.append(Fault(COMMIT, status=status, after=True))
    done = publish(kept)
    assert (done.row.status, ours(hub), len(hub.asked(COMMIT))) == ("uploaded", 2, 1)
    assert done.row.branches[0].commit == hub.repositories[REPO].branches["v1"]
    assert f"the Hub answered {status}; looking whether it happened" in done.text


@pytest.mark.parametrize(("when", "commits"), [("before it happened", 2), ("after it happened", 1)])
def test_a_connection_lost_in_a_commit(kept: Yard, hub: Hub, publish: Publish, when: str, commits: int) -> None:
    hub.faults.append(Fault(COMMIT, drop=True, after=when.startswith("after")))
    assert publish(kept).row.status == "uploaded"
    assert (ours(hub), len(hub.asked(COMMIT))) == (2, commits)


def test_a_server_that_breaks_down_for_a_moment(kept: Yard, hub: Hub, publish: Publish) -> None:
    hub.faults += [Fault(r"/refs", status=503), Fault(r"/tree/", drop=True), Fault(r"/preupload/", status=500)]
    hub.faults.append(Fault(COMMIT, status=500))
    assert publish(kept).row.status == "uploaded"
    assert ours(hub) == 2


def test_a_server_that_stays_down_is_named(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.faults.append(Fault(r"/refs", status=503, times=99))
    row = publish(built).row
    assert (row.status, row.message) == ("refused", f"{REPO}: the Hub answered 503; try again later")


def test_a_connection_lost_in_an_upload(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.faults.append(Fault("^PUT ", drop=True, times=3))
    assert publish(built).row.status == "uploaded"
    assert ours(hub) == 1


def test_an_upload_that_never_works_leaves_nothing_behind(
    built: Yard, hub: Hub, publish: Publish, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.faults.append(Fault("^PUT ", status=500, times=999))
    done = publish(built)
    assert done.row.status == "failed"
    assert "an upload failed" in (done.row.message or "")
    assert hub.paths(REPO, "v1") == set()
    captured = capfd.readouterr()
    for secret in ("secret", WRITER):
        assert secret not in done.text + str(done.rows) + captured.out + captured.err
    hub.faults.clear()
    assert publish(built).row.status == "uploaded"


def test_a_file_that_is_lost_in_a_commit_is_noticed_and_sent_again(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.lost.add(PREFIX + "_ops.py")
    row = publish(built).row
    assert row.status == "failed"
    assert f"after the commit, branch v1 is not as planned ({PREFIX}_ops.py)" in (row.message or "")
    hub.lost.clear()
    done = publish(built).row
    assert done.branches[0].added == (PREFIX + "_ops.py",)
    assert publish(built).row.status == "no_changes"


# --- rights, before anything is built ---


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (READER, "the token may only read; make one of the kind 'write'"),
        (STRANGER, "someone is not a member of kernelyard-test"),
    ],
)
def test_a_token_without_rights_is_told_of_first(
    built: Yard, hub: Hub, publish: Publish, monkeypatch: pytest.MonkeyPatch, token: str, why: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    row = publish(built).row
    assert row.status == "refused"
    assert (row.message or "").startswith(f"{REPO}: {why}")
    assert hub.requests == [f"GET /api/kernels/{REPO}/refs", "GET /api/whoami-v2"]


def test_a_token_that_only_the_hub_knows_the_rights_of_is_tried(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.role = "something new"
    hub.create(REPO)
    hub.writes_refused = True
    row = publish(built).row
    assert row.status == "refused"
    assert "you may not write there (You don't have the required permissions)" in (row.message or "")
    assert hub.writes == []
    hub.writes_refused = False
    assert publish(built).row.status == "uploaded"


def test_an_owner_who_may_have_no_kernels_is_told_what_to_ask_for(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.closed.add("kernelyard-test")
    row = publish(built).row
    assert row.status == "refused"
    message = row.message or ""
    assert "does not let you make this repository (Creating kernel repositories requires approval)" in message
    assert "ask an administrator of kernelyard-test" in message


def test_who_may_not_create_repositories_may_publish_to_one_that_is_there(
    built: Yard, hub: Hub, publish: Publish
) -> None:
    hub.create(REPO)
    hub.closed.add("kernelyard-test")
    assert publish(built).row.status == "uploaded"


def test_one_kernel_that_fails_stops_no_other(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.faults.append(Fault(r"^POST \S+/kernelyard-test/answer/commit/v1", status=400, times=9))
    rows = publish(built, "answer", "twin").rows
    assert [(row.kernel, row.status) for row in rows] == [("answer", "failed"), ("twin", "uploaded")]
    assert "the Hub refuses (400: by design)" in (rows[0].message or "")
