"""metadata.json: accepted by the client, and about this kernel and this variant."""

from __future__ import annotations

from collections.abc import Iterator

from buildlib import variant as variants
from buildlib.check.client import metadata_problem
from buildlib.check.finding import Finding, Outcome
from buildlib.check.subject import Subject
from buildlib.package import METADATA


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield a finding where the client's own reader refuses the file, and for each key that says something else."""
    if problem := metadata_problem(subject.artifact.folder):
        yield _finding(f"the client cannot read it ({problem})")
    metadata, general = subject.artifact.metadata, subject.spec.kernel.general
    found = {
        "name": (metadata.name, general.name),
        "version": (metadata.version, general.version),
        "backend.type": (metadata.backend.type, str(variants.backend(subject.spec.variant))),
    }
    for key, (said, wanted) in found.items():
        if said != wanted:
            yield _finding(f"{key} is {said}, and not {wanted}")


def _finding(what: str) -> Finding:
    return Finding(check="metadata", where=METADATA, message=f"{what}; build the kernel again")
