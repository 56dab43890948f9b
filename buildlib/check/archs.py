"""Device code: an artifact has it for exactly the archs that its metadata.json declares."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from buildlib import environment, process
from buildlib import variant as variants
from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.subject import Subject
from buildlib.variant import Backend
from buildlib.workspace import Workspace

_CHECK = "archs"
_SECTION = ".nv_fatbin"
_LISTED = re.compile(r"\bsm_(\d+)(\d)([af]?)\.(cubin|ptx)\b")


def check(subject: Subject, workspace: Workspace) -> Iterator[Outcome]:
    """Yield a finding for each arch that is declared and absent, or present and not declared.

    The client refuses, or accepts, a device by what is declared, and a kernel without code for it ends the process.
    """
    backend = variants.backend(subject.spec.variant)
    if backend is not Backend.CUDA or not subject.libraries:
        reason = "no compiled library" if backend is Backend.CUDA else f"no CUDA device code in a {backend} variant"
        yield NotChecked(check=_CHECK, reason=reason)
        return
    found: set[str] = set()
    for library in subject.libraries:
        if _SECTION not in library.sections:
            continue
        path = str(subject.artifact.folder / library.path)
        argv = (_cuobjdump(), "--list-elf", "--list-ptx", path)
        said = process.output(argv, env=environment.child(workspace.settings))
        if said is None:
            yield NotChecked(check=_CHECK, reason=f"{argv[0]} cannot list it; 'pip install nvidia-cuda-cuobjdump'")
            return
        found |= listed(said)
    declared = set(subject.artifact.metadata.backend.archs or ())
    for arch in sorted(declared - found):
        yield _finding(f"declares {arch}, for which there is no device code; build the kernel again, or do not ask it")
    for arch in sorted(found - declared):
        yield _finding(f"does not declare {arch}, for which there is device code; build the kernel again")


def _cuobjdump() -> str:
    """The program of NVIDIA's wheel, else the one on PATH."""
    wheels = importlib.util.find_spec("nvidia")
    folders = wheels.submodule_search_locations if wheels and wheels.submodule_search_locations else ()
    return next((str(path) for folder in folders for path in Path(folder).glob("*/bin/cuobjdump")), "cuobjdump")


def listed(said: str) -> set[str]:
    """The archs in what cuobjdump lists, as metadata.json spells them: `9.0a`, and `12.1+PTX` where there is PTX."""
    kinds: dict[str, set[str]] = {}
    for major, minor, suffix, kind in _LISTED.findall(said):
        kinds.setdefault(f"{major}.{minor}{suffix}", set()).add(kind)
    return {arch + ("+PTX" if "ptx" in kind else "") for arch, kind in kinds.items()}


def _finding(message: str) -> Finding:
    return Finding(check=_CHECK, where="metadata.json", message=message)
