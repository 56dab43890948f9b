"""Stage 7: an artifact → a report of what is wrong with it. One module for each check."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from buildlib import package
from buildlib import variant as variants
from buildlib.check import images, layout, load, runtime_name
from buildlib.check.finding import Finding
from buildlib.errors import CheckError
from buildlib.files import write
from buildlib.package import Artifact
from buildlib.plan import BuildSpec
from buildlib.workspace import Workspace


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """All findings about one artifact; `artifact` is the digest of its metadata.json, which covers its files."""

    kernel: str
    variant: str
    artifact: str
    findings: tuple[Finding, ...]


def up_to_date(spec: BuildSpec, workspace: Workspace) -> bool:
    """Whether the artifact, as it is now, has passed its checks."""
    folder = workspace.artifact(spec)
    try:
        report = msgspec.json.decode(workspace.report("check", spec).read_bytes(), type=CheckReport)
    except (OSError, msgspec.DecodeError):
        return False
    metadata = package.read(folder)
    return (
        not report.findings
        and metadata is not None
        and report.artifact == _identity(folder)
        and not package.damage(folder, metadata, workspace.cache)
    )


def check(spec: BuildSpec, workspace: Workspace) -> CheckReport:
    """Run every check on a spec's artifact and write the report.

    Raises:
        CheckError: something was found; the message holds all findings.
    """
    folder = workspace.artifact(spec)
    metadata = package.read(folder)
    shown = workspace.shown(folder)
    if metadata is None:
        raise CheckError(f"{shown}: no artifact that can be read; build it first, 'doit build:{spec.name}'")
    artifact = Artifact(folder=folder, metadata=metadata)
    workspace.cache.forget(folder)
    findings = [
        *layout.check(spec, artifact, workspace.cache),
        *runtime_name.check(artifact),
        *images.check(spec, artifact, workspace),
        *load.check(spec, artifact, workspace),
    ]
    report = CheckReport(
        kernel=spec.kernel.key,
        variant=variants.name(spec.variant),
        artifact=_identity(folder),
        findings=tuple(findings),
    )
    write(workspace.report("check", spec), msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    if findings:
        raise CheckError("\n".join(f"{shown}/{finding.where}: {finding.message}" for finding in findings))
    return report


def _identity(folder: Path) -> str:
    return hashlib.sha256((folder / package.METADATA).read_bytes()).hexdigest()
