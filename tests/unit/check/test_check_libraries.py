"""The checks of what a shared library asks of its loader, on libraries that were never linked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from buildlib.check import build_paths, exports, needed, python_abi, run_path, symbols, torch_abi
from buildlib.check.elf import Version as NeededVersion
from buildlib.check.finding import Outcome
from buildlib.check.subject import Subject
from buildlib.config.model import Torch
from buildlib.plan import BuildSpec
from buildlib.toolchain import Torch as HostTorch
from buildlib.variant import Backend, Compute, TorchVariant, Version
from buildlib.workspace import Workspace
from tests.unit.check.subjects import (
    EXTENSION,
    ID,
    PORTABLE,
    library,
    messages,
    metadata,
    reasons,
    subject,
)
from tests.unit.factories import HOST, host, kernel, noarch, spec, tvm_ffi, write_files

LIBC = frozenset({"stat", "memcpy"})


def of_libc(name: str) -> bool:
    return name in LIBC


def on_cuda() -> BuildSpec:
    """The spec of a CUDA variant, which no machine without a toolkit plans."""
    made = spec(kernel(), on=PORTABLE)
    assert isinstance(made.variant, TorchVariant)
    return msgspec.structs.replace(made, variant=msgspec.structs.replace(made.variant, compute=Compute.parse("cu130")))


# --- symbol versions ---


def symbol_findings(*wanted: str) -> list[str]:
    return messages(symbols.check(subject(None, library(*wanted)), of_libc))


@pytest.mark.parametrize(
    "wanted",
    [
        "memcpy@GLIBC_2.14", "stat@GLIBC_2.28", "_Znwm@GLIBCXX_3.4.24", "x@CXXABI_1.3.11", "x@GCC_7.0", "x@GCC_7.0.0",
        # Of a library whose versions nothing limits, and of none: torch, Python.
        "cudaMalloc@libcudart.so.13", "aoti_torch_get_dim", "PyModule_Create2",
        # Without a weak one a library loads all the same.
        "?stat",
    ],
)  # fmt: skip
def test_a_symbol_that_older_systems_have(wanted: str) -> None:
    assert symbol_findings(wanted) == []


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("memcpy@GLIBC_2.29", "newer than 2.28"),
        ("memcpy@GLIBC_2.100", "newer than 2.28"),
        ("x@GLIBCXX_3.4.25", "newer than 3.4.24"),
        ("x@GLIBCXX_3.5", "newer than 3.4.24"),
        ("x@CXXABI_1.3.12", "newer than 1.3.11"),
        ("x@GCC_7.0.1", "newer than 7.0.0"),
        ("x@GLIBC_PRIVATE", "which no release promises to keep"),
    ],
)
def test_a_symbol_that_is_too_new(wanted: str, why: str) -> None:
    name, _, version = wanted.partition("@")
    said = f"{EXTENSION}: needs {version} of libc.so.6 for {name}, {why}; do without it, or have it linked in"
    assert symbol_findings(wanted) == [said]


def test_one_finding_for_all_users_of_a_version() -> None:
    (said,) = symbol_findings(*(f"function{number}@GLIBC_2.34" for number in range(6)))
    assert "for function0, function1, function2, function3 and 2 more, newer" in said


def test_a_version_that_no_symbol_needs() -> None:
    relocations = NeededVersion("GLIBC_ABI_DT_RELR", "libc.so.6")
    (said,) = messages(symbols.check(subject(None, library(versions=(relocations,))), of_libc))
    assert said.startswith(f"{EXTENSION}: needs GLIBC_ABI_DT_RELR of libc.so.6, which the loader of an older system ")


def test_a_symbol_of_libc_without_a_version() -> None:
    (said,) = symbol_findings("stat", "aoti_torch_get_dim")
    assert said.startswith(f"{EXTENSION}: takes stat of the C or C++ library without a version, so")


def test_what_this_machine_s_libraries_export() -> None:
    exported = symbols.of_this_machine()
    assert exported("memcpy")
    assert exported("pthread_create")
    assert not exported("aoti_torch_get_dim")


def test_what_is_built_for_this_machine_alone_may_need_anything() -> None:
    made = spec(kernel(), on=HOST)
    left_out = reasons(symbols.check(subject(made, library("memcpy@GLIBC_2.99")), of_libc))
    assert left_out == ["built with --no-portable, for this machine alone"]


def test_a_library_that_came_with_the_kernel_is_held_to_the_same() -> None:
    vendored = library("f@GLIBC_2.29", path="vendored.so")
    (said,) = messages(symbols.check(subject(spec(noarch()), vendored), of_libc))
    assert said.startswith("vendored.so: needs GLIBC_2.29 of libc.so.6 for f, newer than 2.28")


def test_a_library_for_a_machine_that_no_platform_has() -> None:
    (said,) = messages(symbols.check(subject(None, library(machine="EM_RISCV")), of_libc))
    assert said.startswith(f"{EXTENSION}: made for EM_RISCV, which no platform here is")


# --- Python's stable ABI ---


@pytest.mark.parametrize("name", ["PyModule_Create2", "PyType_FromModuleAndSpec", "_Py_Dealloc", "PyExc_ValueError"])
def test_a_symbol_of_the_stable_abi(name: str) -> None:
    added_later = {"PyType_FromModuleAndSpec"}
    assert len(messages(python_abi.check(subject(None, library(name))))) == len({name} & added_later)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("PyBuffer_Release", "is in CPython's stable ABI from 3.11 on; use one that Python 3.9 has"),
        ("PyModule_AddObjectRef", "is in CPython's stable ABI from 3.10 on; use one that Python 3.9 has"),
        ("_PyLong_AsByteArray", "is not in CPython's stable ABI; use a function that is"),
        ("PyUnicode_AsUTF8AndSize", "is in CPython's stable ABI from 3.10 on; use one that Python 3.9 has"),
    ],
)
def test_a_symbol_that_python_3_9_does_not_promise(name: str, said: str) -> None:
    (found,) = messages(python_abi.check(subject(None, library(name))))
    assert found.startswith(f"{EXTENSION}: {name} {said}")


# --- torch's stable ABI ---

HEADER = """\
#ifndef GUARD
#define AOTI_TORCH_EXPORT __attribute__((visibility("default")))
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_always(int32_t* out);
// AOTI_TORCH_EXPORT void aoti_torch_in_a_comment();
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_11_0
AOTI_TORCH_EXPORT AOTITorchError
torch_from_2_11(
    int32_t* out);
