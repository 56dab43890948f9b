"""Artifacts: the folder that the `kernels` client loads, and the metadata.json in it.

An artifact describes itself: metadata.json holds the digest of what it was made from and of each file in it. So an
artifact can be recognised, or found to be damaged, with nothing else at hand.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from buildlib import variant as variants
from buildlib.config.model import KernelDepend
from buildlib.digest import archs, builder_version, kernel_depends, python_depends
from buildlib.files import FileCache, listing
from buildlib.interface import Interface
from buildlib.plan import BuildSpec
from buildlib.provenance import Provenance
from buildlib.rust.nvptx_toolchain import Nvptx

METADATA = "metadata.json"
SIGNATURE = f"{METADATA}.sigstore"
# What the client's digest leaves out beside bytecode.
_UNDIGESTED = frozenset({METADATA, SIGNATURE})
# The oldest client that understands an artifact, without and with dependencies on other kernels.
_MINVER, _MINVER_KERNEL_DEPENDS = "0.14.0", "0.17.0"


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    pass


class BackendInfo(_Section, frozen=True, kw_only=True):
    type: str
    archs: tuple[str, ...] | None = None


class Builder(_Section, frozen=True, kw_only=True):
    version: str


class ProvenanceInfo(_Section, frozen=True, kw_only=True):
    kernel_builder: Builder
    kernel: Provenance | None = None


class Digest(_Section, frozen=True, kw_only=True):
    """The content of the artifact: standard base64 of SHA-256 by path."""

    algorithm: str
    files: dict[str, str]


class Origin(_Section, frozen=True, kw_only=True):
    """What the artifact was made from, and what it offers; for this builder, other readers pass over it."""

    digest: str
    toolchain: tuple[str, ...] | None = None
    # What is not as in a published build: a developer's flag that left something out, such as all capabilities but one,
    # or another rustc.
    narrowed: tuple[str, ...] = ()
    interface: Interface | None = None


class Metadata(_Section, frozen=True, kw_only=True):
    """metadata.json, with the keys that client 0.17 reads and `kernelyard` beside them."""

    name: str
    id: str
    version: int
    license: str
    upstream: str | None = None
    source: str | None = None
    # Never omitted: the client's reader requires the first and older ones write the second.
    python_depends: list[str]
    kernel_depends: list[KernelDepend]
    kernels_minver: str
    backend: BackendInfo
    kernelyard: Origin
    provenance: ProvenanceInfo
    digest: Digest


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A finished artifact: its folder and what its metadata.json says."""

    folder: Path
    metadata: Metadata


def read(folder: Path) -> Metadata | None:
    """The metadata of an artifact, or None where there is none that can be understood."""
    try:
        return msgspec.json.decode((folder / METADATA).read_bytes(), type=Metadata)
    except (OSError, msgspec.DecodeError):
        return None


def damage(folder: Path, metadata: Metadata, cache: FileCache) -> list[str]:
    """How an artifact's files differ from its own digest, a line each; empty for an intact one."""
    present = set(listing(folder, hidden=True)) - _UNDIGESTED
    expected = metadata.digest.files
    problems = [f"{path}: not in the digest" for path in sorted(present - expected.keys())]
    for path, sha256 in sorted(expected.items()):
        info = cache.get(f"{folder}/{path}")
        if info is None:
            problems.append(f"{path}: missing")
        elif _base64(bytes.fromhex(info.sha256)) != sha256:
            problems.append(f"{path}: altered")
    return problems


def package(  # noqa: PLR0913 - all that is known about an artifact
    spec: BuildSpec,
    *,
    digest: str,
    extension_id: str,
    files: Mapping[str, bytes],
    extension: Path | None,
    provenance: Provenance | None,
    work: Path,
    target: Path,
    interface: Interface | None = None,
) -> Artifact:
    """Make the artifact of a spec at `target`, replacing what is there as one step.

    `files` is the content of the Python package by path; `extension` the linked library; `work` a folder on the same
    file system as `target`.
    """
    contents = dict(files)
    if extension is not None:
        suffix = ".so" if isinstance(spec.variant, variants.TvmFfiVariant) else ".abi3.so"
        contents[extension_id + suffix] = extension.read_bytes()
    metadata = Metadata(
        name=spec.kernel.general.name,
        id=extension_id,
        version=spec.kernel.general.version,
        license=spec.kernel.general.license,
        upstream=spec.kernel.general.upstream,
        source=spec.kernel.general.source,
        python_depends=python_depends(spec),
        kernel_depends=kernel_depends(spec),
        kernels_minver=_MINVER_KERNEL_DEPENDS if kernel_depends(spec) else _MINVER,
        backend=BackendInfo(type=variants.backend(spec.variant), archs=archs(spec) or None),
        kernelyard=Origin(
            digest=digest,
            toolchain=spec.toolchain.identity if spec.toolchain else None,
            narrowed=tuple(_narrowed(spec)),
            interface=interface,
        ),
        provenance=ProvenanceInfo(kernel_builder=Builder(version=f"kernelyard {builder_version()}"), kernel=provenance),
        digest=Digest(
            algorithm="sha256",
            files={
                path: _base64(hashlib.sha256(contents[path]).digest()) for path in sorted(contents.keys() - _UNDIGESTED)
            },
        ),
    )
    fresh = work / "package"
    shutil.rmtree(fresh, ignore_errors=True)
    for path, content in contents.items():
        _write(fresh / path, content)
    _write(fresh / METADATA, msgspec.json.format(msgspec.json.encode(metadata)) + b"\n")
    _swap(fresh, target, work / "replaced")
    return Artifact(folder=target, metadata=metadata)


def _narrowed(spec: BuildSpec) -> Iterator[str]:
    """How the artifact is less than what is published, in the words of the option that made it so."""
    if spec.narrowed:
        yield f"--cuda-capabilities {','.join(spec.narrowed)}"
    toolchain = spec.toolchain
    if toolchain is None:
        return
    if toolchain.portability is None:
        yield "--no-portable"
    if toolchain.rust is not None and toolchain.rust.instead_of is not None:
        yield f"rustc {toolchain.rust.version} instead of {toolchain.rust.instead_of}"
    for compiler in toolchain.dsls.values():
        if isinstance(compiler, Nvptx) and compiler.instead_of is not None:
            yield f"rustc {compiler.version} for device code instead of {compiler.instead_of}"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _swap(fresh: Path, target: Path, aside: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(aside, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.rename(target, aside)
    try:
        os.rename(fresh, target)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.rename(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")
