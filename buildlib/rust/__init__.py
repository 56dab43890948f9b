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
| `answers.py` | what cargo and rustc say of what they did |
| `dsl.py` | finds the compilers of device languages |
| `images.py` | device crates → the images that host crates embed |
| `nvptx_toolchain.py` | the device language nvptx: finds a rustc, and compiles its core once |
| `nvptx.py` | the device language nvptx: a device crate → PTX |
| `ptx.py` | reads PTX |
| `update.py` | `doit lock` |
"""
