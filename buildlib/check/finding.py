"""What a check reports."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with an artifact: the check that found it, a path within the artifact, and *what; what to do*."""

    check: str
    where: str
    message: str
