"""The compilers and libraries of this machine, found once and remembered.

A toolchain's identity is what changes an artifact: resolved versions and targets, never the path by which something
was found. torch and tvm-ffi are read as files: importing torch takes seconds, and its CMake package insists on a CUDA
toolkit that a CPU build has no use for.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import importlib.util
import platform
import re
import shutil
import sys
import sysconfig
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from buildlib import capability, cuda, depends, environment, lock, process, provision
from buildlib.config.model import Dsl
from buildlib.cuda import Cuda
from buildlib.data import read
from buildlib.depends import Dependency
from buildlib.environment import Settings
from buildlib.errors import ToolchainError
from buildlib.lock import Locked
from buildlib.probes import remembered
from buildlib.rust import dsl
from buildlib.rust import toolchain as rust
from buildlib.rust.dsl import DeviceCompiler
from buildlib.rust.toolchain import Rust
from buildlib.variant import Compute, Platform, Version

# In place of a policy's name, in the identity of a toolchain that links for this machine alone.
NOT_PORTABLE = "not portable"
# The name of CUDA's headers and runtime among the libraries, after what made them: the identity has its version.
RUNTIME = "nvcc"


class Compiler(msgspec.Struct, frozen=True, kw_only=True):
    """A C++ compiler: `family` is gcc or clang, `target` its triple."""

    path: str
    family: str
    version: str
    target: str

    @property
    def identity(self) -> str:
        return f"{self.family} {self.version} {self.target}"


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """A library to compile and link against: absolute include folders and library files."""

    name: str
    version: str
    includes: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        # The local part, `+cu130` or `+cpu`, is another packaging of the same release; a CPU extension links only
        # what all of them share.
        return f"{self.name} {self.version.partition('+')[0]}"


class Portability(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What a binary may ask of the machine that loads it.

    `symbol_versions` holds the newest allowed symbol version by the prefix of its name: `{"GLIBC": "2.28"}`.
    """

    policy: str
    symbol_versions: dict[str, str]

    @property
    def identity(self) -> str:
        versions = ", ".join(f"{prefix} {version}" for prefix, version in sorted(self.symbol_versions.items()))
        return f"{self.policy} ({versions})"


class Toolchain(msgspec.Struct, frozen=True, kw_only=True):
    """What one build spec is compiled with; `portability` is None for a binary that need run on this machine only.

    `locked` is what must be provisioned before anything is compiled.
    """

    compiler: Compiler
    libraries: tuple[Library, ...]
    portability: Portability | None
    rust: Rust | None = None
    cmake: str
    ninja: str
    cuda: Cuda | None = None
    # Of the device languages that its components are written in.
    dsls: dict[Dsl, DeviceCompiler] = {}
    locked: tuple[Locked, ...] = ()

    @property
    def torch_elsewhere(self) -> str | None:
        """The torch that it is for, where that is not the one of this environment: what is built cannot be loaded."""
        return next((locked.id for locked in self.locked if locked.version("torch")), None)

    @property
    def identity(self) -> tuple[str, ...]:
        portability = self.portability.identity if self.portability else NOT_PORTABLE
        rust = (self.rust.identity,) if self.rust else ()
        dsls = (self.dsls[dsl].identity for dsl in sorted(self.dsls))
        return (self.compiler.identity, *(library.identity for library in self.libraries), *rust, *dsls, portability)


class Torch(msgspec.Struct, frozen=True, kw_only=True):
    """A torch; `cuda` is the CUDA version that it was built for, None for one without.

    `locked` is what it is provisioned from, None for the one of this environment. `cuda_headers` are folders of the
    headers of CUDA's libraries, such as cuBLAS, that its own headers include.
    """

    version: str
    cuda: str | None
    root: Path
    locked: Locked | None = None
    cuda_headers: tuple[str, ...] = ()

    def library(self, *, with_cuda: bool = False) -> Library:
        """What an extension compiles and links against: without CUDA, no more than every flavour of the release has."""
        return _torch_library(self, with_cuda)


@functools.cache
def _torch_library(torch: Torch, with_cuda: bool) -> Library:  # noqa: FBT001 - a key of the cache
    include = torch.root / "include"
    names = ("libtorch_cuda.so", "libc10_cuda.so") if with_cuda else ()
    return Library(
        name="torch",
        version=torch.version,
        includes=(str(include), str(include / "torch/csrc/api/include")),
        libraries=tuple(str(torch.root / "lib" / name) for name in ("libtorch_cpu.so", "libc10.so", *names)),
    )


