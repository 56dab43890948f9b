"""What may stand in a build.toml: every table and key of every edition, with its type and its meaning.

The reading of files, the JSON Schema and the reference page all follow from this table; a test holds it against the
model. Its source for the editions up to 5 is the parser of the `kernels` package.
"""

from __future__ import annotations

from typing import Final

from buildlib.config.model import (
    BackendGeneral,
    CppCpu,
    CppCuda,
    CppMetal,
    CppRocm,
    CppXpu,
    Dsl,
    Hub,
    KernelDepend,
    RustCpu,
    RustCuda,
    TorchNoarch,
    TvmFfi,
)
from buildlib.config.tables import Components, Key, Table
from buildlib.config.values import (
    BACKEND,
    Choice,
    GitUrl,
    KernelName,
    ListOf,
    Natural,
    PerBackend,
    SourcePath,
    Text,
    VersionText,
)
from buildlib.variant import Backend

NEWEST_EDITION: Final = 6

_DEPENDS: Final = (
    "torch",
    "cutlass_2_10",
    "cutlass_3_5",
    "cutlass_3_6",
    "cutlass_3_8",
    "cutlass_3_9",
    "cutlass_4_0",
    "cutlass_4_4",
    "cutlass_4_5",
    "sycl_tla",
    "metal-cpp",
)

_REPOSITORY = Text(example='"owner/name"')
_LICENSE = Text(example='"Apache-2.0"')
_SOURCES = ListOf(SourcePath())
_FOLDERS = ListOf(SourcePath(example='"include"'))
_MANIFEST = SourcePath(example='"Cargo.toml"')
_FLAGS = ListOf(Text(example='"-O3"'), once=False)
_CAPABILITIES = ListOf(Text(example='"9.0"'))
_ARCHS = ListOf(Text(example='"gfx942"'))


_KERNEL_DEPEND = Table(
    about="Another kernel, at a version branch or at a revision.",
    struct=KernelDepend,
    keys=(
        Key(name="repo-id", type=_REPOSITORY, required=True, about="The kernel's repository on the Hub, `owner/name`."),
        Key(name="version", type=Natural(), about="The version, as in the branch `v1`; instead of a revision."),
        Key(name="revision", type=Text(example='"main"'), about="A Git commit, branch or tag; instead of a version."),
    ),
    exactly_one_of=("version", "revision"),
)
_KERNEL_DEPENDS = Key(
    name="kernel-depends", type=ListOf(_KERNEL_DEPEND), first=5, about="Kernels on the Hub that this one loads."
)
_PYTHON_DEPENDS = Key(
    name="python-depends",
    type=ListOf(Text(example='"einops"')),
    about="Python packages that the kernel imports, from a fixed list.",
)

_HUB = Table(
    about="Where the kernel is published.",
    struct=Hub,
    keys=(
        Key(name="repo-id", type=_REPOSITORY, about="The repository on the Hub, `owner/name`."),
        Key(
            name="branch",
            type=Text(example='"next"'),
            about="The branch to publish to, instead of the version branch `v<version>`.",
        ),
    ),
)

_GENERAL_CUDA = Table(
    about="What holds for the CUDA backend only.",
    struct=BackendGeneral,
    keys=(
        Key(name="minver", type=VersionText(), about="The oldest CUDA to build for; inclusive."),
        Key(name="maxver", type=VersionText(), about="The newest CUDA to build for; inclusive."),
        _KERNEL_DEPENDS,
        _PYTHON_DEPENDS,
    ),
)
_GENERAL_NEURON = Table(
    about="What holds for the Neuron backend only.", struct=BackendGeneral, keys=(_KERNEL_DEPENDS, _PYTHON_DEPENDS)
)
_GENERAL_TPU = Table(about="What holds for the TPU backend only.", struct=BackendGeneral, keys=(_PYTHON_DEPENDS,))
_GENERAL_XPU = Table(
    about="What holds for the XPU backend only.", struct=BackendGeneral, keys=(_KERNEL_DEPENDS, _PYTHON_DEPENDS)
)


