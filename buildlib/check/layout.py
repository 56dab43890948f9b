"""The files of an artifact: those that the client needs to load it, where it looks for them."""

from __future__ import annotations

from collections.abc import Iterator

from buildlib.check.finding import Finding, Outcome
from buildlib.check.subject import Subject
from buildlib.plan import BuildSpec
from buildlib.variant import TvmFfiVariant


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield a finding for each file that is missing, and for a package that would be loaded in place of the kernel."""
    files = subject.artifact.metadata.digest.files
    library = extension(subject.spec, subject.artifact.metadata.id)
    for path in ("__init__.py", "_ops.py", *([library] if library else [])):
        if path not in files:
            yield _finding(path, "missing, and the client cannot load the kernel without it; build the kernel again")
    module = subject.spec.kernel.general.module
    if f"{module}/__init__.py" in files:
        yield _finding(
            module, "a package of the kernel's own name inside it; the client would load that one. Rename it"
        )


def extension(spec: BuildSpec, extension_id: str) -> str | None:
    """The name of the library that an artifact is loaded by, or None where nothing is compiled."""
    if spec.toolchain is None:
        return None
    return extension_id + (".so" if isinstance(spec.variant, TvmFfiVariant) else ".abi3.so")


def _finding(where: str, message: str) -> Finding:
    return Finding(check="layout", where=where, message=message)
