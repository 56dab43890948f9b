"""All checks of an artifact, and the report of what they found."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from buildlib import package
from buildlib import variant as variants
from buildlib.check import (
    build_paths,
    client,
    digest,
    exports,
    images,
    imports,
    instructions,
    layout,
    load,
    metadata,
    needed,
    ops,
    policy,
    python_abi,
    run_path,
    runtime_name,
    subject,
    symbols,
    syntax,
    torch_abi,
)
from buildlib.check.finding import Finding, NotChecked, Outcome, Usage
from buildlib.check.rules import rules_digest
from buildlib.check.subject import Subject
from buildlib.errors import CheckError, Severity
from buildlib.files import write
from buildlib.package import Artifact
from buildlib.plan import BuildSpec
from buildlib.workspace import Workspace


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that the checks found about one artifact, and what they did not look at.

    `artifact` is the digest of its metadata.json, which covers its files; `rules` that of the checks themselves.
    """

    kernel: str
    variant: str
    artifact: str
    rules: str
    findings: tuple[Finding, ...]
    passed: tuple[str, ...]
    not_checked: tuple[NotChecked, ...]
    usage: tuple[Usage, ...] = ()

    @property
    def summary(self) -> str:
        """`12 checks passed, 3 left out, advice: syntax`; the report says more."""
        not_made = {each.check for each in self.not_checked}
        advice = dict.fromkeys(each.check for each in self.findings if each.severity is Severity.ADVICE)
        return (
            f"{len(self.passed)} checks passed"
            + (f", {len(not_made)} left out" if not_made else "")
            + (f", advice: {', '.join(advice)}" if advice else "")
            + (f"; {self._most}" if self.usage else "")
        )

    @property
    def _most(self) -> str:
        registers, shared, stack = (
            max(getattr(each, name) for each in self.usage) for name in ("registers", "shared", "stack")
        )
        return f"CUDA takes up to {registers} registers, {shared} B of shared memory and {stack} B of stack"

    @property
    def failed(self) -> bool:
        """Whether there is an error among the findings."""
        return any(each.severity is Severity.ERROR for each in self.findings)


def _of_subject(look: Callable[[Subject], Iterator[Outcome]]) -> Callable[[Subject, Workspace], Iterator[Outcome]]:
    return lambda subject, _: look(subject)


# In the order of the report: what is wrong with the files explains what comes after it.
CHECKS: Mapping[str, Callable[[Subject, Workspace], Iterator[Outcome]]] = {
    "digest": _of_subject(digest.check),
    "metadata": _of_subject(metadata.check),
    "layout": _of_subject(layout.check),
    "symbols": _of_subject(symbols.check),
    "python-abi": _of_subject(python_abi.check),
    "torch-abi": _of_subject(torch_abi.check),
    "needed": _of_subject(needed.check),
    "run-path": _of_subject(run_path.check),
    "build-paths": build_paths.check,
    "exports": _of_subject(exports.check),
    "instructions": instructions.check,
    "images": images.check,
    "runtime-name": _of_subject(runtime_name.check),
    "syntax": _of_subject(syntax.check),
    "imports": _of_subject(imports.check),
    "ops": _of_subject(ops.check),
    "load": load.check,
}


def up_to_date(spec: BuildSpec, workspace: Workspace) -> bool:
    """Whether the artifact, as it is now, has passed the checks, as they are now."""
    folder = workspace.artifact(spec)
    try:
        report = msgspec.json.decode(workspace.report("check", spec).read_bytes(), type=CheckReport)
    except (OSError, msgspec.DecodeError):
        return False
    found = package.read(folder)
    return (
        not report.failed
        and not any(map(_can_be_made_now, report.not_checked))
        and report.rules == rules_digest(workspace)
        and found is not None
        and report.artifact == _identity(folder)
        and not package.damage(folder, found, workspace.cache)
    )


def check(spec: BuildSpec, workspace: Workspace) -> str:
    """Run every check on a spec's artifact and write the report; what to say of an artifact that passed.

    Raises:
        CheckError: something was found; the message holds all findings.
        ToolchainError: checks.toml or platforms.toml cannot be used.
    """
    folder = workspace.artifact(spec)
    described = package.read(folder)
    shown = workspace.shown(folder)
    if described is None:
        raise CheckError(f"{shown}: no artifact that can be read; build it first, 'doit build:{spec.name}'")
    workspace.cache.forget(folder)
    artifact = Artifact(folder=folder, metadata=described)
    read = subject.read(spec, artifact, policy.load(workspace.root / "toolchains"), workspace.cache)
    outcomes = {name: list(look(read, workspace)) for name, look in CHECKS.items()}
    found = [*read.problems, *(each for of_one in outcomes.values() for each in of_one)]
    report = CheckReport(
        kernel=spec.kernel.key,
        variant=variants.name(spec.variant),
        artifact=_identity(folder),
        rules=rules_digest(workspace),
        findings=tuple(each for each in found if isinstance(each, Finding)),
        passed=tuple(name for name, of_one in outcomes.items() if not any(map(_counts_against, of_one))),
        not_checked=tuple(each for each in found if isinstance(each, NotChecked)),
        usage=tuple(each for each in found if isinstance(each, Usage)),
    )
    write(workspace.report("check", spec), msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    if report.failed:
        # Only the first line is in the table at the end, so it has to be one of those that matter.
        in_order = sorted(report.findings, key=lambda each: each.severity is Severity.ADVICE)
        raise CheckError("\n".join(_line(shown, each) for each in in_order))
    return report.summary


def _can_be_made_now(left_out: NotChecked) -> bool:
    """Whether somebody has installed since what a check could not be made without."""
    return bool(left_out.lacking) and all(map(client.is_here, left_out.lacking))


def _counts_against(outcome: Outcome) -> bool:
    match outcome:
        case NotChecked():
            return True
        case Finding(severity=severity):
            return severity is Severity.ERROR
        case Usage():
            return False


def _line(shown: str, finding: Finding) -> str:
    advice = "advice: " if finding.severity is Severity.ADVICE else ""
    where = f"{shown}/{finding.where}" if finding.where else shown
    return f"{where}: {advice}{finding.message}"


def _identity(folder: Path) -> str:
    return hashlib.sha256((folder / package.METADATA).read_bytes()).hexdigest()
