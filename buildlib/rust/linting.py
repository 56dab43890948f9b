"""What a reviewer of crates need not look for: rustfmt and clippy, over the crates of all kernels.

Nothing is built for it: where a host crate embeds an image, it is given an empty one. Crates over those of cutile are
left out of clippy, which would first have to check these, for minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from buildlib.config.model import Dsl
from buildlib.errors import StepError
from buildlib.files import length, write_if_changed
from buildlib.plan import BuildSpec
from buildlib.process import describe
from buildlib.rust import images
from buildlib.rust.command import run, said
from buildlib.rust.crates import is_in_tiles
from buildlib.rust.toolchain import Rust
from buildlib.rust.workspace import emitter_name
from buildlib.workspace import Workspace


def lint(specs: Sequence[BuildSpec], workspace: Workspace) -> str:
    """Run rustfmt and clippy on the crates of the workspace that all kernels share, some of whose specs these are.

    Raises:
        StepError: something was found; the message holds it.
    """
    log = workspace.build / "logs" / "lint-crates.log"
    log.unlink(missing_ok=True)
    shared = [spec for spec in specs if spec.crates and spec.crates.own is None]
    cargo = workspace.shared_cargo
    rust = _rust(shared[0])
    with cargo.lock:
        # Once for each kernel, however many variants it has.
        for crates in {spec.crates.key: spec.crates for spec in shared if spec.crates}.values():
            cargo.use(crates, rust)
        empty = _empty_images(cargo.folder / "images", workspace)
        in_tiles = sorted({each.name for of in workspace.crates for each in of.crates if is_in_tiles(each, of)})
        emitters = [
            emitter_name(of.key, device) for of in workspace.crates for device in of.devices if device.dsl is Dsl.CUTILE
        ]
        _step(("fmt", "--all", "--check"), rust, {}, log, workspace)
        others = ("clippy", "--locked", "--workspace", "--all-targets", f"--target-dir={cargo.target}")
        excluded = tuple(f"--exclude={name}" for name in (*in_tiles, *emitters))
        for features in ((), ("--all-features",)):
            _step((*others, *excluded, *features, "--", "-Dwarnings"), rust, empty, log, workspace)
    return "cargo fmt --check, cargo clippy"


def _rust(spec: BuildSpec) -> Rust:
    assert spec.toolchain is not None
    assert spec.toolchain.rust is not None
    return spec.toolchain.rust


def _empty_images(folder: Path, workspace: Workspace) -> dict[str, str]:
    """The variables by which host crates find images without an entry."""
    for crates in workspace.crates:
        for device in crates.devices:
            write_if_changed(folder / f"{device.host.name}.fatbin", b"")
            write_if_changed(folder / f"{device.host.name}.rs", b"&[]")
    return {images.VARIABLE: str(folder)}


def _step(arguments: Sequence[str], rust: Rust, extra: Mapping[str, str], log: Path, workspace: Workspace) -> None:
    cargo = workspace.shared_cargo
    since = length(log)
    status = run((rust.cargo, *arguments), cargo.root, cargo.folder, rust, log, workspace, extra)
    if status != 0:
        raise StepError(
            f"cargo {arguments[0]}: {describe(status)}; the whole log is {workspace.shown(log)}\n{said(log, since)}"
        )