def runtime(toolkit: Cuda, others: tuple[str, ...] = ()) -> Library:
    """The headers and the runtime library of a CUDA toolkit, with other folders of CUDA's headers behind its own."""
    return Library(
        name=RUNTIME,
        version=toolkit.nvcc,
        includes=(str(toolkit.root / "include"), str(toolkit.root / "include/cccl"), *others),
        libraries=(str(toolkit.root / "lib64/libcudart.so"),),
    )


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine and this Python environment can build with; a part that is missing says why."""

    platform: Platform | None
    portability: Portability | None
    compiler: Compiler | str
    torch: Torch | str
    tvm_ffi: Library | str
    python: Library
    # By the channel that a kernel asks for.
    rust: dict[str, Rust | str] = {}
    # By device language, its compiler or why there is none.
    dsls: dict[Dsl, DeviceCompiler | str] = {}
    cmake: str
    ninja: str
    # By version, a toolkit or the reason why there is none.
    cuda: dict[Version, Cuda | str] = {}
    # The torches that can be provisioned beside the environment's own.
    torches: tuple[Torch, ...] = ()
    # What components may depend on, by the name in build.toml, or why it cannot be had.
    depends: dict[str, Dependency | str] = {}
    # All that can be provisioned, by id; and why some of it cannot, after all.
    locked: dict[str, Locked] = {}
    lacking: dict[str, str] = {}


def probe(
    settings: Settings,
    data: Path,
    *,
    portable: bool = True,
    channels: Collection[str] = (),
    dsls: Collection[Dsl] = (),
) -> Host:
    """Find what this machine has.

    `data` is the folder toolchains/; `portable` is whether binaries are for others too; `channels` are those of Rust
    that kernels ask for, none where no kernel is in Rust, and `dsls` the device languages that they use.

    Raises:
        ToolchainError: a file in `data` cannot be used, cmake or ninja is missing from the environment, or the cache
            cannot be a folder.
    """
    _check_cache(settings.cache)
    platform = _platform()
    platforms = read(data / "platforms.toml", dict[Platform, Portability])
    locked = lock.load(data / "lock.toml", platform)
    torch = _torch()
    dependencies = depends.find(settings, data / "deps.toml", locked)
    of_depends = [each.locked for each in dependencies.values() if isinstance(each, Dependency) and each.locked]
    everything = locked | {each.id: each for each in of_depends}
    return Host(
        platform=platform,
        portability=platforms.get(platform) if platform and portable else None,
        compiler=_compiler(settings, read(data / "host.toml", _HostFile).cxx),
        torch=torch,
        tvm_ffi=_tvm_ffi(),
        python=_python(),
        rust=_rust(settings, data, channels),
        dsls=dsl.find(settings, data / "dsl.toml", locked, dsls),
        cmake=_tool("cmake", "cmake/data/bin/cmake"),
        ninja=_tool("ninja", "ninja/data/bin/ninja"),
        cuda=cuda.find(settings, data / "cuda.toml", locked),
        torches=tuple(_provisionable(settings, locked, torch)),
        depends=dependencies,
        locked=everything,
        lacking={name: why for name, each in everything.items() if (why := provision.lacks(each, settings))},
    )


def _check_cache(cache: Path) -> None:
    present = next(folder for folder in (cache, *cache.parents) if folder.exists())
    if not present.is_dir():
        raise ToolchainError(f"{cache}: {present} is not a folder; remove it, or set KERNELYARD_CACHE to another place")


def _rust(settings: Settings, data: Path, channels: Collection[str]) -> dict[str, Rust | str]:
    if not channels:
        return {}
    return rust.probe(settings, data.parent, read(data / "rust.toml", rust.Requirements), channels)


class _Requirements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    gcc: str
    clang: str
    install: str


class _HostFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cxx: _Requirements


def devices(words: str, settings: Settings) -> tuple[str, ...]:
    """The CUDA capabilities in a developer's list, `9.0,12.0`; `native` are those of this machine's devices.

    Raises:
        ToolchainError: one is not known, or there is no device.
    """
    named = [word for word in re.split(r"[,;\s]+", words) if word]
    if "native" in named:
        query = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
        present = (process.output(query, env=environment.child(settings)) or "").split()
        if not present:
            raise ToolchainError("--cuda-capabilities native: nvidia-smi finds no device; name a capability, as in 9.0")
        named = [word for word in named if word != "native"] + present
    if strange := capability.unknown(named):
        raise ToolchainError(
            f"--cuda-capabilities {words}: no version of CUDA compiles for {', '.join(strange)}; name one as in 9.0"
        )
    return capability.in_order(word.removesuffix("+PTX") for word in named)


def _platform() -> Platform | None:
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    name = f"{machine}-{platform.system().lower()}"
    return next((known for known in Platform if known == name), None)


def _compiler(settings: Settings, required: _Requirements) -> Compiler | str:
    names = (settings.cxx,) if settings.cxx else ("c++", "g++", "clang++")
    path = next((found for name in names if (found := shutil.which(name, path=settings.passed.get("PATH")))), None)
    if path is None:
        asked = f"CXX names {settings.cxx!r}, which" if settings.cxx else "a C++ compiler"
        return f"{asked} is not on this machine; {required.install}"
    compiler = remembered(settings, "cxx", Path(path), Compiler, lambda: _ask(settings, path))
    if compiler is None:
        return f"{path} does not answer as gcc or clang do; {required.install}"
    oldest = required.clang if compiler.family == "clang" else required.gcc
    if Version.parse(compiler.version) < Version.parse(oldest):
        return f"{path} is {compiler.family} {compiler.version}, older than {oldest}; {required.install}"
    return compiler


def _ask(settings: Settings, path: str) -> Compiler | None:
    env = environment.child(settings)
    macros = process.output([path, "-dM", "-E", "-x", "c++", "/dev/null"], env=env)
    target = process.output([path, "-dumpmachine"], env=env)
    if macros is None or target is None:
        return None
    values = dict(re.findall(r"#define (__(?:clang|GNUC)_*[a-z_A-Z]*) (\d+)$", macros, re.MULTILINE))
    family, names = (
        ("clang", ("__clang_major__", "__clang_minor__", "__clang_patchlevel__"))
        if "__clang_major__" in values
        else ("gcc", ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__"))
    )
    if names[0] not in values:
        return None
    version = ".".join(values.get(name, "0") for name in names)
    return Compiler(path=path, family=family, version=version, target=target.strip())


def _torch() -> Torch | str:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return "torch is not in this Python environment; install it, for instance with 'pip install torch'"
    root = Path(spec.origin).parent
    values: dict[str, object] = {}
    for node in ast.parse((root / "version.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                values[target.id] = node.value.value
    built_for = values.get("cuda")
    return Torch(
        version=str(values["__version__"]),
        cuda=str(built_for) if built_for else None,
        root=root,
        cuda_headers=_cuda_headers(root.parent, str(built_for)) if built_for else (),
    )


def _cuda_headers(packages: Path, version: str) -> tuple[str, ...]:
    """The headers that torch's own dependencies bring into the same environment."""
    folder = packages / "nvidia" / f"cu{Version.parse(version).major}" / "include"
    return (str(folder),) if (folder / "cublas_v2.h").is_file() else ()


