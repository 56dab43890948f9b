"""Artifacts, read back by the client that they are for."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kernels._rust import Digest as ClientDigest
from kernels._rust import DigestAlgorithm, KernelVersion
from kernels._rust import Metadata as ClientMetadata

from buildlib import package
from buildlib.config.model import BackendGeneral, KernelDepend, TorchNoarch
from buildlib.files import FileCache
from buildlib.package import Artifact
from buildlib.plan import BuildSpec
from buildlib.provenance import Provenance
from buildlib.toolchain import Portability
from buildlib.variant import Backend

from .factories import HOST, kernel, noarch, plan, spec, tvm_ffi, write_files

_ID = "_relu_cpu_01234567"
_COMMIT = Provenance(commit="0123456789abcdef0123456789abcdef01234567", dirty=False)
_FILES = {"__init__.py": b"", "_ops.py": b"ops = 1\n", "layers/__init__.py": b"a", "data/a b größe.json": b"{}"}


def _package(tmp_path: Path, made: BuildSpec, files: Mapping[str, bytes] = _FILES, **more: Any) -> Artifact:
    extension = None
    if made.toolchain is not None:
        extension = write_files(tmp_path / "built", {"extension.so": b"\x7fELF"}) / "extension.so"
    arguments: dict[str, Any] = {
        "digest": "d" * 64,
        "extension_id": _ID,
        "extension": extension,
        "provenance": _COMMIT,
        "work": tmp_path / "work",
        "target": tmp_path / "artifacts" / "it",
    }
    return package.package(made, files=files, **{**arguments, **more})


def _by_client(artifact: Artifact) -> ClientMetadata:
    return ClientMetadata.read_from_file(artifact.folder / "metadata.json")


def _document(artifact: Artifact) -> dict[str, Any]:
    document = json.loads((artifact.folder / "metadata.json").read_bytes())
    assert isinstance(document, dict)
    return document


def _content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- the files ---


@pytest.mark.parametrize(
    ("made", "extension"),
    [(spec(kernel()), f"{_ID}.abi3.so"), (spec(tvm_ffi()), f"{_ID}.so"), (spec(noarch()), None)],
    ids=["torch", "tvm-ffi", "noarch"],
)
def test_files_of_an_artifact(tmp_path: Path, made: BuildSpec, extension: str | None) -> None:
    content = _content(_package(tmp_path, made).folder)
    content.pop("metadata.json")
    assert content == {**_FILES, **({extension: b"\x7fELF"} if extension else {})}


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    one = _package(tmp_path / "one", spec(kernel()))
    other = _package(tmp_path / "other", spec(kernel()), dict(reversed(_FILES.items())))
    assert _content(one.folder) == _content(other.folder)


def test_no_path_of_this_machine_is_in_an_artifact(tmp_path: Path) -> None:
    artifact = _package(tmp_path, spec(kernel()))
    assert [path for path, content in _content(artifact.folder).items() if str(tmp_path).encode() in content] == []


def test_metadata_that_is_read_is_what_was_written(tmp_path: Path) -> None:
    artifact = _package(tmp_path, spec(kernel()))
    assert package.read(artifact.folder) == artifact.metadata


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"name": "relu"}'], ids=["missing", "empty", "object", "keys"])
def test_metadata_that_is_not_understood_is_none(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        write_files(tmp_path, {"metadata.json": content})
    assert package.read(tmp_path) is None


# --- metadata.json ---


def test_the_client_reads_what_build_toml_says(tmp_path: Path) -> None:
    told = kernel(
        name="silu-and-mul",
        version=3,
        license="BSD-3-Clause",
        upstream="https://example.org/upstream.git",
        source="https://example.org/source.git",
        python_depends=("einops",),
    )
    read = _by_client(_package(tmp_path, spec(told)))
    assert {
        "id": read.id,
        "name": str(read.name),
        "version": read.version,
        "license": read.license,
        "upstream": read.upstream,
        "source": read.source,
        "python-depends": read.python_depends,
        "backend": str(read.backend.backend_type),
        "archs": read.backend.archs,
    } == {
        "id": _ID,
        "name": "silu-and-mul",
        "version": 3,
        "license": "BSD-3-Clause",
        "upstream": "https://example.org/upstream.git",
        "source": "https://example.org/source.git",
        "python-depends": ["einops"],
        "backend": "cpu",
        "archs": None,
    }


def test_what_is_not_told_is_not_written(tmp_path: Path) -> None:
    assert set(_document(_package(tmp_path, spec(noarch()), provenance=None))) == {
        "name",
        "id",
        "version",
        "license",
        "python-depends",
        "kernel-depends",
        "kernels-minver",
        "backend",
        "kernelyard",
        "provenance",
        "digest",
    }


@pytest.mark.parametrize("backend", Backend)
def test_the_client_knows_each_backend(tmp_path: Path, backend: Backend) -> None:
    read = _by_client(_package(tmp_path, spec(noarch(backends=(backend,)))))
    assert str(read.backend.backend_type) == backend


@pytest.mark.parametrize(
    ("backend", "archs"),
    [(Backend.CUDA, ["10.0", "12.1+PTX", "9.0"]), (Backend.ROCM, ["gfx90a", "gfx942"]), (Backend.CPU, None)],
)
def test_archs_of_a_package_without_an_extension(tmp_path: Path, backend: Backend, archs: list[str] | None) -> None:
    # Sorted as strings, as upstream writes them.
    framework = TorchNoarch(cuda_capabilities=("9.0", "12.1+PTX", "10.0", "9.0"), rocm_archs=("gfx942", "gfx90a"))
    made = spec(msgspec.structs.replace(noarch(backends=(backend,)), framework=framework))
    assert _by_client(_package(tmp_path, made)).backend.archs == archs


def test_the_client_reads_the_provenance(tmp_path: Path) -> None:
    dirty = Provenance(commit=_COMMIT.commit, dirty=True)
    read = _by_client(_package(tmp_path, spec(noarch()), provenance=dirty)).provenance
    assert read is not None
    assert read.kernel is not None
    assert (read.kernel.commit, read.kernel.dirty) == (_COMMIT.commit, True)
    assert read.kernel_builder.version.startswith("kernelyard ")


def test_outside_of_git_the_client_reads_no_provenance_of_the_kernel(tmp_path: Path) -> None:
    read = _by_client(_package(tmp_path, spec(noarch()), provenance=None)).provenance
    assert read is not None
    assert read.kernel is None


_DEPENDS = (KernelDepend(repo_id="org/a", version=2), KernelDepend(repo_id="org/b", revision="main"))


def test_the_client_reads_the_kernels_that_are_loaded(tmp_path: Path) -> None:
    read = _by_client(_package(tmp_path, spec(noarch(kernel_depends=_DEPENDS))))
    assert [(each.repo_id, each.version) for each in read.kernel_depends] == [
        ("org/a", KernelVersion.Version(2)),
        ("org/b", KernelVersion.Revision("main")),
    ]


def test_a_dependency_has_a_version_or_a_revision_and_no_null(tmp_path: Path) -> None:
    assert _document(_package(tmp_path, spec(noarch(kernel_depends=_DEPENDS))))["kernel-depends"] == [
        {"repo-id": "org/a", "version": 2},
        {"repo-id": "org/b", "revision": "main"},
    ]


@pytest.mark.parametrize(
    ("general", "minver"),
    [
        ({}, "0.14.0"),
        ({"python_depends": ("einops",)}, "0.14.0"),
        ({"kernel_depends": _DEPENDS}, "0.17.0"),
        ({"by_backend": {Backend.CPU: BackendGeneral(kernel_depends=_DEPENDS)}}, "0.17.0"),
        ({"by_backend": {Backend.CUDA: BackendGeneral(kernel_depends=_DEPENDS)}}, "0.14.0"),
    ],
    ids=["plain", "Python packages", "kernels", "kernels of the backend", "kernels of another backend"],
)
def test_kernels_minver(tmp_path: Path, general: dict[str, Any], minver: str) -> None:
    assert str(_by_client(_package(tmp_path, spec(noarch(**general)))).kernels_minver) == minver


def test_what_it_was_made_from_is_kept_beside_the_clients_keys(tmp_path: Path) -> None:
    assert _document(_package(tmp_path, spec(kernel())))["kernelyard"] == {
        "digest": "d" * 64,
        "toolchain": ["gcc 12.2.0 x86_64-linux-gnu", "torch 2.13.0", "python 3.11", "not portable"],
        "narrowed": ["--no-portable"],
    }


def test_what_is_linked_for_other_machines_too_is_not_narrowed(tmp_path: Path) -> None:
    portable = Portability(policy="manylinux_2_28", symbol_versions={"GLIBC": "2.28"})
    made = spec(kernel(), on=msgspec.structs.replace(HOST, portability=portable))
    assert "narrowed" not in _document(_package(tmp_path, made))["kernelyard"]


# --- the digest, and damage ---


def _by_client_again(folder: Path) -> ClientDigest:
    return ClientDigest.hash_variant(DigestAlgorithm.SHA256, folder)


@pytest.mark.parametrize("made", [spec(kernel()), spec(tvm_ffi()), spec(noarch())], ids=["torch", "tvm-ffi", "noarch"])
def test_the_digest_is_the_clients(tmp_path: Path, made: BuildSpec) -> None:
    artifact = _package(tmp_path, made)
    assert artifact.metadata.digest.files == _by_client_again(artifact.folder).files


def test_the_digest_is_the_clients_where_the_package_ships_a_metadata_json(tmp_path: Path) -> None:
    artifact = _package(tmp_path, spec(noarch()), {**_FILES, "metadata.json": b"the author's", "a/metadata.json": b""})
    assert artifact.metadata.digest.files == _by_client_again(artifact.folder).files


def _damage(artifact: Artifact) -> list[str]:
    return package.damage(artifact.folder, artifact.metadata, FileCache(artifact.folder.parent / "store"))


_HARMLESS: dict[str, dict[str, str]] = {
    "nothing": {},
    "bytecode": {"__pycache__/__init__.cpython-311.pyc": "x", "layers/__pycache__/a.pyc": "", "old.pyc": ""},
    "a signature": {"metadata.json.sigstore": "{}"},
}

_HARMFUL: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a file more": (lambda folder: write_files(folder, {"b.py": ""}), ["b.py: not in the digest"]),
    "a hidden file": (lambda folder: write_files(folder, {"layers/.b": ""}), ["layers/.b: not in the digest"]),
    "a signature of nothing": (
        lambda folder: write_files(folder, {"layers/metadata.json.sigstore": ""}),
        ["layers/metadata.json.sigstore: not in the digest"],
    ),
    "a file less": (lambda folder: (folder / "_ops.py").unlink(), ["_ops.py: missing"]),
    "an altered file": (lambda folder: write_files(folder, {"_ops.py": "ops = 2\n"}), ["_ops.py: altered"]),
    "a truncated file": (lambda folder: os.truncate(folder / f"{_ID}.abi3.so", 2), [f"{_ID}.abi3.so: altered"]),
    "several": (
        lambda folder: write_files(folder, {"z.py": "", "a.py": "", "__init__.py": "x"}),
        ["a.py: not in the digest", "z.py: not in the digest", "__init__.py: altered"],
    ),
}


@pytest.mark.parametrize("addition", _HARMLESS)
def test_what_is_no_damage(tmp_path: Path, addition: str) -> None:
    artifact = _package(tmp_path, spec(kernel()))
    write_files(artifact.folder, _HARMLESS[addition])
    # The client agrees about what counts.
    assert (_damage(artifact), _by_client_again(artifact.folder).files) == ([], artifact.metadata.digest.files)


@pytest.mark.parametrize("harm", _HARMFUL)
def test_damage(tmp_path: Path, harm: str) -> None:
    artifact = _package(tmp_path, spec(kernel()))
    do_harm, lines = _HARMFUL[harm]
    do_harm(artifact.folder)
    assert _damage(artifact) == lines
    assert _by_client_again(artifact.folder).files != artifact.metadata.digest.files


# --- replacing ---


def test_an_artifact_is_replaced_as_a_whole(tmp_path: Path) -> None:
    first = _package(tmp_path, spec(noarch()))
    write_files(first.folder, {"stale.py": "", "__pycache__/x.pyc": ""})
    second = _package(tmp_path, spec(noarch()), {"__init__.py": b"2", "_ops.py": b"2"})
    assert sorted(_content(second.folder)) == ["__init__.py", "_ops.py", "metadata.json"]


def test_nothing_is_left_beside_an_artifact(tmp_path: Path) -> None:
    for _ in range(2):
        artifact = _package(tmp_path, spec(noarch()))
    assert (os.listdir(artifact.folder.parent), os.listdir(tmp_path / "work")) == (["it"], [])


def test_leftovers_of_a_stopped_run_do_not_enter_an_artifact(tmp_path: Path) -> None:
    write_files(tmp_path / "work", {"package/half.py": "", "replaced/old.py": ""})
    assert "half.py" not in _content(_package(tmp_path, spec(noarch())).folder)


@pytest.mark.parametrize("failing", ["__init__.py", "_ops.py", "metadata.json"])
def test_the_old_artifact_stays_whole_if_the_new_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    old = _content(_package(tmp_path, spec(noarch())).folder)
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.name == failing:
            write(path, content[:1])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        _package(tmp_path, spec(noarch()), {"__init__.py": b"new", "_ops.py": b"new"})
    assert _content(tmp_path / "artifacts" / "it") == old


def test_the_old_artifact_comes_back_if_the_new_one_cannot_be_put_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = _content(_package(tmp_path, spec(noarch())).folder)
    rename = os.rename

    def refuse(source: Path, target: Path) -> None:
        if Path(source).name == "package":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(PermissionError):
        _package(tmp_path, spec(noarch()), {"__init__.py": b"new", "_ops.py": b"new"})
    assert _content(tmp_path / "artifacts" / "it") == old


def test_two_variants_have_artifacts_of_their_own(tmp_path: Path) -> None:
    specs = plan(noarch(backends=(Backend.CPU, Backend.CUDA))).specs
    made = [_package(tmp_path, each, target=tmp_path / each.name) for each in specs]
    assert [each.metadata.backend.type for each in made] == ["cpu", "cuda"]
