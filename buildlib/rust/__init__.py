"""Rust components: from Cargo manifests to a static library that CMake links into an extension.

| module | what it does |
| --- | --- |
| `manifest.py` | reads one Cargo.toml, and says what is wrong with it |
| `crates.py` | a kernel → its crates and extensions (loaded with build.toml) |
| `toolchain.py` | finds rustc and cargo, once |
| `files.py` | which files of a crate a build reads |
| `lock.py` | the part of a Cargo.lock that decides about one kernel |
| `workspace.py` | lays out the crates as Cargo workspaces, and pins them |
| `dsl.py` | finds the compilers of device languages |
| `cutile.py` | a device crate of tile programs → Tile IR → machine code |
| `nvptx.py` | a device crate of SIMT code → PTX → machine code |
| `nvptx_toolchain.py` | finds a rustc for that, and compiles its core once |
| `ptx.py` | reads PTX |
| `oxide.py` | a device crate of cuda-oxide → PTX → machine code |
| `oxide_toolchain.py` | finds what compiles that |
| `device_code.py` | what a device language makes: entries, and their code |
| `cubins.py` | machine code that was assembled before |
| `images.py` | device crates → what a host crate embeds |
| `cargo.py` | runs cargo: build |
| `testing.py` | runs cargo: test |
| `linting.py` | runs cargo: fmt and clippy |
| `answers.py` | what cargo and rustc say of what they did |
| `update.py` | `doit lock` |
"""