#ifdef USE_CUDA
AOTI_TORCH_EXPORT void torch_cuda_from_2_11();
#endif // USE_CUDA
#endif // TORCH_FEATURE_VERSION >= TORCH_VERSION_2_11_0
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
AOTI_TORCH_EXPORT void torch_from_2_13();
#else
AOTI_TORCH_EXPORT void torch_before_2_13();
#endif
#endif
"""


def test_the_headers_say_since_when() -> None:
    since = {name: str(version) for name, version in torch_abi.declared(HEADER) if name.startswith(("aoti", "torch"))}
    assert since == {
        "aoti_torch_always": "0.0",
        "torch_from_2_11": "2.11",
        "torch_cuda_from_2_11": "2.11",
        "torch_from_2_13": "2.13",
        "torch_before_2_13": "0.0",
    }


@pytest.fixture
def stable(tmp_path: Path) -> Callable[..., Subject]:
    """A function that makes an artifact for the stable ABI of torch 2.11, whose extension needs the symbols given."""
    root = write_files(tmp_path / "torch", {"include/torch/csrc/stable/c/shim.h": HEADER})
    on = msgspec.structs.replace(PORTABLE, torch=HostTorch(version="2.13.0", cuda=None, root=root))
    made = spec(kernel(Torch(stable_abi={Backend.CPU: Version(2, 11)})), on=on)
    return lambda *wanted: subject(made, library(*wanted))


@pytest.mark.parametrize(
    "name", ["aoti_torch_always", "torch_from_2_11", "_ZNSt6vectorIiSaIiEEC1Ev", "PyModule_Create2", "_ZN6torchy1fEv"]
)
def test_a_symbol_of_torch_s_stable_abi(stable: Callable[..., Subject], name: str) -> None:
    assert messages(torch_abi.check(stable(name))) == []


_NOT_STABLE = "is not of torch's stable ABI; include only torch/csrc/stable and torch/headeronly"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torch_from_2_13", "is in torch from 2.13 on; raise [torch] stable-abi from 2.11, or avoid it"),
        ("torch_of_no_header", _NOT_STABLE),
        ("_ZN3c105ErrorC1ENS_14SourceLocationESs", _NOT_STABLE),
        ("_ZNK2at10TensorBase3dimEv", _NOT_STABLE),
        ("_ZTIN3c105ErrorE", _NOT_STABLE),
        ("_ZN5torch7Library4_defEv", _NOT_STABLE),
        ("_Z3addRKN2at6TensorES2_", _NOT_STABLE),
    ],
)
def test_a_symbol_of_torch_that_may_change(stable: Callable[..., Subject], name: str, said: str) -> None:
    assert messages(torch_abi.check(stable(name))) == [f"{EXTENSION}: {name} {said}"]


def test_other_variants_use_what_they_like_of_torch() -> None:
    left_out = reasons(torch_abi.check(subject(None, library("_ZNK2at10TensorBase3dimEv"))))
    assert left_out == ["not a torch-stable-abi variant"]


# --- the libraries that are named ---


@pytest.mark.parametrize("name", ["libc.so.6", "libstdc++.so.6", "libtorch_cpu.so", "libgomp.so.1"])
def test_a_library_that_is_there(name: str) -> None:
    assert messages(needed.check(subject(None, library(needed=(name,))))) == []


@pytest.mark.parametrize("name", ["libpython3.11.so.1.0", "libcudart.so.13", "libtvm_ffi.so", "libopenblas.so.0"])
def test_a_library_that_may_not_be_there(name: str) -> None:
    (said,) = messages(needed.check(subject(None, library(needed=(name,)))))
    assert said.startswith(f"{EXTENSION}: needs the shared library {name}, which a torch kernel for cpu may not count")


def test_each_backend_has_its_own() -> None:
    assert messages(needed.check(subject(on_cuda(), library(needed=("libcudart.so.13", "libtorch.so"))))) == []


@pytest.mark.parametrize("name", ["libcudart.so.12", "libcublas.so.12"])
def test_a_library_of_another_cuda(name: str) -> None:
    (said,) = messages(needed.check(subject(on_cuda(), library(needed=(name, "libcusparse.so.12")))))
    assert f"needs the shared library {name}, which a torch kernel for cuda 13.0 may not count on" in said


def test_folders_to_search() -> None:
    (said,) = messages(run_path.check(subject(None, library(run_paths=("/opt/lib:$ORIGIN",)))))
    assert said == f"{EXTENSION}: makes the loader search /opt/lib:$ORIGIN; drop -rpath from what it is linked with"


# --- paths of the machine that built ---


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"\0/home/ada/kernels/relu.cpp\0", "/home/ada/kernels/relu.cpp"),
        (b"\0/Users/ada/x.h:12\0", "/Users/ada/x.h:12"),
        (b"/root/work/relu.cpp\0", "/root/work/relu.cpp"),
        (b"at /builds/yard/kernels/relu.cpp\0", "/builds/yard/kernels/relu.cpp"),
        (b"relu/csrc/relu.cpp\0/home/\0/proc/self/maps\0/builds/yardstick/x\0", None),
    ],
)
def test_a_path_in_a_library(text: bytes, found: str | None) -> None:
    folders = (Path("/builds/yard"), Path("/"), Path("/tmp"))
    assert build_paths.first(library(content=text), folders) == found


def test_the_checkout_s_path_in_a_library(workspace: Workspace) -> None:
    spelled = f"\0{workspace.root}/build/work/relu.cpp\0".encode()
    (said,) = messages(build_paths.check(subject(None, library(content=spelled)), workspace))
    assert said.startswith(f"{EXTENSION}: contains the path {workspace.root}/build/work/relu.cpp; do not spell it")


# --- exports ---

_TVM_FFI = spec(tvm_ffi(), on=PORTABLE)


def test_nothing_but_the_init_function() -> None:
    assert messages(exports.check(subject(None, library()))) == []


def test_nothing_but_functions_of_tvm_ffi() -> None:
    whole = library(path=f"{ID}.so", exports=("__tvm_ffi_relu", "__tvm_ffi_gelu"))
    assert messages(exports.check(subject(_TVM_FFI, whole))) == []


@pytest.mark.parametrize(
    ("exported", "said"),
    [
        ((), f"does not export PyInit_{ID}, by which its framework calls it; export it"),
        ((f"PyInit_{ID}", "a", "b"), f"exports a, b beside PyInit_{ID}; make them static, or hidden"),
        ((f"PyInit_{ID}", *"abcdef"), f"exports a, b, c, d and 2 more beside PyInit_{ID}; make them static, or hidden"),
        (("PyInit_other", f"PyInit_{ID}"), f"exports PyInit_other beside PyInit_{ID}; make them static, or hidden"),
    ],
)
def test_an_export_too_many_or_too_few(exported: tuple[str, ...], said: str) -> None:
    assert messages(exports.check(subject(None, library(exports=exported)))) == [f"{EXTENSION}: {said}"]


def test_a_tvm_ffi_library_without_functions() -> None:
    assert len(messages(exports.check(subject(_TVM_FFI, library(path=f"{ID}.so", exports=("relu",)))))) == 2


# --- what does not apply says so ---


@pytest.mark.parametrize(
    "check",
    [symbols.check, python_abi.check, torch_abi.check, needed.check, run_path.check, exports.check],
)
def test_without_a_library_there_is_nothing_to_check(check: Callable[[Subject], Iterator[Outcome]]) -> None:
    made = spec(noarch(), on=host())
    assert len(reasons(check(subject(made, described=metadata())))) == 1


def test_without_a_library_there_are_no_paths(workspace: Workspace) -> None:
    bare = subject(spec(noarch()))
    assert reasons(build_paths.check(bare, workspace)) == ["no compiled library"]
