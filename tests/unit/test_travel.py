"""Artifacts on their way between machines: what is packed, and what is refused on arrival."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from buildlib import package, travel
from buildlib import plan as planning
from buildlib import variant as variants
from buildlib.environment import Settings
from buildlib.errors import CheckError
from buildlib.package import BackendInfo, Builder, Digest, Metadata, Origin, ProvenanceInfo
from buildlib.plan import BuildSpec, Failed, Plan
from buildlib.rows import Row, Status
from buildlib.workspace import Workspace

from .factories import HOST, MATRIX, kernel, write_files

_VARIANT = "torch213-cxx11-cpu-x86_64-linux"
_FILES = {"__init__.py": b"from ._ops import ops\n", "lib/_relu.abi3.so": b"\x7fELF", ".hidden": b"h"}


def _artifact(workspace: Workspace, kernel: str, *, digest: str = "d1") -> Path:
    folder = workspace.build / "kernels" / kernel / "build" / _VARIANT
    hashes = {path: base64.b64encode(hashlib.sha256(text).digest()).decode() for path, text in _FILES.items()}
    metadata = Metadata(
        name=kernel,
        id="_relu",
        version=1,
        license="MIT",
        python_depends=[],
        kernel_depends=[],
        kernels_minver="0.14.0",
        backend=BackendInfo(type="cpu"),
        kernelyard=Origin(digest=digest),
        provenance=ProvenanceInfo(kernel_builder=Builder(version="kernelyard 1")),
        digest=Digest(algorithm="sha256", files=hashes),
    )
    write_files(folder, {**_FILES, package.METADATA: msgspec.json.encode(metadata)})
    write_files(workspace.build / "reports" / kernel / _VARIANT, {"check.json": b"{}"})
    return folder


def _row(kernel: str, digest: str | None = "d1", status: Status = Status.BUILD) -> Row:
    return Row(
        kernel=kernel,
        variant=_VARIANT,
        backend="cpu",
        framework="torch",
        status=status,
        reason="kernels/x: no",
        digest=digest,
    )


@pytest.fixture
def packed(workspace: Workspace) -> Path:
    """A packed file with the artifacts of two kernels."""
    for name in ("relu", "gelu"):
        _artifact(workspace, name)
    workspace.times.record(f"relu:{_VARIANT}", 12.5)
    file = workspace.root / "packed.tar"
    travel.pack([_row("relu"), _row("gelu"), _row("skipped", status=Status.SKIP)], file, workspace)
    return file


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Workspace]:
    """Another machine's checkout."""
    opened = Workspace(tmp_path / "other", Settings(cache=tmp_path / "cache", max_jobs=1))
    opened.build.mkdir(parents=True)
    yield opened
    opened.close()


def _places(workspace: Workspace) -> dict[str, bytes]:
    found = (path for kind in ("kernels", "reports") for path in (workspace.build / kind).rglob("*") if path.is_file())
    return {str(path.relative_to(workspace.build)): path.read_bytes() for path in found}


def test_what_arrives_is_what_left(packed: Path, workspace: Workspace, other: Workspace) -> None:
    found = travel.unpack([packed], None, other)
    assert sorted(each.name for each in found) == [f"gelu:{_VARIANT}", f"relu:{_VARIANT}"]
    assert _places(other) == _places(workspace) != {}
    assert other.times.seconds == {f"relu:{_VARIANT}": 12.5}


def test_the_same_artifacts_give_the_same_bytes(packed: Path, workspace: Workspace) -> None:
    before = packed.read_bytes()
    travel.pack([_row("relu"), _row("gelu")], packed, workspace)
    assert packed.read_bytes() == before


def test_a_folder_stands_for_the_packed_files_in_it(packed: Path, other: Workspace) -> None:
    assert len(travel.unpack([packed.parent], [_row("relu"), _row("gelu")], other)) == 2


def test_a_folder_without_packed_files_is_no_success(other: Workspace, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckError, match="empty: no file of 'doit pack' is there; hand one over"):
        travel.unpack([tmp_path / "empty"], None, other)
    # A plan without rows wants nothing.
    assert travel.unpack([tmp_path / "empty"], [], other) == []


def test_only_what_is_wanted_is_unpacked(packed: Path, other: Workspace) -> None:
    travel.unpack([packed], [_row("relu"), _row("gone", status=Status.DELETED)], other)
    assert {path.name for path in (other.build / "kernels").iterdir()} == {"relu"}


def test_unpacking_replaces_what_was_there(packed: Path, other: Workspace) -> None:
    write_files(other.build / "kernels/relu/build" / _VARIANT, {"stale.py": b""})
    travel.unpack([packed], None, other)
    assert not (other.build / "kernels/relu/build" / _VARIANT / "stale.py").exists()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (_row("silu"), f"silu:{_VARIANT}: its artifact did not come"),
        (_row("relu", "d2"), f"relu:{_VARIANT}: its artifact is made from other sources"),
        (_row("bad", status=Status.ERROR), f"bad:{_VARIANT}: was not built: kernels/x: no"),
    ],
)
def test_what_is_wanted_must_come(packed: Path, other: Workspace, row: Row, message: str) -> None:
    with pytest.raises(CheckError, match=message):
        travel.unpack([packed], [_row("gelu"), row], other)
    assert _places(other) == {}


