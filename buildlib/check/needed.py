"""The shared libraries that an artifact names: only those that the user's process is sure to find."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from buildlib import variant as variants
from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.subject import Subject
from buildlib.variant import TorchNoarchVariant

_CHECK = "needed"


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield a finding for each NEEDED entry that checks.toml does not allow for the framework and the backend."""
    if not subject.libraries:
        yield NotChecked(check=_CHECK, reason="no compiled library")
    needed, variant = subject.policy.needed, subject.spec.variant
    framework, backend = variants.framework(variant), variants.backend(variant)
    allowed = (*needed.system, *needed.framework.get(framework, ()), *needed.backend.get(backend, ()))
    version = None if isinstance(variant, TorchNoarchVariant) else variant.compute.version
    patterns = [pattern.replace("{major}", str(version.major) if version else "*") for pattern in allowed]
    for library in subject.libraries:
        for name in library.needed:
            if not any(fnmatchcase(name, pattern) for pattern in patterns):
                made_for = f"{backend} {version}" if version else backend
                message = (
                    f"needs the shared library {name}, which a {framework} kernel for {made_for} may not count on; "
                    "link it in, or do without it"
                )
                yield Finding(check=_CHECK, where=library.path, message=message)