GENERAL = Table(
    about="The kernel as a whole.",
    struct=dict,
    keys=(
        Key(
            name="name",
            type=KernelName(),
            required=True,
            about="The kernel's name; its Python package is called the same, with `_` for `-`.",
        ),
        Key(name="version", type=Natural(), last=3, about="The kernel's major version."),
        Key(
            name="version",
            type=Natural(),
            first=4,
            required=True,
            about="The kernel's major version; it is published to the branch `v<version>`.",
        ),
        Key(
            name="edition",
            type=Natural(example=str(NEWEST_EDITION)),
            first=5,
            required=True,
            about="The edition of the build.toml format.",
        ),
        Key(name="license", type=_LICENSE, last=3, about="The license, as an SPDX expression."),
        Key(name="license", type=_LICENSE, first=4, required=True, about="The license, as an SPDX expression."),
        Key(
            name="backends",
            type=ListOf(BACKEND),
            required=True,
            about="The backends to build for. One that has no component gets the Python package alone.",
        ),
        Key(name="upstream", type=GitUrl(), about="The Git repository that the kernel's code comes from."),
        Key(name="source", type=GitUrl(), first=4, about="The Git repository that this kernel is developed in."),
        _KERNEL_DEPENDS,
        _PYTHON_DEPENDS,
        Key(name="cuda", type=_GENERAL_CUDA, about=_GENERAL_CUDA.about),
        Key(name="neuron", type=_GENERAL_NEURON, about=_GENERAL_NEURON.about),
        Key(name="tpu", type=_GENERAL_TPU, first=5, about=_GENERAL_TPU.about),
        Key(name="xpu", type=_GENERAL_XPU, about=_GENERAL_XPU.about),
        Key(name="hub", type=_HUB, about=_HUB.about),
    ),
)

_PYEXT = Key(
    name="pyext",
    type=ListOf(Text(example='"json"')),
    about="Extensions, without the dot, of the files that the Python package ships besides `py` and `pyi`.",
)
_FRAMEWORK_INCLUDE = Key(name="include", type=_FOLDERS, about="Include folders for these sources; `.` is the kernel's.")
_FRAMEWORK_CXX_FLAGS = Key(
    name="cxx-flags", type=_FLAGS, first=4, about="Flags for the C++ compiler when it compiles these sources."
)

TORCH = Table(
    about="The kernel is a torch extension, which registers torch operators.",
    struct=dict,
    keys=(
        Key(name="src", type=_SOURCES, about="The sources, with their headers, that register the operators."),
        _FRAMEWORK_INCLUDE,
        _PYEXT,
        _FRAMEWORK_CXX_FLAGS,
        Key(name="minver", type=VersionText(), about="The oldest torch to build for; inclusive."),
        Key(name="maxver", type=VersionText(), about="The newest torch to build for; inclusive."),
        Key(
            name="stable-abi",
            type=VersionText(),
            first=4,
            last=4,
            about="Build for torch's stable ABI of this version, with all backends.",
        ),
        Key(
            name="stable-abi",
            type=PerBackend(),
            first=5,
            about="Build for torch's stable ABI of this version: one for all backends, or a table by backend.",
        ),
    ),
)
TORCH_NOARCH = Table(
    about="The kernel is a Python package, such as of Triton kernels; nothing is compiled.",
    struct=TorchNoarch,
    keys=(
        _PYEXT,
        # The reference parser reads the spelling with `_` alone, while its documentation shows the one with `-`.
        Key(
            name="cuda-capabilities",
            alias="cuda_capabilities",
            type=_CAPABILITIES,
            about="The CUDA capabilities that metadata.json names, such as `9.0`.",
        ),
        Key(
            name="rocm-archs",
            alias="rocm_archs",
            type=_ARCHS,
            about="The ROCm archs that metadata.json names, such as `gfx942`.",
        ),
    ),
)
TVM_FFI = Table(
    about="The kernel is a library that exports functions through tvm-ffi.",
    struct=TvmFfi,
    keys=(
        Key(
            name="src",
            type=_SOURCES,
            last=5,
            required=True,
            about="The sources, with their headers, that export the functions.",
        ),
        Key(
            name="src",
            type=_SOURCES,
            first=6,
            about="The sources, with their headers, that export the functions, unless a component does that itself.",
        ),
        _FRAMEWORK_INCLUDE,
        _PYEXT,
        _FRAMEWORK_CXX_FLAGS,
    ),
)

_CUDA_CAPABILITIES = Key(
    name="cuda-capabilities",
    type=_CAPABILITIES,
    about="The CUDA capabilities to build for, such as `9.0a`; those that the toolchain lacks are left out.",
)


