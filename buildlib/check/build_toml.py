"""build.toml: what its format allows and is most likely a mistake all the same. Of a kernel, not of an artifact."""

from __future__ import annotations

from pathlib import Path

import msgspec

from buildlib.check.rules import rules_digest
from buildlib.config import lint
from buildlib.config.model import Kernel
from buildlib.errors import CheckError, Severity
from buildlib.files import write
from buildlib.workspace import Workspace


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All findings about one build.toml; `content` is its digest, `rules` that of the checks."""

    kernel: str
    content: str
    rules: str
    findings: tuple[lint.Finding, ...]


def up_to_date(kernel: Kernel, workspace: Workspace) -> bool:
    """Whether a build.toml, as it is now, was looked over by these rules, and nothing was found."""
    try:
        report = msgspec.json.decode(_path(kernel, workspace).read_bytes(), type=Report, dec_hook=_decode)
    except (OSError, msgspec.DecodeError):
        return False
    return (report.content, report.rules, report.findings) == (
        _content(kernel, workspace),
        rules_digest(workspace),
        (),
    )


def check(kernel: Kernel, workspace: Workspace) -> str:
    """Look over a kernel's build.toml and write the report; what to say of one that has no error.

    What the kernel cannot be used with is an error. The rest is remarked on and no more, since the format allows it and
    a kernel that was written for another builder has to build as it is.

    Raises:
        CheckError: a finding is an error; the message holds all findings.
    """
    path = kernel.folder / "build.toml"
    shown = Path(workspace.shown(path))
    found = lint.findings(kernel, shown, path.read_text(encoding="utf-8"))
    content = _content(kernel, workspace)
    report = Report(kernel=kernel.key, content=content, rules=rules_digest(workspace), findings=found)
    stored = msgspec.json.format(msgspec.json.encode(report, enc_hook=str))
    write(_path(kernel, workspace), stored + b"\n")
    if any(finding.severity is Severity.ERROR for finding in found):
        # Only the first line is in the table at the end, so it has to be one of those that matter.
        in_order = sorted(found, key=lambda finding: finding.severity is Severity.ADVICE)
        raise CheckError("\n".join(map(str, in_order)))
    return "".join(f"\n  {finding}" for finding in found)


def _path(kernel: Kernel, workspace: Workspace) -> Path:
    return workspace.build / "reports" / kernel.key / "build-toml.json"


def _content(kernel: Kernel, workspace: Workspace) -> str:
    info = workspace.cache.get(str(kernel.folder / "build.toml"))
    return info.sha256 if info else ""


def _decode(wanted: type, value: object) -> object:
    assert wanted is Path
    return Path(str(value))
