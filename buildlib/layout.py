"""Sources laid out for a build tool: copies that are written only when their content differs.

That gives three things at once: what is compiled is what was hashed, even while the author goes on editing; ninja and
cargo, which compare times, see a changed file as newer whatever its times in the author's folder; and the author's
folder may be read-only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from buildlib.errors import StepError
from buildlib.files import inspect, listing, prune, write, write_if_changed

if TYPE_CHECKING:
    from buildlib.workspace import Workspace


def lay_out(
    paths: Iterable[str],
    source: Path,
    target: Path,
    workspace: Workspace,
    edits: Mapping[str, Callable[[bytes], bytes]] | None = None,
    written: list[str] | None = None,
) -> dict[str, str]:
    """Bring copies of files below `source` up to date below `target`; SHA-256 of each original, by path.

    `edits` change the content of some files on its way. The paths that were written are added to `written`. Nothing is
    removed: see `sweep`.

    Raises:
        StepError: a file cannot be read.
    """
    hashes = {}
    for path in paths:
        original, copy = f"{source}/{path}", Path(os.path.normpath(target / path))
        if edit := (edits or {}).get(path):
            content = read(Path(original), workspace)
            write_if_changed(copy, edit(content))
            hashes[path] = inspect(content, "").sha256
            continue
        wanted = workspace.cache.get(original)
        if wanted is None or wanted != workspace.cache.get(str(copy)):
            content = read(Path(original), workspace)
            wanted = inspect(content, "")
            write(copy, content)
            if written is not None:
                written.append(path)
        hashes[path] = wanted.sha256
    return hashes


def sweep(folder: Path, wanted: Iterable[str], workspace: Workspace) -> list[str]:
    """Remove the files below a folder that are not wanted there, and return them; what was seen there is forgotten."""
    removed = []
    if folder.is_dir():
        kept = set(wanted)
        removed = sorted(set(listing(folder, hidden=True)) - kept)
        prune(folder, kept)
    workspace.cache.forget(folder)
    return removed


def read(path: Path, workspace: Workspace) -> bytes:
    """The content of a file.

    Raises:
        StepError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        shown = workspace.shown(Path(os.path.normpath(path)))
        raise StepError(f"{shown}: cannot be read ({error.strerror}); restore it, or make it readable") from None
