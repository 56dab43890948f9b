"""What is published, where to, and when nothing is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from buildlib.errors import PublishError
from tests.integration.conftest import Yard
from tests.integration.publish.conftest import OTHER_REPO, PREFIX, REPO, VARIANT, Publish, rewrite
from tests.integration.publish.hub_server import Hub

ARTIFACT = {"__init__.py", "_ops.py", "data.json", "metadata.json"}


def library(yard: Yard) -> str:
    return f"{yard.metadata('answer')['id']}.so"


def test_a_kernel_arrives_whole_on_its_version_branch_and_its_card_on_main(
    built: Yard, hub: Hub, publish: Publish
) -> None:
    done = publish(built)
    assert done.row.status == "uploaded"
    assert hub.paths(REPO, "v1") == {PREFIX + name for name in ARTIFACT | {library(built)}}
    assert hub.paths(REPO, "main") == {"README.md"}
    for path, blob in hub.files(REPO, "v1").items():
        if path.startswith(PREFIX):
            assert blob.content == (built.artifact("answer") / path.removeprefix(PREFIX)).read_bytes()
    assert hub.files(REPO, "v1")[PREFIX + library(built)].large
    # One commit for each branch, beside the one that the Hub made.
    assert [commit.title for commit in hub.log(REPO, "v1")] == ["Publish answer to v1", "initial commit"]
    assert [commit.title for commit in hub.log(REPO, "main")] == ["Publish answer to main", "initial commit"]
    commit = built.metadata("answer")["provenance"]["kernel"]["commit"]
    assert f"{VARIANT}: from commit {commit}" in hub.log(REPO, "v1")[0].description
    readme = hub.files(REPO, "main")["README.md"].content.decode()
    assert f"| `{VARIANT}` | tvm-ffi 0.1 | CPU | x86_64-linux |" in readme
    assert f'get_kernel("{REPO}", version=1)' in readme


def test_all_requests_are_about_repositories_of_kernels(built: Yard, hub: Hub, publish: Publish) -> None:
    publish(built)
    assert hub.asked(r"/api/(models|datasets|spaces)/") == []


def test_a_second_run_writes_nothing(built: Yard, hub: Hub, publish: Publish) -> None:
    publish(built)
    hub.requests.clear()
    done = publish(built)
    assert (done.row.status, hub.writes) == ("no_changes", [])
    # The heads of the branches, and the trees of two of them.
    assert len(hub.requests) == 3


def test_times_and_another_machine_change_nothing(built: Yard, built_once: Yard, hub: Hub, publish: Publish) -> None:
    publish(built)
    for path in built.root.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(1, 1))
    hub.requests.clear()
    assert publish(built).row.status == "no_changes"
    assert publish(built_once).row.status == "no_changes"
    assert hub.writes == []


def test_other_bytes_of_the_same_inputs_are_no_change(built: Yard, hub: Hub, publish: Publish) -> None:
    publish(built)
    digest = built.metadata("answer")["kernelyard"]["digest"]

    def same_inputs(metadata: dict[str, Any]) -> None:
        metadata["kernelyard"]["digest"] = digest

    rewrite(built, files={library(built): b"as a compiler might make it today"}, edit=same_inputs)
    hub.requests.clear()
    done = publish(built)
    assert (done.row.status, done.row.message, hub.writes) == ("no_changes", None, [])


def test_only_what_changed_is_sent(built: Yard, hub: Hub, publish: Publish) -> None:
    publish(built)
    rewrite(built, files={"data.json": b'{"unit": "m"}', "new.json": b"{}"})
    dry = publish(built, dry_run=True)
    assert dry.row.status == "planned"
    done = publish(built)
    (branch,) = done.row.branches
    assert branch.added == (PREFIX + "new.json",)
    assert branch.replaced == (PREFIX + "data.json", PREFIX + "metadata.json")
    assert branch.deleted == ()
    assert branch.reasons == (f"{VARIANT}: changed sources, flags or templates",)
    assert branch.size == sum(len(hub.files(REPO, "v1")[path].content) for path in branch.added + branch.replaced)
    # The dry run said just that.
    assert [(told.branch, told.added, told.replaced, told.size) for told in dry.row.branches] == [
        (branch.branch, branch.added, branch.replaced, branch.size)
    ]


def test_a_dry_run_writes_nothing_and_needs_no_token(
    built: Yard, hub: Hub, publish: Publish, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    monkeypatch.setattr("huggingface_hub.constants.HF_STORED_TOKENS_PATH", str(tmp_path / "none too"))
    done = publish(built, dry_run=True)
    assert (done.row.status, hub.writes, hub.repositories) == ("planned", [], {})
    assert f"  + {PREFIX}metadata.json\n" in done.text
    assert f"would publish answer to {REPO}, branch v1: 5 added" in done.text
    with pytest.raises(PublishError, match="there is no token"):
        publish(built)


def test_stale_files_go_only_from_the_replaced_variant(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.create(REPO)
    theirs = {
        "build/torch-cuda/metadata.json": b"{}",
        "build/torch-cuda/deep/file.py": b"",
        f"{PREFIX}metadata.json": b"{}",
        f"{PREFIX}old/deep/file.py": b"",
        "benchmarks/benchmark_old.py": b"",
        "benchmarks/data/benchmark.py": b"",
        "notes.txt": b"",
    }
    hub.put(REPO, "v1", theirs)
    done = publish(built)
    assert done.row.branches[0].deleted == ("benchmarks/benchmark_old.py", f"{PREFIX}old/deep/file.py")
    assert done.row.branches[0].reasons == (f"{VARIANT}: made by another builder", "benchmarks: changed")
    assert hub.paths(REPO, "v1") == {PREFIX + name for name in ARTIFACT | {library(built)}} | {
        "build/torch-cuda/metadata.json",
        "build/torch-cuda/deep/file.py",
        "benchmarks/data/benchmark.py",
        "notes.txt",
    }
    # The card tells of all variants that are there.
    assert "| `torch-cuda` | torch | CUDA | any |" in hub.files(REPO, "main")["README.md"].content.decode()


@pytest.mark.parametrize("since", ["main has variants", "main never had any"])
def test_a_new_branch_never_shows_variants_of_an_old_version(
    built: Yard, hub: Hub, publish: Publish, since: str
) -> None:
    hub.create(REPO)
    if since == "main has variants":
        hub.put(REPO, "main", {"build/torch-cpu/metadata.json": b"{}"})
    publish(built)
    for commit in hub.log(REPO, "v1"):
        assert not [path for path in commit.files if path.startswith("build/torch-cpu")]


def test_a_new_branch_that_could_only_inherit_is_refused(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.create(REPO)
    hub.repositories[REPO].branches.clear()
    hub.put(REPO, "main", {"build/torch-cpu/metadata.json": b"{}"})
    row = publish(built).row
    assert row.status == "failed"
    assert "make the branch v1 without a build/ folder by hand" in (row.message or "")
    assert set(hub.repositories[REPO].branches) == {"main"}


def test_a_gitignore_at_the_destination_drops_nothing(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.create(REPO)
    hub.put(REPO, "main", {".gitignore": b".so\nbuild\n"})
    hub.put(REPO, "v1", {".gitignore": b".so\nbuild\n"})
    publish(built)
    assert hub.paths(REPO, "v1") == {PREFIX + name for name in ARTIFACT | {library(built)}} | {".gitignore"}


def test_a_tree_of_many_pages_is_read_to_its_end(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.page_size = 2
    publish(built)
    hub.requests.clear()
    assert (publish(built).row.status, hub.writes) == ("no_changes", [])


def test_a_damaged_variant_at_the_destination_is_mended(built: Yard, hub: Hub, publish: Publish) -> None:
    publish(built)
    hub.put(REPO, "v1", {PREFIX + "data.json": b"broken", PREFIX + "extra.py": b""}, deletes=(PREFIX + "_ops.py",))
    done = publish(built)
    (branch,) = done.row.branches
    assert branch.reasons == (f"{VARIANT}: damaged at the destination",)
    assert (branch.added, branch.replaced, branch.deleted) == (
        (PREFIX + "_ops.py",),
        (PREFIX + "data.json",),
        (PREFIX + "extra.py",),
    )
    assert publish(built).row.status == "no_changes"


def test_a_repository_without_main_is_said_to_be_one(built: Yard, hub: Hub, publish: Publish) -> None:
    publish(built)
    del hub.repositories[REPO].branches["main"]
    row = publish(built).row
    assert (row.status, row.message) == (
        "failed",
        f"{REPO}: has no branch main; make it by hand, or remove the repository",
    )


def test_benchmarks_go_to_the_version_branch_and_the_card_is_rendered(built: Yard, hub: Hub, publish: Publish) -> None:
    folder = built.root / "kernels" / "answer"
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "benchmark.py").write_text("x = 1\n")
    (folder / "benchmarks" / "notes.txt").write_text("not for the Hub\n")
    (folder / "CARD.md").write_text(
        "# {{ repo_id }} {{ version }}{% if has_benchmark %} fast{% endif %} {{ license }}\n"
    )
    publish(built, allow_dirty=True)
    assert "benchmarks/benchmark.py" in hub.paths(REPO, "v1")
    assert "benchmarks/notes.txt" not in hub.paths(REPO, "v1")
    assert hub.files(REPO, "main")["README.md"].content.decode().startswith(f"# {REPO} 1 fast apache-2.0\n")
    (folder / "benchmarks" / "benchmark.py").unlink()
    publish(built, allow_dirty=True)
    assert "benchmarks/benchmark.py" not in hub.paths(REPO, "v1")


def test_a_card_that_cannot_be_rendered_is_named(built: Yard, hub: Hub, publish: Publish) -> None:
    (built.root / "kernels" / "answer" / "CARD.md").write_text("one\n{{ colour }}\n")
    row = publish(built, allow_dirty=True).row
    assert row.status == "refused"
    assert (row.message or "").startswith("kernels/answer/CARD.md: 'colour' is undefined; a card may use functions, ")
    assert not hub.asked("/commit/")


def test_main_keeps_the_card_of_a_newer_version(built: Yard, hub: Hub, publish: Publish) -> None:
    hub.create(REPO)
    hub.put(REPO, "v2", {"build/torch-cpu/metadata.json": b"{}"})
    hub.put(REPO, "main", {"README.md": b"about version 2"})
    publish(built)
    assert hub.files(REPO, "main")["README.md"].content == b"about version 2"
    assert publish(built).row.status == "no_changes"


def test_a_branch_of_ones_own_and_main_itself(built: Yard, hub: Hub, publish: Publish) -> None:
    toml = built.root / "kernels" / "answer" / "build.toml"
    toml.write_text(toml.read_text().replace("[general.hub]", '[general.hub]\nbranch = "main"'))
    done = publish(built, allow_dirty=True)
    assert [branch.branch for branch in done.row.branches] == ["main"]
    assert hub.paths(REPO, "main") == {PREFIX + name for name in ARTIFACT | {library(built)}} | {"README.md"}
    assert len(hub.log(REPO, "main")) == 2
    assert publish(built, allow_dirty=True).row.status == "no_changes"


def test_the_same_file_in_two_kernels_is_sent_once(built: Yard, hub: Hub, publish: Publish) -> None:
    rows = publish(built, "answer", "twin").rows
    assert [(row.kernel, row.status) for row in rows] == [("answer", "uploaded"), ("twin", "uploaded")]
    assert len(hub.asked("^PUT ")) == 1
    assert PREFIX + library(built) in hub.paths(OTHER_REPO, "v1")


def test_the_same_content_under_two_names_is_sent_once(built: Yard, hub: Hub, publish: Publish) -> None:
    rewrite(built, files={"a.so": b"same", "b.so": b"same"})
    publish(built)
    assert len(hub.asked("^PUT ")) == 2
    assert hub.files(REPO, "v1")[PREFIX + "a.so"] == hub.files(REPO, "v1")[PREFIX + "b.so"]


def test_a_staging_organisation_and_a_private_repository(built: Yard, hub: Hub, publish: Publish) -> None:
    row = publish(built, repo_prefix="staging", private=True).row
    assert (row.repo_id, set(hub.repositories)) == ("staging/answer", {"staging/answer"})
    assert hub.repositories["staging/answer"].private
    assert 'get_kernel("staging/answer"' in hub.files("staging/answer", "main")["README.md"].content.decode()
    assert publish(built, repo_prefix="staging/try-").row.repo_id == "staging/try-answer"
    hub.requests.clear()
    assert publish(built, repo_prefix="staging").row.status == "no_changes"
    assert publish(built, repo_prefix="a/b/").row.message == (
        "--repo-prefix a/b/: makes it 'a/b/answer'; use 'owner', or 'owner/start-'"
    )


def test_500_files_are_one_commit(built: Yard, hub: Hub, publish: Publish) -> None:
    rewrite(built, files={f"data/{number}.json": f"{number}".encode() for number in range(500)})
    publish(built)
    assert len(hub.paths(REPO, "v1")) == 505
    assert len(hub.asked(r"^POST \S+/commit/v1")) == 1


def test_where_a_limit_forces_more_commits_no_half_variant_looks_whole(
    built: Yard, hub: Hub, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(built)
    before = hub.files(REPO, "v1")
    monkeypatch.setattr("buildlib.publish.plan.batches.__defaults__", (3, 1 << 20))
    rewrite(built, files={"data.json": b"1", **{f"{number}.json": b"{}" for number in range(7)}})
    publish(built)
    commits = [commit for commit in hub.log(REPO, "v1") if commit.files != before][:-1]
    assert len(commits) == 4
    assert [PREFIX + "metadata.json" in commit.files for commit in commits] == [True, False, False, False]
    assert json.loads(commits[0].files[PREFIX + "metadata.json"].content) == built.metadata("answer")


def test_a_signature_that_came_later_is_added_and_an_old_one_goes(built: Yard, hub: Hub, publish: Publish) -> None:
    publish(built)
    (built.artifact("answer") / "metadata.json.sigstore").write_text("{}")
    assert publish(built).row.branches[0].reasons == (f"{VARIANT}: signed",)
    (built.artifact("answer") / "metadata.json.sigstore").unlink()
    assert publish(built).row.status == "no_changes"
    rewrite(built, files={"data.json": b"2"})
    publish(built)
    assert PREFIX + "metadata.json.sigstore" not in hub.paths(REPO, "v1")
