"""Folders among the artifacts that no spec makes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from buildlib.check import foreign
from buildlib.check.foreign import Foreign
from buildlib.errors import CheckError
from buildlib.package import Digest
from buildlib.plan import Plan
from buildlib.workspace import Workspace
from tests.unit.check.subjects import metadata
from tests.unit.factories import HOST, MATRIX, noarch, plan, row, tvm_ffi, write_files

FILES = {"__init__.py": b"", "data/table.json": b"[]"}
FOLDER = "build/kernels/relu/build/torch-cuda"
AGAIN = "build the kernel again, or remove the folder"


@pytest.fixture
def folder(workspace: Workspace) -> Path:
    """An artifact, whole, that another machine has made."""
    digests = {path: base64.b64encode(hashlib.sha256(content).digest()).decode() for path, content in FILES.items()}
    described = metadata(digest=Digest(algorithm="sha256", files=digests))
    return write_files(workspace.root / FOLDER, {**FILES, "metadata.json": msgspec.json.encode(described)})


def found(workspace: Workspace, folder: Path, skipped: str | None = "for others") -> list[str]:
    with pytest.raises(CheckError) as caught:
        foreign.check((Foreign(kernel="relu", folder=folder, skipped=skipped),), workspace)
    return str(caught.value).splitlines()


def test_a_whole_artifact_of_another_machine(workspace: Workspace, folder: Path) -> None:
    said = foreign.check((Foreign(kernel="relu", folder=folder, skipped="for others"),), workspace)
    assert said == "not built here (for others); its files are as they were built"


def test_one_that_nothing_accounts_for(workspace: Workspace, folder: Path) -> None:
    said = f"{FOLDER}: neither this machine nor, by the plan, any other makes it; remove it"
    assert found(workspace, folder, None) == [said]


def _edit(**changes: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "metadata.json"
        kept = {key: value for key, value in (json.loads(path.read_text()) | changes).items() if value is not None}
        path.write_text(json.dumps(kept))

    return edit


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file too many": (
        lambda folder: write_files(folder, {"data/a.txt": ""}),
        "data/a.txt: not in the digest",
    ),
    "a changed byte": (lambda folder: write_files(folder, {"data/table.json": "{}"}), "data/table.json: altered"),
    "a file too few": (lambda folder: (folder / "__init__.py").unlink(), "__init__.py: missing"),
    "no metadata": (lambda folder: (folder / "metadata.json").unlink(), "metadata.json: cannot be read (No such file"),
    "no JSON": (
        lambda folder: write_files(folder, {"metadata.json": "{"}),
        "metadata.json: not as this version",
    ),
    "older metadata": (
        _edit(digest=None),
        "metadata.json: not as this version writes it (Object missing required",
    ),
    "another builder's": (_edit(kernelyard=None), "metadata.json: not as this version writes it (Object missing"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_one_is_reported_with_the_file(workspace: Workspace, folder: Path, damage: str) -> None:
    apply, said = DAMAGE[damage]
    apply(folder)
    (line,) = found(workspace, folder)
    assert line.startswith(f"{FOLDER}/{said}")
    assert line.endswith(AGAIN)


def test_which_folders_are_foreign(workspace: Workspace) -> None:
    relu = noarch(folder=workspace.root / "kernels" / "relu")
    gelu = tvm_ffi(name="gelu", folder=workspace.root / "kernels" / "gelu")
    matrix = msgspec.structs.replace(MATRIX, tvm_ffi=(row("0.1"), row("0.2")))
    planned = plan(relu, gelu, matrix=matrix, on=HOST)
    folders = (
        "relu/build/torch-cpu", "relu/build/torch-cuda", "gelu/build/tvm-ffi02-cpu-x86_64-linux",
        "gone/build/torch-cpu", "gone/build/a=b", "gone/build/a:b",
    )  # fmt: skip
    for path in folders:
        (workspace.build / "kernels" / path).mkdir(parents=True)
    write_files(workspace.build / "kernels" / "gelu", {"CARD.md": "", "build/notes.txt": ""})
    named = {name: [each.skipped for each in group] for name, group in foreign.find(planned, workspace).items()}
    assert named == {
        "gelu:tvm-ffi02-cpu-x86_64-linux": ["needs tvm-ffi 0.2; this environment has 0.1.15"],
        "gone:a_b": [None, None],
        "gone:torch-cpu": [None],
        "relu:torch-cuda": [None],
    }


def test_before_the_first_build_there_are_none(workspace: Workspace) -> None:
    assert foreign.find(Plan(specs=(), skipped=(), failed=()), workspace) == {}
