"""What may not be published."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.conftest import Yard
from tests.integration.publish.conftest import PREFIX, REPO, VARIANT, Publish, commit_all, rewrite
from tests.integration.publish.hub_server import Hub


def edit_toml(yard: Yard, old: str, new: str) -> None:
    path = yard.root / "kernels" / "answer" / "build.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    commit_all(yard.root)


def says(interface: dict[str, dict[str, str]]) -> Callable[[dict[str, Any]], None]:
    """An edit of metadata.json after which the artifact has this interface."""

    def edit(metadata: dict[str, Any]) -> None:
        metadata["kernelyard"]["interface"] = interface

    return edit


def test_a_kernel_without_a_repository_is_never_guessed_one(built: Yard, hub: Hub, publish: Publish) -> None:
    edit_toml(built, f'repo-id = "{REPO}"\n', "")
    row = publish(built).row
    assert (row.status, hub.writes) == ("refused", [])
    assert row.message == (
        "kernels/answer/build.toml: [general.hub] has no repo-id; add one, such as repo-id = 'your-name/answer'"
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('repo-id = "answer"', "'answer' is not of the form 'owner/name'"),
        ('repo-id = "../up/answer"', "is not of the form 'owner/name'"),
        (f'repo-id = "{REPO}"\nbranch = "../v1"', "'../v1' is not a name for a branch"),
        (f'repo-id = "{REPO}"\nbranch = "refs/pr/1"', "'refs/pr/1' is not a name for a branch"),
    ],
)
def test_a_name_that_none_can_have(built: Yard, hub: Hub, publish: Publish, line: str, problem: str) -> None:
    edit_toml(built, f'repo-id = "{REPO}"', line)
    row = publish(built).row
    assert (row.status, hub.requests) == ("refused", [])
    assert problem in (row.message or "")


def test_uncommitted_sources_of_one_kernel_stop_only_that_one(built: Yard, hub: Hub, publish: Publish) -> None:
    (built.root / "kernels" / "answer" / "value" / "near.h").write_text("#define NEAR 11\n")
    (built.root / "notes.txt").write_text("elsewhere")
    rows = publish(built, "answer", "twin").rows
    assert [(row.kernel, row.status) for row in rows] == [("answer", "refused"), ("twin", "uploaded")]
    assert rows[0].message == (
        "kernels/answer: not all is committed (value/near.h); commit it, or pass --allow-dirty, which says so in the "
        "commit"
    )


def test_allow_dirty_says_so_in_the_commit_and_a_clean_artifact_replaces_it(
    built: Yard, hub: Hub, publish: Publish
) -> None:
    def dirty(metadata: dict[str, Any]) -> None:
        metadata["provenance"]["kernel"]["dirty"] = True
        metadata["kernelyard"]["digest"] = digest

    def clean(metadata: dict[str, Any]) -> None:
        metadata["provenance"]["kernel"]["dirty"] = False
        metadata["kernelyard"]["digest"] = digest

    digest = built.metadata("answer")["kernelyard"]["digest"]
    rewrite(built, edit=dirty)
    row = publish(built).row
    assert row.status == "refused"
    assert "was built from sources that no commit holds" in (row.message or "")
    assert publish(built, allow_dirty=True).row.status == "uploaded"
    assert f"{VARIANT}: from uncommitted sources" in hub.log(REPO, "v1")[0].description
    assert publish(built, allow_dirty=True).row.status == "no_changes"
    rewrite(built, edit=clean)
    assert publish(built).row.branches[0].reasons == (f"{VARIANT}: its sources are committed now",)


def test_sources_outside_of_git_cannot_be_told(built: Yard, hub: Hub, publish: Publish) -> None:
    shutil.rmtree(built.root / ".git")
    row = publish(built).row
    assert row.status == "refused"
    assert "not in a git repository" in (row.message or "")
    assert publish(built, allow_dirty=True).row.status == "uploaded"


@pytest.mark.parametrize("what", ["no report", "a stray file"])
def test_what_has_not_passed_its_checks(built: Yard, hub: Hub, publish: Publish, what: str) -> None:
    if what == "no report":
        (built.root / "build" / "reports" / "answer" / VARIANT / "check.json").unlink()
    else:
        (built.artifact("answer") / "notes.txt").write_text("an editor left this")
    row = publish(built).row
    assert row.status == "refused"
    assert row.message == (
        f"build/kernels/answer/build/{VARIANT}: has not passed all checks; see the report, mend it, and run 'doit "
        "check' again"
    )
    assert not hub.asked("/commit/")


def test_bytecode_that_a_load_left_behind_is_not_published(built: Yard, hub: Hub, publish: Publish) -> None:
    (built.artifact("answer") / "__pycache__").mkdir()
    (built.artifact("answer") / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"x")
    assert publish(built).row.status == "uploaded"
    assert not [path for path in hub.paths(REPO, "v1") if "pyc" in path]


def test_a_narrowed_build(built: Yard, hub: Hub, publish: Publish) -> None:
    def narrowed(metadata: dict[str, Any]) -> None:
        metadata["kernelyard"]["narrowed"] = ["--only-capability 9.0"]

    rewrite(built, edit=narrowed)
    row = publish(built, allow_dirty=True).row
    assert row.status == "refused"
    assert "was built with --only-capability 9.0; build it whole, without that, and publish" in (row.message or "")


# --- going backwards ---

WAS = {"python": {"answer": "(x, scale=1)"}, "ops": {"answer": "(Tensor x) -> Tensor"}}


@pytest.mark.parametrize(
    ("now", "problem"),
    [
        ({"python": {}, "ops": WAS["ops"]}, "answer is gone"),
        ({"python": {"answer": "(x)"}, "ops": WAS["ops"]}, "answer(x, scale=1) became answer(x)"),
        ({"python": WAS["python"], "ops": {}}, "op answer is gone"),
        (
            {"python": WAS["python"], "ops": {"answer": "(Tensor x, int n) -> Tensor"}},
            "op answer(Tensor x) -> Tensor became answer(Tensor x, int n) -> Tensor",
        ),
    ],
)
def test_an_interface_that_goes_backwards_needs_a_new_version(
    built: Yard, hub: Hub, publish: Publish, now: dict[str, dict[str, str]], problem: str
) -> None:
    rewrite(built, edit=says(WAS))
    publish(built)
    rewrite(built, files={"data.json": b"2"}, edit=says(now))
    row = publish(built).row
    assert row.status == "refused"
    assert row.message == (
        f"kernels/answer: breaks users of {REPO} version 1: {problem}. Keep what was there, or set [general] version = "
        "2 in build.toml"
    )
    edit_toml(built, "version = 1", "version = 2")
    assert publish(built).row.branch == "v2"
    assert hub.files(REPO, "v1")[PREFIX + "data.json"].content != b"2"


def test_an_interface_may_grow(built: Yard, hub: Hub, publish: Publish) -> None:
    rewrite(built, edit=says(WAS))
    publish(built)
    grown = {
        "python": {"answer": "(x, scale=1, *, out=None)", "more": "()"},
        "ops": {"answer": "(Tensor x, int n=1) -> Tensor"},
    }
    rewrite(built, files={"data.json": b"2"}, edit=says(grown))
    assert publish(built).row.status == "uploaded"


def test_a_new_variant_is_compared_with_one_that_is_there(built: Yard, hub: Hub, publish: Publish) -> None:
    publish(built)
    published = {path: blob.content for path, blob in hub.files(REPO, "v1").items() if path.startswith(PREFIX)}
    other = {path.replace("tvm-ffi01", "tvm-ffi00"): content for path, content in published.items()}
    hub.put(REPO, "v1", other, deletes=tuple(published))
    rewrite(built, edit=says({"python": {}, "ops": {"answer": ""}}))
    row = publish(built).row
    assert row.status == "refused"
    assert "answer is gone" in (row.message or "")


def test_another_builders_python_is_read_from_its_files(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.create(REPO)
    theirs = {
        "metadata.json": b'{"name": "answer"}',
        "__init__.py": b"from ._more import lost\n__all__ = ['lost']\n",
        "_more.py": b"def lost(x): ...\n",
    }
    hub.put(REPO, "v1", {PREFIX + path: content for path, content in theirs.items()})
    row = publish(built).row
    assert row.status == "refused"
    assert "lost is gone" in (row.message or "")
