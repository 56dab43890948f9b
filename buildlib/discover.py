"""Stage 1: the repository → the build.toml of each kernel."""

from __future__ import annotations

import os
from pathlib import Path

from buildlib.files import listing


def discover(root: Path) -> tuple[Path, ...]:
    """The path of `kernels/*/build.toml` for each kernel folder, sorted by the folder's name.

    A folder without build.toml is returned too: loading it says what is missing. Folders that hold nothing but
    bytecode, as a deleted kernel leaves behind, are not kernels; nor are those whose names start with `_` or `.`, such
    as `_rust` with the crates that kernels share.
    """
    kernels = root / "kernels"
    if not kernels.is_dir():
        return ()
    with os.scandir(kernels) as entries:
        folders = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith((".", "_")))
    return tuple(kernels / name / "build.toml" for name in folders if _holds_files(kernels / name))


def _holds_files(folder: Path) -> bool:
    # A folder that nobody may look into is returned, too: loading it says so.
    readable = os.access(folder, os.R_OK | os.X_OK)
    return not readable or os.path.lexists(folder / "build.toml") or bool(listing(folder))
