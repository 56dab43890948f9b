"""A folder as the destination."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from buildlib.errors import PublishError
from buildlib.publish.content import local
from buildlib.publish.destination import Commit, Moved
from buildlib.publish.folder import Folder
from tests.integration.conftest import Yard
from tests.integration.publish.conftest import REPO, VARIANT, Publish, rewrite

TO = "file:dist/hub"


def snapshot(yard: Yard, branch: str = "v1") -> Path:
    repository = yard.root / "dist" / "hub" / "kernels--kernelyard-test--answer"
    return repository / "snapshots" / (repository / "refs" / branch).read_text()


def test_it_is_laid_out_as_the_clients_cache(built: Yard, publish: Publish) -> None:
    row = publish(built, to=TO).row
    assert (row.status, row.url) == ("uploaded", snapshot(built).as_uri())
    assert len(snapshot(built).name) == 40
    assert (snapshot(built, "main") / "README.md").is_file()
    published = snapshot(built) / "build" / VARIANT
    assert {path.name for path in published.iterdir()} == {path.name for path in built.artifact("answer").iterdir()}


def test_a_second_run_changes_no_file(built: Yard, publish: Publish) -> None:
    publish(built, to=TO)
    before = {path: path.stat().st_mtime_ns for path in (built.root / "dist").rglob("*")}
    assert publish(built, to=TO).row.status == "no_changes"
    assert {path: path.stat().st_mtime_ns for path in (built.root / "dist").rglob("*")} == before


def test_an_update_keeps_other_variants_and_the_snapshot_before(built: Yard, publish: Publish) -> None:
    publish(built, to=TO)
    first = snapshot(built)
    folder = Folder(built.root / "dist" / "hub", TO)
    head = (folder.heads(REPO) or {})["v1"]
    other = {"build/torch-cuda/metadata.json": local(b"{}")}
    folder.commit(Commit(repo_id=REPO, branch="v1", parent=head, title="", description="", adds=other, deletes=[]))
    second = snapshot(built)
    rewrite(built, files={"data.json": b"2", "new.py": b""})
    publish(built, to=TO)
    now = snapshot(built)
    assert (now / "build" / "torch-cuda" / "metadata.json").is_file()
    assert (now / "build" / VARIANT / "data.json").read_bytes() == b"2"
    # Who had begun to load goes on; what nobody can have begun is gone.
    assert (second.is_dir(), first.exists()) == (True, False)
    assert (second / "build" / VARIANT / "data.json").read_bytes() != b"2"
    # Files that are the same are not stored twice.
    assert os.path.samefile(now / "build" / VARIANT / "_ops.py", second / "build" / VARIANT / "_ops.py")


def test_whoever_comes_late_reads_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "hub", TO)
    commit = Commit(
        repo_id=REPO, branch="v1", parent=None, title="", description="", adds={"a": local(b"a")}, deletes=[]
    )
    folder.commit(commit)
    with pytest.raises(Moved):
        folder.commit(commit)


def test_what_a_killed_run_left_is_no_obstacle(built: Yard, publish: Publish) -> None:
    stray = built.root / "dist" / "hub" / "kernels--kernelyard-test--answer" / "tmp" / "build"
    stray.mkdir(parents=True)
    (stray / "stray.py").write_text("")
    assert publish(built, to=TO).row.status == "uploaded"
    assert not list((built.root / "dist").rglob("stray.py"))


@pytest.mark.parametrize("option", ["create_pr", "private"])
def test_what_only_the_hub_can_do(built: Yard, publish: Publish, option: str) -> None:
    with pytest.raises(PublishError, match="is for the Hub"):
        publish(built, to=TO, **{option: True})


@pytest.mark.parametrize("to", ["ftp:x", "file:", "dist/hub", ""])
def test_no_destination(built: Yard, publish: Publish, to: str) -> None:
    with pytest.raises(PublishError, match=r"not a destination; use 'hub', or 'file:FOLDER'"):
        publish(built, to=to)


def test_a_snapshot_that_somebody_removed_is_made_again(built: Yard, publish: Publish) -> None:
    publish(built, to=TO)
    shutil.rmtree(snapshot(built))
    assert publish(built, to=TO).row.status == "uploaded"
    assert (snapshot(built) / "build" / VARIANT / "metadata.json").is_file()


def test_where_there_can_be_no_folder_is_said(built: Yard, publish: Publish) -> None:
    (built.root / "build" / "file").write_text("")
    row = publish(built, to="file:build/file").row
    assert row.status == "refused"
    assert f"--to file:build/file: {built.root}/build/file/" in str(row.message)
    assert str(row.message).endswith(": Not a directory; make room, give access, or name another folder")
