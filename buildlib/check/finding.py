"""What a check reports."""

from __future__ import annotations

import msgspec

from buildlib.errors import Severity


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with an artifact: the check that found it, a path within it, and *what; what to do*.

    The path is empty where it is the whole of it.
    """

    check: str
    where: str
    message: str
    severity: Severity = Severity.ERROR


class NotChecked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A check, or a part of one, that does not apply to an artifact or could not be made, and why.

    `lacking` are the Python modules for want of which it could not be made.
    """

    check: str
    reason: str
    lacking: tuple[str, ...] = ()


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine code of a CUDA function takes: registers and bytes of stack of a thread, spills included, and
    bytes of shared memory of a block. No fault, and good to know.
    """

    check: str
    function: str
    arch: str
    registers: int
    stack: int
    shared: int


Outcome = Finding | NotChecked | Usage