def _component_keys(*own: Key) -> tuple[Key, ...]:
    backends = ("cpu", "cuda", "metal", "rocm", "xpu")
    languages = (*(f"cpp-{backend}" for backend in backends), "rust-cpu", "rust-cuda")
    return (
        Key(
            name="backend",
            type=Choice("backend", backends),
            last=5,
            required=True,
            about="The backend that the component is for.",
            instead="'language'",
        ),
        Key(
            name="language",
            type=Choice("language", languages),
            first=6,
            required=True,
            about="The language and the backend that the component is for.",
        ),
        *own,
    )


_CPP_KEYS = (
    Key(
        name="depends",
        type=ListOf(Choice("dependency", _DEPENDS)),
        required=True,
        about="The libraries that the sources include.",
    ),
    Key(name="src", type=_SOURCES, required=True, about="The sources, with their headers."),
    Key(name="include", type=_FOLDERS, about="Include folders for these sources; `.` is the kernel's."),
    Key(name="cxx-flags", type=_FLAGS, about="Flags for the C++ compiler."),
)
_RUST_KEYS = (
    Key(name="cargo-manifest", type=_MANIFEST, required=True, about="The Cargo.toml of the crate to build."),
    Key(
        name="src",
        type=_SOURCES,
        about="Files and folders that the crate is built from, all that is in a folder included.",
    ),
    Key(name="depends", type=ListOf(Choice("dependency", _DEPENDS)), about="The libraries that the crate links."),
    Key(name="features", type=ListOf(Text(example='"simd"')), about="The crate's Cargo features to build with."),
)

_CPP_TABLES = {
    Backend.CPU: Table(about="C++ for the CPU.", struct=CppCpu, keys=_component_keys(*_CPP_KEYS)),
    Backend.CUDA: Table(
        about="C++ and CUDA C++.",
        struct=CppCuda,
        keys=_component_keys(
            *_CPP_KEYS,
            _CUDA_CAPABILITIES,
            Key(name="cuda-flags", type=_FLAGS, about="Flags for nvcc."),
            Key(name="cuda-minver", type=VersionText(), about="The oldest CUDA that the component is built with."),
        ),
    ),
    Backend.METAL: Table(about="C++, Objective-C++ and Metal.", struct=CppMetal, keys=_component_keys(*_CPP_KEYS)),
    Backend.ROCM: Table(
        about="C++ and HIP.",
        struct=CppRocm,
        keys=_component_keys(
            *_CPP_KEYS,
            Key(name="rocm-archs", type=_ARCHS, about="The ROCm archs to build for, such as `gfx942`."),
            Key(name="hip-flags", type=_FLAGS, about="Flags for the HIP compiler."),
        ),
    ),
    Backend.XPU: Table(
        about="C++ and SYCL.",
        struct=CppXpu,
        keys=_component_keys(*_CPP_KEYS, Key(name="sycl-flags", type=_FLAGS, about="Flags for the SYCL compiler.")),
    ),
}
_RUST_TABLES = {
    "rust-cpu": Table(about="A Rust crate for the CPU.", struct=RustCpu, keys=_component_keys(*_RUST_KEYS)),
    "rust-cuda": Table(
        about="A Rust crate with device code for CUDA.",
        struct=RustCuda,
        keys=_component_keys(
            *_RUST_KEYS,
            _CUDA_CAPABILITIES,
            Key(
                name="dsl",
                type=Choice("device language", tuple(dsl.value for dsl in Dsl), Dsl),
                about="How the device code is written: with `cutile` (the default), `nvptx` or `cuda-oxide`.",
            ),
            Key(
                name="device-manifest",
                type=SourcePath(example='"device/Cargo.toml"'),
                about="The Cargo.toml of the crate with the device code, where that is a crate of its own.",
            ),
        ),
    ),
}

COMPONENTS = Components(
    by_backend={backend.value: table for backend, table in _CPP_TABLES.items()},
    by_language={f"cpp-{backend}": table for backend, table in _CPP_TABLES.items()} | _RUST_TABLES,
)

FRAMEWORKS: Final = ("torch", "torch-noarch", "tvm-ffi")

DOCUMENT = Table(
    about="One kernel: a folder with this file, sources and a Python package.",
    struct=dict,
    keys=(
        Key(name="general", type=GENERAL, required=True, about=GENERAL.about),
        Key(name="torch", type=TORCH, about=TORCH.about),
        Key(name="torch-noarch", type=TORCH_NOARCH, first=4, about=TORCH_NOARCH.about),
        Key(name="tvm-ffi", type=TVM_FFI, about=TVM_FFI.about),
        Key(name="kernel", type=COMPONENTS, about="The kernel components, each under a name of its own."),
    ),
)
