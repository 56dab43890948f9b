"""`doit lock`: take what new crates need into the repository's Cargo.lock, or move all of it to newer versions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from buildlib.errors import ConfigError, StepError
from buildlib.files import write_if_changed
from buildlib.rust.lock import Lock, changes
from buildlib.rust.toolchain import Rust
from buildlib.workspace import Workspace

# How many changes a summary names; `git diff Cargo.lock` has all of them.
_SHOWN = 5


def update(rust: Mapping[str, Rust | str], lost: Mapping[str, str], workspace: Workspace, *, upgrade: bool) -> str:
    """Update Cargo.lock; what changed, in a line.

    What is pinned stays as it is, unless `upgrade` asks for the newest versions that the manifests allow. `rust` are
    the toolchains by channel; `lost` the kernels that cannot be loaded, and why.

    Raises:
        ConfigError: a kernel cannot be loaded.
        StepError: there is no cargo, cargo refuses a kernel, or a registry cannot be reached.
    """
    for key, message in lost.items():
        raise ConfigError(
            f"Cargo.lock: kernels/{key} cannot be loaded, and what it needs would be dropped; mend it first\n{message}"
        )
    toolchain = rust.get("", next(iter(rust.values()), "no kernel is in Rust"))
    if isinstance(toolchain, str):
        raise StepError(f"Cargo.lock: cannot be updated: {toolchain}")
    if not any(crates.own is None for crates in workspace.crates):
        return "no kernel needs it"
    pins = workspace.root / "Cargo.lock"
    before = _content(pins)
    after = workspace.shared_cargo.update(toolchain, upgrade=upgrade)
    shown = workspace.shown(pins)
    lines = changes(Lock.parse(before, shown), Lock.parse(after, shown))
    write_if_changed(pins, after)
    others = f"and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(filter(None, (*lines[:_SHOWN], others))) or "nothing to change"


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
