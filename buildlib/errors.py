"""Every error that a user can cause.

A message reads *where: what is wrong; what to do*. These errors are shown without a traceback; anything else that is
raised is a fault of the builder and shows one.
"""

import enum


class BuildError(Exception):
    """A mistake or a condition that the user can act on."""


class ConfigError(BuildError):
    """A build.toml, or the folder it describes, is wrong."""


class SelectionError(BuildError):
    """The user's filter names nothing that exists."""


class ToolchainError(BuildError):
    """A compiler, a library or a data file about them is missing or unusable."""


class StepError(BuildError):
    """A step of a build (render, configure, compile, link, package) or of a test failed."""


class CheckError(BuildError):
    """An artifact does not pass its checks."""


class PublishError(BuildError):
    """An artifact may not be published, or the destination refuses it."""


class Severity(enum.StrEnum):
    """How much what was found matters: an ERROR stops what was asked for.

    ADVICE stops nothing: kernels that were written for another builder have it, and users load them all the same.
    """

    ERROR = "error"
    ADVICE = "advice"


class UnavailableError(BuildError):
    """Something cannot be made here and now through no fault of anybody's; what needs it is skipped, not failed."""