def _provisionable(settings: Settings, locked: dict[str, Locked], present: Torch | str) -> Iterator[Torch]:
    """The torches in lock.toml: `torch-2.12-cu130`."""
    for name, wheels in locked.items():
        match = re.fullmatch(r"torch-[\d.]+-(cu\d+)", name)
        version = wheels.version("torch")
        if match and version:
            built_for = Compute.parse(match[1]).version
            same = isinstance(present, Torch) and present.cuda == str(built_for)
            yield Torch(
                version=version,
                cuda=str(built_for),
                root=wheels.folder(settings.cache) / "torch",
                locked=wheels,
                cuda_headers=present.cuda_headers if same and isinstance(present, Torch) else (),
            )


def _tvm_ffi() -> Library | str:
    spec = importlib.util.find_spec("tvm_ffi")
    if spec is None or spec.origin is None:
        return "tvm-ffi is not in this Python environment; install it with 'pip install apache-tvm-ffi'"
    root = Path(spec.origin).parent
    return Library(
        name="tvm-ffi",
        version=importlib.metadata.version("apache-tvm-ffi"),
        includes=(str(root / "include"),),
        libraries=(str(root / "lib/libtvm_ffi.so"),),
    )


def _python() -> Library:
    """Python's headers, for the few sources that include Python.h; nothing of Python is linked."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Library(name="python", version=version, includes=(sysconfig.get_path("include"),))


def _tool(name: str, inside_wheel: str) -> str:
    """A build tool's program: the one inside its wheel, which starts without Python, else the one on PATH."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        program = Path(spec.submodule_search_locations[0]).parent / inside_wheel
        if program.is_file():
            return str(program)
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise ToolchainError(f"{name}: not found; install it with 'pip install {name}'")
    return found
