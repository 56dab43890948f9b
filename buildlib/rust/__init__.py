"""Rust components: from Cargo manifests to a static library that CMake links into an extension.

| module | what it does |
| --- | --- |
| `manifest.py` | reads one Cargo.toml, and says what is wrong with it |
| `crates.py` | a kernel → its crates and extensions (loaded with build.toml) |
| `toolchain.py` | finds rustc and cargo, once |
| `files.py` | which files of a crate a build reads |
| `lock.py` | the part of a Cargo.lock that decides about one kernel |
| `workspace.py` | lays out the crates as Cargo workspaces, and pins them |
| `cargo.py` | runs cargo: build and test |
| `update.py` | `doit lock` |
"""
