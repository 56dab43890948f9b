"""Small kernels in Rust."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from buildlib.config.model import Kernel, RustCpu, RustCuda, TvmFfi
from buildlib.rust.toolchain import Rust
from tests.unit.factories import kernel, write_files

RUST = Rust(
    cargo="/rust/bin/cargo",
    rustc="/rust/bin/rustc",
    version="1.95.0",
    commit="59807616e",
    host="x86_64-unknown-linux-gnu",
)


def manifest(name: str, more: str = "") -> str:
    return f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2021"\n{more}'


def in_rust(folder: Path, files: Mapping[str, str] | None = None, **component: Any) -> Kernel:
    """A kernel of one crate in its folder, and other files; a file named here replaces one of the crate."""
    write_files(folder, {"Cargo.toml": manifest(folder.name), "src/lib.rs": "", **(files or {})})
    fields = {"name": "main", "cargo_manifest": "Cargo.toml", **component}
    return kernel(TvmFfi(), RustCpu(**fields), folder=folder)


def with_device(folder: Path, files: Mapping[str, str] | None = None, **component: Any) -> Kernel:
    """A kernel like `in_rust`, for CUDA too: one crate, with device code that depends on the shared crate for it."""
    tile = '[dependencies]\nkernelyard-tile = { path = "../../_rust/kernelyard-tile" }\n'
    device = {"device/Cargo.toml": manifest("main-device", tile), "device/src/lib.rs": ""}
    write_files(folder.parent, {"_rust/kernelyard-tile/Cargo.toml": manifest("kernelyard-tile")})
    on_cpu = in_rust(folder, {**device, **(files or {})}).components
    fields = {"name": "on_cuda", "cargo_manifest": "Cargo.toml", **component}
    return kernel(TvmFfi(), *on_cpu, RustCuda(**fields), folder=folder)
