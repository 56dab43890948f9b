"""The digest in metadata.json: every file of the artifact, as it is, and no other."""

from __future__ import annotations

from collections.abc import Iterator

from buildlib.check.client import digest_problem
from buildlib.check.finding import Finding, Outcome
from buildlib.check.subject import Subject


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield a finding for each file that is missing, altered or unknown to the digest.

    The builder's own comparison comes first; the client's follows where that one is content.
    """
    for problem in subject.damage:
        where, _, what = problem.partition(": ")
        yield Finding(check="digest", where=where, message=f"{what}; build the kernel again")
    if not subject.damage and (refused := digest_problem(subject.artifact.folder)):
        message = f"the client does not accept the digest ({refused}); build the kernel again"
        yield Finding(check="digest", where="metadata.json", message=message)
