"""What CUDA variants are built with, and for which devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buildlib import plan as planning
from buildlib import render
from buildlib.config.model import Dsl, Kernel, RustCuda, Torch, TvmFfi
from buildlib.cuda import Cuda
from buildlib.depends import Dependency
from buildlib.editor import OF_CUDA
from buildlib.inputs import Inputs
from buildlib.lock import Locked, Wheel
from buildlib.matrix import Matrix, Row
from buildlib.plan import BuildSpec
from buildlib.rust.dsl import Cutile
from buildlib.toolchain import Compiler, Host
from buildlib.toolchain import Torch as HostTorch
from buildlib.variant import Backend, Version

from .factories import HOST, cpu, cuda, kernel, plan, row, spec, tvm_ffi

_V126, _V130 = Version(12, 6), Version(13, 0)
_WHEELS = Locked(id="cuda-13.0", wheels=(Wheel(name="nvidia-cuda-nvcc", version="13.0.88", sha256="0", size=1),))
_TORCH_WHEEL = Locked(id="torch-2.12-cu130", wheels=(Wheel(name="torch", version="2.12.1", sha256="0", size=1),))
_CUTLASS_WHEEL = Locked(id="cutlass-3.6", wheels=())
_HERE = HostTorch(version="2.13.0+cu130", cuda="13.0", root=Path("/env/torch"), cuda_headers=("/env/cu13/include",))
_ELSEWHERE = msgspec.structs.replace(_HERE, version="2.12.1", root=Path("/cache/torch"), locked=_TORCH_WHEEL)
_TOOLKIT = Cuda(version=_V126, nvcc="12.6.20", root=Path("/usr/local/cuda-12.6"))
_CUDA_HOST = msgspec.structs.replace(
    HOST,
    torch=_HERE,
    torches=(_ELSEWHERE,),
    cuda={
        _V126: _TOOLKIT,
        _V130: Cuda(version=_V130, nvcc="13.0.88", root=Path("/cache/cuda"), locked=_WHEELS, below={"gcc": "16"}),
    },
    depends={
        "cutlass_3_6": Dependency(name="cutlass", version="3.6.0", includes=("/c/include",), locked=_CUTLASS_WHEEL),
        "cutlass_4_0": "CUTLASS 4.0.0 cannot be had",
    },
)
_STABLE = Torch(src=("torch-ext/binding.cpp",), stable_abi={Backend.CUDA: Version(2, 11)})


def _on(**changes: Any) -> Host:
    return msgspec.structs.replace(_CUDA_HOST, **changes)


def _kernel(framework: Torch | None = None, **more: Any) -> Kernel:
    return kernel(framework, cuda("csrc/a.cu", **more), backends=(Backend.CUDA,))


def _row(text: str) -> Row:
    version, compute = text.split()
    return row(version, compute)


def _spec(planned: Kernel, *rows: str, on: Host = _CUDA_HOST, **narrow: Any) -> BuildSpec:
    matrix = Matrix(torch=tuple(_row(text) for text in rows), tvm_ffi=(row("0.1", "cu130"),))
    (only,) = planning.plan((planned,), (), matrix, on, **narrow).specs
    return only


def _reason(planned: Kernel, text: str, on: Host = _CUDA_HOST) -> str:
    made = plan(planned, matrix=Matrix(torch=(_row(text),)), on=on)
    assert made.specs == ()
    (said,) = (*(each.reason for each in made.skipped), *(each.message for each in made.failed))
    return said


def _locked(of: BuildSpec) -> list[str]:
    assert of.toolchain is not None
    return [locked.id for locked in of.toolchain.locked]


# --- what it is built with ---


def test_the_environments_torch_with_a_compiler_that_is_not_there_yet() -> None:
    toolchain = _spec(_kernel(), "2.13 cu130").toolchain
    assert toolchain is not None
    assert [library.name for library in toolchain.libraries] == ["torch", "python", "nvcc"]
    assert toolchain.libraries[0].libraries[-2:] == ("/env/torch/lib/libtorch_cuda.so", "/env/torch/lib/libc10_cuda.so")
    # Behind the toolkit's own: this environment's headers of the compiler may be of another version.
    assert toolchain.libraries[2].includes == ("/cache/cuda/include", "/cache/cuda/include/cccl", "/env/cu13/include")
    assert toolchain.locked == (_WHEELS,)
    assert toolchain.torch_elsewhere is None
    assert "nvcc 13.0.88" in toolchain.identity


def test_another_torch_is_provisioned() -> None:
    made = _spec(_kernel(), "2.12 cu130")
    assert made.toolchain is not None
    assert made.toolchain.libraries[0].version == "2.12.1"
    assert _locked(made) == ["cuda-13.0", "torch-2.12-cu130"]
    assert made.toolchain.torch_elsewhere == "torch-2.12-cu130"


def test_a_stable_abi_takes_any_torch_and_no_headers_of_its_cuda() -> None:
    toolchain = _spec(_kernel(_STABLE), "2.13 cu126").toolchain
    assert toolchain is not None
    assert toolchain.libraries[2].includes == ("/usr/local/cuda-12.6/include", "/usr/local/cuda-12.6/include/cccl")
    assert toolchain.locked == ()


def test_tvm_ffi_needs_no_torch() -> None:
    made = _spec(tvm_ffi(cuda("csrc/a.cu"), backends=(Backend.CUDA,)), on=_on(torch="no torch here"))
    assert made.toolchain is not None
    assert [library.name for library in made.toolchain.libraries] == ["tvm-ffi", "nvcc"]


@pytest.mark.parametrize(
    ("sources", "locked", "libraries"),
    [((), ["tileiras"], ["tvm-ffi"]), (("csrc/a.cpp",), ["cuda-13.0", "tileiras"], ["tvm-ffi", "nvcc"])],
)
def test_tile_programs_need_no_cuda_of_the_variant(
    sources: tuple[str, ...], locked: list[str], libraries: list[str]
) -> None:
    tools = Locked(id="tileiras", wheels=())
    compiler = Cutile(
        version="13.5.37", root=Path("/t"), libclang=Path("/l"), locked=(tools,), minimum="8.0", cuda=_V130
    )
    tiles = RustCuda(name="a", cargo_manifest="Cargo.toml")
    made = _spec(kernel(TvmFfi(src=sources), tiles, backends=(Backend.CUDA,)), on=_on(dsls={Dsl.CUTILE: compiler}))
    assert made.toolchain is not None
    assert _locked(made) == locked
    assert [library.name for library in made.toolchain.libraries] == libraries
    assert made.archs["a"][:2] == ("8.0", "8.6")


@pytest.mark.parametrize(
    ("planned", "text", "on", "reason"),
    [
        # Never built with another CUDA than torch's and named after one of the two.
        (_kernel(), "2.13 cu126", _CUDA_HOST, "needs torch 2.13 for CUDA 12.6; this environment has 2.13.0+cu130"),
        (_kernel(), "2.13 cu132", _CUDA_HOST, "no toolchain for cu132 on this machine"),
        (_kernel(), "2.13 cu130", _on(cuda={_V130: "no CUDA 13.0; install it"}), "no CUDA 13.0; install it"),
        (
            _kernel(_STABLE),
            "2.13 cu130",
            _on(torch=msgspec.structs.replace(_HERE, version="2.13.0+cpu", cuda=None)),
            "needs a torch with CUDA; this environment has 2.13.0+cpu",
        ),
        (
            _kernel(),
            "2.13 cu130",
            _on(torch=msgspec.structs.replace(_HERE, cuda_headers=())),
            (
                "torch's headers need those of CUDA's libraries; install them with "
                "'pip install \"cuda-toolkit[cublas,cusparse,cusolver,curand]==13.0.*\"'"
            ),
        ),
        (
            _kernel(),
            "2.13 cu130",
            _on(compiler=Compiler(path="/g++", family="gcc", version="16.1.0", target="x86_64-linux-gnu")),
            "CUDA 13.0 refuses gcc 16.1.0; set CXX to one older than gcc 16",
        ),
        (
            _kernel(depends=("cutlass_4_0",)),
            "2.13 cu130",
            _CUDA_HOST,
            "CUTLASS 4.0.0 cannot be had",
        ),
        (_kernel(depends=("fmt",)), "2.13 cu130", _CUDA_HOST, "fmt is not in toolchains/deps.toml"),
    ],
    ids=["torch", "no data", "no toolkit", "torch without CUDA", "headers", "host compiler", "CUTLASS", "unknown"],
)
def test_skipped_with_the_reason(planned: Kernel, text: str, on: Host, reason: str) -> None:
    assert _reason(planned, text, on) == reason


def test_a_toolkit_with_all_headers_needs_none_of_the_environments() -> None:
    torch = msgspec.structs.replace(_HERE, version="2.13.0+cu126", cuda="12.6", cuda_headers=())
    toolkit = msgspec.structs.replace(_TOOLKIT, has_libraries=True)
    toolchain = _spec(_kernel(), "2.13 cu126", on=_on(torch=torch, cuda={_V126: toolkit})).toolchain
    assert toolchain is not None
    assert toolchain.libraries[2].includes == ("/usr/local/cuda-12.6/include", "/usr/local/cuda-12.6/include/cccl")


def test_a_toolkit_that_was_not_taken_is_told() -> None:
    toolkit = msgspec.structs.replace(_TOOLKIT, note="/usr/local/cuda-13.0/bin/nvcc reports CUDA 12.4")
    made = _spec(_kernel(_STABLE), "2.13 cu126", on=_on(cuda={_V126: toolkit}))
    assert made.notes == ("/usr/local/cuda-13.0/bin/nvcc reports CUDA 12.4",)


def test_what_is_in_an_index_that_nobody_named_is_not_provisioned() -> None:
    on = _on(lacking={"torch-2.12-cu130": "torch 2.12.1 is in the package index 'torch' only"})
    assert _reason(_kernel(), "2.12 cu130", on) == "torch 2.12.1 is in the package index 'torch' only"
    assert _locked(_spec(_kernel(), "2.13 cu130", on=on)) == ["cuda-13.0"]


def test_cutlass_is_provisioned_for_cuda_alone() -> None:
    made = _spec(_kernel(depends=("torch", "cutlass_3_6")), "2.13 cu130")
    assert made.toolchain is not None
    assert _locked(made) == ["cuda-13.0", "cutlass-3.6"]
    assert made.toolchain.libraries[-1].identity == "cutlass 3.6.0"
    on_cpu = spec(kernel(None, cpu("a.cpp", depends=("cutlass_4_0",))), on=_CUDA_HOST)
    assert on_cpu.toolchain is not None
    assert on_cpu.toolchain.locked == ()


# --- for which devices ---


def test_capabilities_follow_the_component_and_the_cuda() -> None:
    made = _spec(
        kernel(
            _STABLE,
            cuda("a.cu", name="near", cuda_capabilities=("9.0a", "8.0", "9.0a", "10.1")),
            cuda("b.cu", name="all"),
            backends=(Backend.CUDA,),
        ),
        "2.13 cu130",
    )
    assert made.archs["near"] == ("8.0", "9.0a")
    assert (made.archs["all"][0], made.archs["all"][-1]) == ("7.5", "12.1+PTX")
    assert made.notes == ("[kernel.near] is not compiled for 10.1: this CUDA cannot, or another serves it",)


@pytest.mark.parametrize(
    ("capabilities", "message"),
    [
        (("9.0", "11.8", "x"), "no version of CUDA compiles for '11.8', 'x'; remove or correct it"),
        (("7.0",), "CUDA 13.0 can compile none of 7.0; add one that it can, or set cuda-minver"),
    ],
)
def test_capabilities_that_fail(capabilities: tuple[str, ...], message: str) -> None:
    failed = _reason(_kernel(_STABLE, cuda_capabilities=capabilities), "2.13 cu130")
    assert failed == f"kernels/relu/build.toml: [kernel.relu_cuda] cuda-capabilities: {message}"


def test_narrowed() -> None:
    made = _spec(_kernel(_STABLE), "2.13 cu130", narrow=("9.0",))
    assert (made.archs, made.narrowed, made.dropped) == ({"relu_cuda": ("9.0",)}, ("9.0",), {})


# --- the project ---


def _project(made: BuildSpec) -> str:
    return render.project(made, Inputs(sources=("csrc/a.cu",), package=()))["CMakeLists.txt"]


def test_editors_are_told_what_clang_understands() -> None:
    flags = ("-static-global-template-stub=false", "-DX=1", "--expt-extended-lambda")
    made = _spec(_kernel(_STABLE, include=("csrc",), cuda_flags=flags), "2.13 cu130")
    text = render.project(made, Inputs(sources=("csrc/a.cu",), package=(), spell_name=frozenset({"csrc/a.cu"})))[
        OF_CUDA
    ]
    (arguments,) = json.loads(text).values()
    assert {"-std=c++20", "-D__CUDACC_VER_MAJOR__=13", "-DUSE_CUDA=1", "-DX=1", "-I../src/csrc"} <= set(arguments)
    assert arguments[arguments.index("-include") + 1] == "../gen/extension_name.h"
    assert [word for word in arguments if "template-stub" in word or "expt" in word or "gencode" in word] == []


def test_nvcc_is_told_all_file_by_file() -> None:
    flags = ("-static-global-template-stub=false", "-DX=a;b")
    text = _project(_spec(_kernel(_STABLE, cuda_capabilities=("9.0a", "12.0+PTX"), cuda_flags=flags), "2.13 cu130"))
    for part in (
        "-gencode arch=compute_90a,code=sm_90a -gencode arch=compute_120,code=sm_120",
        "-gencode arch=compute_120,code=compute_120",
        "-std=c++20 -O3",
        "-fno-gnu-unique",
        "-DUSE_CUDA=1",
        "-DTORCH_TARGET_VERSION=0x020b000000000000",
        "-DENABLE_FP8",
        '"-static-global-template-stub=false"',
        '"-DX=a\\\\;b"',
        "-objtemp",
    ):
        assert part in text
    assert "LANGUAGES CXX)" in text
    assert "__CUDA_NO_HALF" not in text


def test_an_older_nvcc_does_not_get_what_it_does_not_know() -> None:
    text = _project(_spec(_kernel(_STABLE, cuda_flags=("-static-global-template-stub=true", "-O1")), "2.13 cu126"))
    assert "template-stub" not in text
    assert "orig_src_path_name" not in text
    assert '"-O1"' in text


def test_flags_of_cxx_do_not_reach_nvcc() -> None:
    text = _project(_spec(_kernel(_STABLE, cxx_flags=("-DONLY_CXX",)), "2.13 cu130"))
    assert "ONLY_CXX" not in text
