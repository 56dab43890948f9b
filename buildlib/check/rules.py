"""The identity of the checks themselves: what has passed other ones has to be looked at again."""

from __future__ import annotations

import hashlib
from pathlib import Path

from buildlib.check.policy import FILES
from buildlib.files import listing
from buildlib.workspace import Workspace

_HERE = Path(__file__).parent


def rules_digest(workspace: Workspace) -> str:
    """A digest of all that decides what is found."""
    files = [*(_HERE / path for path in listing(_HERE)), _HERE.parent / "config" / "lint.py"]
    files += (workspace.root / "toolchains" / name for name in FILES)
    hashes = [info.sha256 for file in files if (info := workspace.cache.get(str(file)))]
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()
