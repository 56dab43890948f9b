"""What variants are built with, for `doit toolchain` to list and `doit toolchain:<id>` to provision."""

from __future__ import annotations

from collections.abc import Iterator

from buildlib import provision
from buildlib.environment import Settings
from buildlib.lock import Locked
from buildlib.toolchain import Host, Library, Torch
from buildlib.workspace import Workspace

# A toolchain's name, state, size and identity.
Row = tuple[str, str, str, str]


def rows(host: Host, settings: Settings) -> list[Row]:
    """The machine's own toolchains, then those that can be provisioned or are."""
    return [*_present(host), *_provisioned(host, settings)]


def provision_and_say(locked: Locked, workspace: Workspace) -> str:
    """Provision a toolchain unless it is there; its size and its place.

    Raises:
        UnavailableError, ToolchainError: as of `provision.ensure`.
    """
    folder = provision.ensure(locked, workspace.settings, workspace.processes, workspace.notify)
    return f"{(provision.size(locked, workspace.settings) or 0) / 1e6:.0f} MB in {folder}"


def _present(host: Host) -> Iterator[Row]:
    for part in (host.compiler, host.torch, host.tvm_ffi):
        if isinstance(part, str):
            yield "-", "missing", "", part
        elif isinstance(part, Torch):
            yield "torch", "in this environment", "", f"torch {part.version}"
        else:
            where = "in this environment" if isinstance(part, Library) else "on this machine"
            yield part.identity.partition(" ")[0], where, "", part.identity
    for version, toolkit in host.cuda.items():
        if isinstance(toolkit, str):
            yield f"cuda-{version}", "missing", "", toolkit
        elif toolkit.locked is None:
            yield f"cuda-{version}", "on this machine", "", f"{toolkit.identity}, {toolkit.root}"
        elif toolkit.note:
            yield f"cuda-{version}", "refused", "", toolkit.note


def _provisioned(host: Host, settings: Settings) -> Iterator[Row]:
    for name, locked in host.locked.items():
        size = provision.size(locked, settings)
        shown = f"{(locked.size if size is None else size) / 1e6:.0f} MB"
        if reason := host.lacking.get(name):
            yield name, "out of reach", shown, reason
        else:
            yield name, "can be provisioned" if size is None else "provisioned", shown, locked.contents
