"""How cargo is run: with which environment, flags and profile."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from buildlib import environment
from buildlib.rust.toolchain import Rust

if TYPE_CHECKING:
    from buildlib.workspace import Workspace

_TAIL = 60
# Cargo's own progress, as in "   Compiling half v2.7.1": a verb that ends in the 12th column.
_PROGRESS = re.compile(r"(?= *[A-Z][a-z]+ )[A-Za-z ]{11}[a-z] ")
# The profile of every artifact, whatever manifests and the user's configuration say. Panics unwind, because they become
# Python exceptions; an abort would end the process.
_PROFILE = {
    "opt-level": "3",
    "lto": '"fat"',
    "codegen-units": "1",
    "panic": '"unwind"',
    "debug": "false",
    "debug-assertions": "false",
    "incremental": "false",
    "overflow-checks": "false",
    "strip": '"none"',
}


def release_flags() -> Iterator[str]:
    """The arguments of cargo that set the profile."""
    yield "--release"
    for key, value in _PROFILE.items():
        yield f"--config=profile.release.{key}={value}"


def run(
    argv: Sequence[str],
    cwd: Path,
    folder: Path,
    rust: Rust,
    log: Path,
    workspace: Workspace,
    extra: Mapping[str, str] | None = None,
    answer: Path | None = None,
) -> int:
    """Run cargo to its end; its exit status. Paths below `folder` are shown relative to it, as authors know them."""
    log.parent.mkdir(parents=True, exist_ok=True)
    env = {**_environ(rust, workspace), **(extra or {})}
    with workspace.jobs.slot():
        return workspace.processes.run(
            argv, cwd=cwd, env=env, log=log, rename={f"{folder}/": ""}, pass_fds=workspace.held, answer=answer
        )


def said(log: Path, since: int = 0, lines: int | None = _TAIL) -> str:
    """The end of what cargo said after `since` bytes of its log, less its progress; `lines` None for all of it."""
    whole = log.read_bytes()[since:].decode("utf-8", "replace").splitlines()
    kept = [line for line in whole if not _PROGRESS.match(line)]
    return "\n".join(kept[-lines:] if lines else kept)


def remaps(folder: Path, workspace: Workspace) -> list[str]:
    """Flags that keep where something lies out of what is compiled: the workspace, and the crates of registries.

    A registry's folder is named after where it was reached, so each is mapped by itself.
    """
    home = environment.home_of(workspace.settings, "cargo")
    places = {str(folder): ".", f"{home}/git/checkouts": "git"}
    places |= {str(registry): "registry" for registry in sorted(home.glob("registry/src/*"))}
    return [f"--remap-path-prefix={place}={name}" for place, name in places.items()]


def rustflags(flags: Sequence[str], rust: Rust, linker: str) -> dict[str, str]:
    """The variables by which rustc gets exactly these flags, and proc-macros the linker that everything gets."""
    return {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        f"CARGO_TARGET_{rust.host.upper().replace('-', '_')}_LINKER": linker,
    }


def _environ(rust: Rust, workspace: Workspace) -> dict[str, str]:
    settings = workspace.settings
    return environment.child(
        settings,
        **settings.rust,
        **workspace.jobs.environ(),
        # This environment's programs first (the tvm-ffi crate asks tvm-ffi-config), whether it is activated or not:
        # crates are built again when PATH changes.
        PATH=environment.path_with(settings, sys.executable, rust.cargo),
        RUSTC=rust.rustc,
        # Empty, they overrule the user's configuration: no wrapper, and no flags but those that are set on purpose.
        RUSTC_WRAPPER="",
        RUSTC_WORKSPACE_WRAPPER="",
        CARGO_ENCODED_RUSTFLAGS="",
    )
