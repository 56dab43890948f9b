"""The files of an artifact: those that the client needs, and none that metadata.json does not know."""

from __future__ import annotations

from collections.abc import Iterator

from buildlib import package
from buildlib import variant as variants
from buildlib.check.finding import Finding
from buildlib.files import FileCache
from buildlib.package import Artifact
from buildlib.plan import BuildSpec
from buildlib.variant import TvmFfiVariant


def check(spec: BuildSpec, artifact: Artifact, cache: FileCache) -> Iterator[Finding]:
    """Yield a finding for each missing, altered or unknown file, and for metadata of another kernel or variant."""
    for problem in package.damage(artifact.folder, artifact.metadata, cache):
        where, _, what = problem.partition(": ")
        yield _finding(where, f"{what}; build the kernel again")
    metadata = artifact.metadata
    for path in ("__init__.py", "_ops.py", *_extension(spec, metadata.id)):
        if path not in metadata.digest.files:
            yield _finding(path, "missing, and the client cannot load the kernel without it; build the kernel again")
    module = spec.kernel.general.module
    if f"{module}/__init__.py" in metadata.digest.files:
        yield _finding(
            module, "a package of the kernel's own name inside it; the client would load that one. Rename it"
        )
    expected = (spec.kernel.general.name, spec.kernel.general.version, str(variants.backend(spec.variant)))
    if (metadata.name, metadata.version, metadata.backend.type) != expected:
        yield _finding(package.METADATA, f"describes {metadata.name} {metadata.version}; build the kernel again")


def _extension(spec: BuildSpec, extension_id: str) -> tuple[str, ...]:
    if spec.toolchain is None:
        return ()
    return (extension_id + (".so" if isinstance(spec.variant, TvmFfiVariant) else ".abi3.so"),)


def _finding(where: str, message: str) -> Finding:
    return Finding(check="layout", where=where, message=message)
