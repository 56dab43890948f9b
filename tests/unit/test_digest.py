"""What makes an artifact another one, and what does not."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect

from buildlib import digest
from buildlib.config.model import BackendGeneral, Hub, KernelDepend, Torch, TorchNoarch
from buildlib.digest import extension_id, spec_digest
from buildlib.matrix import Matrix
from buildlib.plan import BuildSpec
from buildlib.toolchain import Compiler, Library, Portability
from buildlib.variant import Backend, Version

from .factories import GCC, compiled, cpu, cuda, host, kernel, noarch, plan, row, spec, torch, tvm_ffi

_CPU, _CUDA = Backend.CPU, Backend.CUDA
_HASHES = {"csrc/relu.cpp": "1" * 64, "torch-ext/binding.cpp": "2" * 64}
_BINDING = ("torch-ext/binding.cpp",)


_MANYLINUX = Portability(policy="manylinux_2_28", symbol_versions={"GLIBC": "2.28"})


def _gcc(**changes: str) -> Compiler:
    return msgspec.structs.replace(GCC, **changes)


def _python(version: str) -> Library:
    return Library(name="python", version=version)


def _base() -> BuildSpec:
    return spec(kernel(None, cpu("csrc/relu.cpp")))


_CHANGES: dict[str, BuildSpec] = {
    "name": spec(kernel(name="gelu")),
    "version": spec(kernel(version=2)),
    "license": spec(kernel(license="Apache-2.0")),
    "upstream": spec(kernel(upstream="https://example.org/relu.git")),
    "source": spec(kernel(source="https://example.org/relu.git")),
    "Python packages": spec(kernel(python_depends=("einops",))),
    "Python packages of the backend": spec(kernel(by_backend={_CPU: BackendGeneral(python_depends=("einops",))})),
    "kernels that it loads": spec(kernel(kernel_depends=(KernelDepend(repo_id="org/a", version=1),))),
    "flag of the framework": spec(kernel(Torch(src=_BINDING, cxx_flags=("-O2",)))),
    "include folder of the framework": spec(kernel(Torch(src=_BINDING, include=(".",)))),
    "kinds of files that ship": spec(kernel(Torch(src=_BINDING, pyext=("json",)))),
    "stable ABI": spec(kernel(Torch(src=_BINDING, stable_abi={_CPU: Version(2, 11)}))),
    "flag of the component": spec(kernel(None, cpu("csrc/relu.cpp", cxx_flags=("-O2",)))),
    "include folder of the component": spec(kernel(None, cpu("csrc/relu.cpp", include=("csrc",)))),
    "list of sources": spec(kernel(None, cpu("csrc/other.cpp"))),
    "a second component": spec(kernel(None, cpu("csrc/relu.cpp"), cpu("csrc/b.cpp", name="b"))),
    "framework": spec(tvm_ffi()),
    "torch release": spec(kernel(), matrix=Matrix(torch=(row("2.12"),)), on=host(torch=torch("2.12.0"))),
    "torch patch release": spec(kernel(), on=host(torch=torch("2.13.1"))),
    "compiler's version": spec(kernel(), on=host(compiler=_gcc(version="12.3.0"))),
    "compiler's family": spec(kernel(), on=host(compiler=_gcc(family="clang"))),
    "compiler's target": spec(kernel(), on=host(compiler=_gcc(target="aarch64-linux-gnu"))),
    "symbol versions that are allowed": spec(kernel(), on=host(portability=_MANYLINUX)),
    "Python, whose headers an extension may include": spec(kernel(), on=host(python=_python("3.13"))),
}

_KEEPS: dict[str, BuildSpec] = {
    "folder": spec(kernel(folder=Path("/elsewhere/kernels/renamed"))),
    "Hub branch and repository": spec(kernel(hub=Hub(repo_id="org/relu", branch="next"))),
    "another backend": compiled(kernel(backends=(_CPU, Backend.TPU))),
    "another backend's component": compiled(
        kernel(None, cpu("csrc/relu.cpp"), cuda("csrc/relu.cu"), backends=(_CPU, _CUDA))
    ),
    "another backend's Python packages": spec(kernel(by_backend={_CUDA: BackendGeneral(python_depends=("einops",))})),
    "another backend's bounds": spec(kernel(by_backend={_CUDA: BackendGeneral(minver=Version(12, 8))})),
    "another backend's stable ABI": spec(kernel(Torch(src=_BINDING, stable_abi={_CUDA: Version(2, 11)}))),
    "torch's packaging": spec(kernel(), on=host(torch=torch("2.13.0+cu130"))),
    "path of the compiler": spec(kernel(), on=host(compiler=_gcc(path="/opt/bin/g++"))),
    "paths of CMake and ninja": spec(kernel(), on=host(cmake="/opt/cmake", ninja="/opt/ninja")),
    "a tvm-ffi that is not used": spec(kernel(), on=host(tvm_ffi=Library(name="tvm-ffi", version="0.2.0"))),
    "other rows of the matrix": spec(
        kernel(), matrix=Matrix(torch=(row("2.12"), row("2.13", "rocm71"), row("2.13"))), on=host()
    ),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_makes_another_artifact(change: str) -> None:
    assert spec_digest(_CHANGES[change], _HASHES) != spec_digest(_base(), _HASHES)


@pytest.mark.parametrize("change", _KEEPS)
def test_makes_the_same_artifact(change: str) -> None:
    assert spec_digest(_KEEPS[change], _HASHES) == spec_digest(_base(), _HASHES)


@pytest.mark.parametrize(
    "hashes",
    [
        {**_HASHES, "csrc/relu.cpp": "3" * 64},
        {**_HASHES, "csrc/relu.h": "3" * 64},
        {"torch-ext/binding.cpp": "2" * 64},
        {"csrc/moved.cpp": "1" * 64, "torch-ext/binding.cpp": "2" * 64},
        {"csrc/relu.cpp": "2" * 64, "torch-ext/binding.cpp": "1" * 64},
    ],
    ids=["a content", "a file more", "a file less", "a path", "two contents exchanged"],
)
def test_inputs_make_another_artifact(hashes: dict[str, str]) -> None:
    assert spec_digest(_base(), hashes) != spec_digest(_base(), _HASHES)


def test_order_in_which_inputs_were_found_is_not_covered() -> None:
    assert spec_digest(_base(), dict(reversed(_HASHES.items()))) == spec_digest(_base(), _HASHES)


def test_order_of_flags_is_covered() -> None:
    one, other = (spec(kernel(None, cpu(cxx_flags=flags))) for flags in (("-a", "-b"), ("-b", "-a")))
    assert spec_digest(one, {}) != spec_digest(other, {})


def test_order_of_keys_is_not_covered() -> None:
    abi = {_CPU: Version(2, 11), _CUDA: Version(2, 10)}
    one, other = (spec(kernel(Torch(stable_abi=dict(items)))) for items in (abi.items(), reversed(abi.items())))
    assert spec_digest(one, {}) == spec_digest(other, {})


def test_python_is_not_covered_where_nothing_of_python_is_compiled() -> None:
    one, other = (spec(tvm_ffi(), on=host(python=_python(version))) for version in ("3.11", "3.13"))
    assert spec_digest(one, {}) == spec_digest(other, {})


def test_tvm_ffi_is_covered_where_it_is_used() -> None:
    one, other = (
        spec(tvm_ffi(), on=host(tvm_ffi=Library(name="tvm-ffi", version=version))) for version in ("0.1.15", "0.1.16")
    )
    assert spec_digest(one, {}) != spec_digest(other, {})


def test_no_toolchain_is_covered_where_nothing_is_compiled() -> None:
    one, other = (
        spec(noarch(), on=each)
        for each in (host(), host(compiler="missing", torch=torch("1.0"), python=_python("3.9")))
    )
    assert spec_digest(one, {}) == spec_digest(other, {})


def test_variants_differ() -> None:
    one, other = plan(noarch(backends=(_CPU, _CUDA))).specs
    assert spec_digest(one, {}) != spec_digest(other, {})


def test_another_backends_archs_are_not_covered() -> None:
    def of_rocm(*capabilities: str) -> BuildSpec:
        noarch_kernel = noarch(backends=(Backend.ROCM,))
        framework = TorchNoarch(cuda_capabilities=capabilities, rocm_archs=("gfx942",))
        return spec(msgspec.structs.replace(noarch_kernel, framework=framework))

    assert spec_digest(of_rocm("8.0"), {}) == spec_digest(of_rocm("9.0"), {})


def test_no_set_can_bring_in_the_order_of_hashing() -> None:
    """The order of a set of strings differs between two processes, and so would the digest of what holds one."""
    found: list[str] = []
    seen: set[type] = set()

    def walk(kind: inspect.Type, path: str) -> None:
        if isinstance(kind, inspect.SetType | inspect.FrozenSetType):
            found.append(path)
        if isinstance(kind, inspect.StructType):
            if kind.cls in seen:
                return
            seen.add(kind.cls)
            for field in kind.fields:
                walk(field.type, f"{path}.{field.name}")
        for part in ("item_type", "key_type", "value_type"):
            if isinstance(inner := getattr(kind, part, None), inspect.Type):
                walk(inner, path)
        for many in ("types", "item_types"):
            for inner in getattr(kind, many, ()):
                walk(inner, path)

    walk(inspect.type_info(BuildSpec), "BuildSpec")
    assert (found, len(seen) > 10) == ([], True)


# --- templates ---


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the templates that a test may edit; `this_builder.cache_clear()` makes an edit seen."""
    copy = tmp_path / "templates"
    shutil.copytree(digest.TEMPLATES, copy)
    monkeypatch.setattr(digest, "TEMPLATES", copy)
    digest.this_builder.cache_clear()
    yield copy
    digest.this_builder.cache_clear()


