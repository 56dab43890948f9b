"""Stage 7: an artifact → a report of what is wrong with it. One module for each check; suite.py makes them all.

Here is what the tasks call. The checks are imported when the first of them is made: every command loads the tasks.
"""

from __future__ import annotations

from buildlib.config.model import Kernel
from buildlib.plan import BuildSpec
from buildlib.workspace import Workspace


def check(spec: BuildSpec, workspace: Workspace) -> str:
    """Run every check on a spec's artifact and write the report; what to say of an artifact that passed.

    Raises:
        CheckError: something was found; the message holds all findings.
        ToolchainError: checks.toml or platforms.toml cannot be used.
    """
    from buildlib.check import suite  # noqa: PLC0415

    return suite.check(spec, workspace)


def up_to_date(spec: BuildSpec, workspace: Workspace) -> bool:
    """Whether the artifact, as it is now, has passed the checks, as they are now."""
    from buildlib.check import suite  # noqa: PLC0415

    return suite.up_to_date(spec, workspace)


def check_build_toml(kernel: Kernel, workspace: Workspace) -> str:
    """Look over a kernel's build.toml and write the report; what to say of one that has no error.

    Raises:
        CheckError: a finding is an error; the message holds all findings.
    """
    from buildlib.check import build_toml  # noqa: PLC0415

    return build_toml.check(kernel, workspace)


def build_toml_is_up_to_date(kernel: Kernel, workspace: Workspace) -> bool:
    """Whether a build.toml, as it is now, was looked over by the rules as they are now, and nothing was found."""
    from buildlib.check import build_toml  # noqa: PLC0415

    return build_toml.up_to_date(kernel, workspace)
