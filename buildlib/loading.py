"""Stages 2 to 4 at once: from the paths of build.toml to the plan, of a checkout or of a commit of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from buildlib import matrix, plan, toolchain
from buildlib.config.model import Kernel, RustCuda
from buildlib.environment import Settings
from buildlib.errors import ConfigError
from buildlib.plan import Failed, Plan
from buildlib.rust import crates
from buildlib.rust.crates import Crates
from buildlib.toolchain import Host

# `test:<name>` for the builder's own tests; no kernel's folder may be called so.
OWN_TESTS = ("unit", "integration", "crates")


def can_be_task(folder: str) -> bool:
    """Whether a task can be named after a folder.

    doit reads some characters, some names are taken, and a report has a line for each task.
    """
    return folder not in OWN_TESTS and folder.isprintable() and set(folder).isdisjoint(":=*?[")


def load(
    paths: Sequence[Path], root: Path, read: Callable[[Path], Kernel]
) -> tuple[tuple[Kernel, ...], tuple[Failed, ...]]:
    """Load each build.toml; one that is wrong becomes a failure of its own kernel and stops no other."""
    kernels: list[Kernel] = []
    broken: list[Failed] = []
    names = {path.parent.name for path in paths}
    for path in paths:
        key = path.parent.name
        if not can_be_task(key):
            shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in key)
            message = f"kernels/{shown}: a folder of this name cannot be a task of doit; rename it"
            taken = {*names, *(failed.kernel for failed in broken), *OWN_TESTS}
            name = "".join(each if each.isprintable() and each not in ":=*?[" else "_" for each in key)
            broken.append(Failed(kernel=_free_name(name, taken), message=message))
            continue
        try:
            kernels.append(read(path))
        except ConfigError as error:
            broken.append(Failed(kernel=key, message=str(error).replace(f"{root}{os.sep}", "")))
    return tuple(kernels), tuple(broken)


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """The plan, for the kernels that load, with their crates by key, and Rust's toolchains by channel."""

    kernels: tuple[Kernel, ...]
    plan: Plan
    crates: dict[str, Crates]
    host: Host


def planned(
    kernels: tuple[Kernel, ...],
    broken: Iterable[Failed],
    data: Path,
    settings: Settings,
    *,
    portable: bool,
    devices: str = "",
    load_crates: Callable[[Iterable[Kernel]], tuple[dict[str, Crates], dict[str, str]]] = crates.load_all,
) -> Planned:
    """The plan for kernels, with the data files of a folder like toolchains/.

    `devices` are the only ones that a developer wants CUDA code for, `9.0,12.0`; all, where none is named.

    Raises:
        ToolchainError: the data files about toolchains cannot be used.
    """
    found, wrong = load_crates(kernels)
    failed = (*broken, *(Failed(kernel=key, message=message) for key, message in wrong.items()))
    kernels = tuple(kernel for kernel in kernels if kernel.key not in wrong)
    host = toolchain.probe(
        settings,
        data,
        portable=portable,
        channels={each.channel for each in found.values()},
        dsls={part.dsl for kernel in kernels for part in kernel.components if isinstance(part, RustCuda)},
    )
    rows = matrix.load(data / "variants.toml")
    made = plan.plan(kernels, failed, rows, host, found, narrow=toolchain.devices(devices, settings))
    return Planned(kernels=kernels, plan=made, crates=found, host=host)