def _rewritten(file: Path, change: Callable[[str, bytes], tuple[str, bytes] | None]) -> None:
    """Write a packed file anew, with a function applied to the name and the content of each member."""
    with tarfile.open(file) as archive:
        members = [(member.name, archive.extractfile(member)) for member in archive]
        contents = [(name, content.read()) for name, content in members if content]
    with tarfile.open(file, "w") as archive:
        for changed in (change(name, content) for name, content in contents):
            if changed:
                member = tarfile.TarInfo(changed[0])
                member.size = len(changed[1])
                archive.addfile(member, io.BytesIO(changed[1]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda name, content: (name, content + b"!" * name.endswith("_relu.abi3.so")), "_relu.abi3.so: altered"),
        (lambda name, content: None if name.endswith("__init__.py") else (name, content), "__init__.py: missing"),
        (lambda name, content: (name, content.replace(b'"license":"MIT"', b'"license":"GPL"')), "metadata.json was a"),
        (lambda name, content: None if name.endswith("metadata.json") else (name, content), "metadata.json is missing"),
        (lambda name, content: None if name == "packed.json" else (name, content), "not a whole file of 'doit pack'"),
        (lambda name, content: (name, content.replace(b'"d1"', b'"d9"')), "metadata.json was altered"),
        (lambda name, content: (name, content.replace(b'"relu"', b'"../relu"')), "is no name of an artifact"),
        (lambda name, content: (f"../{name}", content), "is not a file within it"),
        (lambda name, content: (f"/{name}", content), "is not a file within it"),
    ],
)
def test_what_was_altered_is_refused_and_nothing_unpacked(
    packed: Path, other: Workspace, change: Callable[[str, bytes], tuple[str, bytes] | None], message: str
) -> None:
    _rewritten(packed, change)
    with pytest.raises(CheckError, match=message):
        travel.unpack([packed], None, other)
    assert _places(other) == {}
    assert not any((other.root.parent / name).exists() for name in ("packed.json", "artifacts"))


def test_a_link_is_refused(packed: Path, other: Workspace) -> None:
    with tarfile.open(packed, "a") as archive:
        link = tarfile.TarInfo("artifacts/relu/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(CheckError, match="is not a file within it"):
        travel.unpack([packed], None, other)


@pytest.mark.parametrize("kept", [0, 100, 2000])
def test_a_file_that_is_cut_short_is_refused(packed: Path, other: Workspace, kept: int) -> None:
    packed.write_bytes(packed.read_bytes()[:kept])
    with pytest.raises(CheckError, match="not a whole file of 'doit pack'"):
        travel.unpack([packed], None, other)


def test_two_files_that_disagree_are_refused(packed: Path, workspace: Workspace, other: Workspace) -> None:
    _artifact(workspace, "relu", digest="d2")
    second = packed.with_name("second.tar")
    travel.pack([_row("relu", "d2")], second, workspace)
    with pytest.raises(CheckError, match=f"second.tar: holds another relu:{_VARIANT}"):
        travel.unpack([packed, second], None, other)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda folder: (folder / "__init__.py").write_text("x"), "__init__.py: altered"),
        (lambda folder: (folder / "more.py").write_text("x"), "more.py: not in the digest"),
        (lambda folder: (folder / package.METADATA).unlink(), f"the artifact of relu:{_VARIANT} is missing"),
        (lambda folder: _artifact(_of(folder), "relu", digest="d2"), "made from other sources"),
    ],
)
def test_only_what_the_row_says_is_packed(
    workspace: Workspace, edit: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    edit(_artifact(workspace, "relu"))
    with pytest.raises(CheckError, match=message):
        travel.pack([_row("relu")], tmp_path / "x.tar", workspace)
    assert not (tmp_path / "x.tar").exists()


def _of(folder: Path) -> Workspace:
    return Workspace(folder.parents[4], Settings(cache=folder))


# --- a machine that builds nothing ---


def _built(workspace: Workspace, planned: Plan) -> Plan:
    return travel.built(planned, [kernel(folder=workspace.root / "kernels/relu")], workspace)


def test_without_a_compiler_what_is_there_can_be_tested(workspace: Workspace) -> None:
    _artifact(workspace, "relu")
    relu = kernel(folder=workspace.root / "kernels/relu")
    no_compiler = msgspec.structs.replace(HOST, compiler="there is no compiler")
    planned = planning.plan([relu], (), MATRIX, no_compiler)
    assert [planning.name(entry) for entry in planned.failed] == [f"relu:{_VARIANT}"]
    (spec,) = _built(workspace, planned).specs
    assert isinstance(spec, BuildSpec)
    assert (spec.name, variants.name(spec.variant)) == (f"relu:{_VARIANT}", _VARIANT)
    travel.verify(spec, workspace)


def test_what_is_not_there_is_skipped_and_what_does_not_load_fails(workspace: Workspace) -> None:
    relu = kernel(folder=workspace.root / "kernels/relu")
    planned = planning.plan([relu], (Failed(kernel="bad", message="no"),), MATRIX, HOST)
    built = _built(workspace, planned)
    assert built.specs == ()
    assert [(each.kernel, each.reason) for each in built.skipped] == [("relu", "no artifact here to take as built")]
    assert [each.kernel for each in built.failed] == ["bad"]


def test_verifying_names_what_is_damaged(workspace: Workspace) -> None:
    folder = _artifact(workspace, "relu")
    relu = kernel(folder=workspace.root / "kernels/relu")
    (spec,) = _built(workspace, planning.plan([relu], (), MATRIX, HOST)).specs
    (folder / "__init__.py").write_text("altered")
    with pytest.raises(CheckError, match=r"__init__\.py: altered; build relu:.* again, or hand it over anew"):
        travel.verify(spec, workspace)