def _edit(template: Path) -> None:
    template.write_text(template.read_text() + "\n")
    digest.this_builder.cache_clear()


@pytest.mark.parametrize("template", ["torch/registration.h.j2", "torch/_ops.py.j2", "common/CMakeLists.txt.j2"])
def test_templates_that_are_used_are_covered(templates: Path, template: str) -> None:
    before = spec_digest(_base(), {})
    _edit(templates / template)
    assert spec_digest(_base(), {}) != before


def test_templates_of_another_family_are_not_covered(templates: Path) -> None:
    before = spec_digest(_base(), {})
    _edit(templates / "tvm_ffi/_ops.py.j2")
    _edit(templates / "noarch/_ops.py.j2")
    assert spec_digest(_base(), {}) == before


def test_place_of_the_templates_is_not_covered(templates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = spec_digest(_base(), {})
    moved = templates.rename(templates.with_name("moved"))
    monkeypatch.setattr(digest, "TEMPLATES", moved)
    digest.this_builder.cache_clear()
    assert spec_digest(_base(), {}) == before


def test_version_of_the_builder_is_covered(templates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = spec_digest(_base(), {})
    monkeypatch.setattr(digest, "builder_version", lambda: "9.9")
    digest.this_builder.cache_clear()
    assert spec_digest(_base(), {}) != before


@pytest.mark.parametrize(
    ("made", "family"), [(spec(kernel()), "torch"), (spec(tvm_ffi()), "tvm_ffi"), (spec(noarch()), "noarch")]
)
def test_family(made: BuildSpec, family: str) -> None:
    assert (digest.family(made), (digest.TEMPLATES / family).is_dir()) == (family, True)


# --- what follows from it ---


def test_extension_id_has_module_backend_and_digest() -> None:
    assert extension_id(spec(kernel(name="silu-and-mul")), "0123456789abcdef") == "_silu_and_mul_cpu_01234567"


def test_extension_id_is_a_name_in_python_and_in_c() -> None:
    made = _base()
    assert re.fullmatch(r"_[a-z0-9_]+", extension_id(made, spec_digest(made, _HASHES)))


def test_python_depends_are_the_kernels_and_then_the_backends_each_once() -> None:
    more = {
        _CPU: BackendGeneral(python_depends=("numpy", "einops")),
        _CUDA: BackendGeneral(python_depends=("nvidia-cutlass-dsl",)),
    }
    assert digest.python_depends(spec(kernel(python_depends=("einops",), by_backend=more))) == ["einops", "numpy"]


def test_kernel_depends_are_the_kernels_and_then_the_backends() -> None:
    one, two, three = (KernelDepend(repo_id=f"org/{name}", version=1) for name in "abc")
    more = {_CPU: BackendGeneral(kernel_depends=(two,)), _CUDA: BackendGeneral(kernel_depends=(three,))}
    assert digest.kernel_depends(spec(kernel(kernel_depends=(one,), by_backend=more))) == [one, two]
