"""The values that the editions of build.toml become."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import msgspec
import pytest

from buildlib import config
from buildlib.config import grammar, model
from buildlib.config.model import (
    BACKENDS,
    BackendGeneral,
    CppCpu,
    CppCuda,
    CppMetal,
    CppRocm,
    CppXpu,
    Dsl,
    General,
    Hub,
    Kernel,
    KernelDepend,
    RustCuda,
    Torch,
    TorchNoarch,
    TvmFfi,
)
from buildlib.config.tables import Key, Table
from buildlib.variant import Backend, Version


def _parse(folder: Path, text: str) -> Kernel:
    file = folder / "build.toml"
    file.write_text(text, encoding="utf-8")
    return config.parse(file)


def test_every_key_of_edition_5(samples: dict[str, str], tmp_path: Path) -> None:
    assert _parse(tmp_path, samples["edition-5"]) == Kernel(
        folder=tmp_path,
        general=General(
            name="every-key",
            version=2,
            license="Apache-2.0",
            backends=(Backend.CPU, Backend.CUDA, Backend.METAL, Backend.ROCM, Backend.XPU),
            upstream="https://example.org/upstream.git",
            source="git@example.org:kernels/every-key",
            kernel_depends=(
                KernelDepend(repo_id="example/one", version=1),
                KernelDepend(repo_id="example/two", revision="0123abc"),
            ),
            python_depends=("einops",),
            by_backend={
                Backend.CUDA: BackendGeneral(
                    minver=Version(12, 6),
                    maxver=Version(13, 0),
                    kernel_depends=(KernelDepend(repo_id="example/three", version=0),),
                    python_depends=("nvidia-cutlass-dsl",),
                ),
                Backend.NEURON: BackendGeneral(python_depends=("nki",)),
                Backend.TPU: BackendGeneral(),
                Backend.XPU: BackendGeneral(
                    kernel_depends=(KernelDepend(repo_id="example/four", revision="main"),), python_depends=("onednn",)
                ),
            },
            hub=Hub(repo_id="example/every-key", branch="next"),
        ),
        framework=Torch(
            src=("torch-ext/torch_binding.cpp", "torch-ext/torch_binding.h"),
            include=(".",),
            pyext=("py", "json"),
            cxx_flags=("-O2", "-DA=1"),
            minver=Version(2, 9),
            maxver=Version(2, 13),
            stable_abi={Backend.CUDA: Version(2, 11), Backend.CPU: Version(2, 10)},
        ),
        components=(
            CppCpu(
                name="on_cpu",
                depends=("torch",),
                src=("cpu/kernel.cpp",),
                include=("cpu",),
                cxx_flags=("-march=x86-64-v3",),
            ),
            CppCuda(
                name="on_cuda",
                depends=("torch", "cutlass_4_0"),
                src=("cuda/kernel.cu",),
                include=("cuda",),
                cuda_capabilities=("8.0", "9.0a"),
                cuda_flags=("-O3", "--ptxas-options=-v,-O3"),
                cuda_minver=Version(12, 8),
            ),
            CppMetal(name="on_metal", depends=("torch", "metal-cpp"), src=("metal/kernel.mm",)),
            CppRocm(
                name="on_rocm",
                depends=("torch",),
                src=("cuda/kernel.cu",),
                rocm_archs=("gfx942",),
                hip_flags=("-O3",),
            ),
            CppXpu(name="on_xpu", depends=("torch", "sycl_tla"), src=("xpu/kernel.cpp",), sycl_flags=("-O3",)),
        ),
    )


def test_edition_4_has_one_stable_abi_for_all_backends(samples: dict[str, str], tmp_path: Path) -> None:
    kernel = _parse(tmp_path, samples["edition-4"])
    assert isinstance(kernel.framework, Torch)
    assert kernel.framework.stable_abi == {Backend.CPU: Version(2, 11), Backend.CUDA: Version(2, 11)}


def test_noarch(samples: dict[str, str], tmp_path: Path) -> None:
    noarch = TorchNoarch(pyext=("py", "json"), cuda_capabilities=("9.0",), rocm_archs=("gfx942",))
    assert _parse(tmp_path, samples["noarch"]).framework == noarch
    assert _parse(tmp_path, samples["noarch"].replace("cuda_cap", "cuda-cap")).framework == noarch


def test_tvm_ffi(samples: dict[str, str], tmp_path: Path) -> None:
    kernel = _parse(tmp_path, samples["tvm-ffi"])
    assert kernel.framework == TvmFfi(
        src=("tvm-ffi-ext/binding.cpp",), include=("include",), pyext=("pyi",), cxx_flags=("-O1",)
    )
    assert kernel.components == (CppCpu(name="in quotes", src=("kernel.cpp",)),)


def test_edition_6(tmp_path: Path) -> None:
    kernel = _parse(
        tmp_path,
        """
        [general]
        name = "crate"
        version = 1
        edition = 6
        license = "MIT"
        backends = ["cuda"]
        [tvm-ffi]
        [kernel.one]
        language = "rust-cuda"
        cargo-manifest = "one/Cargo.toml"
        [kernel.two]
        language = "rust-cuda"
        cargo-manifest = "two/Cargo.toml"
        src = ["two/src"]
        depends = []
        features = ["simd"]
        cuda-capabilities = ["9.0"]
        dsl = "cuda-oxide"
        device-manifest = "two/device/Cargo.toml"
        """,
    )
    assert kernel.framework == TvmFfi()
    assert kernel.components == (
        RustCuda(name="one", cargo_manifest="one/Cargo.toml", dsl=Dsl.CUTILE),
        RustCuda(
            name="two",
            cargo_manifest="two/Cargo.toml",
            src=("two/src",),
            features=("simd",),
            cuda_capabilities=("9.0",),
            dsl=Dsl.CUDA_OXIDE,
            device_manifest="two/device/Cargo.toml",
        ),
    )
    assert {BACKENDS[type(component)] for component in kernel.components} == {Backend.CUDA}


def test_flags_are_kept_as_they_are_and_names_count_once(samples: dict[str, str], tmp_path: Path) -> None:
    text = samples["tvm-ffi"].replace('["-O1"]', '["-X", "a", "-X", "b b", ""]').replace('["cpu"]', '["cpu", "cpu"]')
    kernel = _parse(tmp_path, text)
    assert isinstance(kernel.framework, TvmFfi)
    assert kernel.framework.cxx_flags == ("-X", "a", "-X", "b b", "")
    assert kernel.general.backends == (Backend.CPU,)


def test_kernels_of_one_name_have_different_keys(samples: dict[str, str], tmp_path: Path) -> None:
    for key in ("relu", "relu-metal-cpp"):
        (tmp_path / key).mkdir()
        kernel = _parse(tmp_path / key, samples["noarch"])
        assert (kernel.key, kernel.general.name) == (key, "noarch")


def _keys(table: Table) -> dict[str, Key]:
    return {key.field: key for key in table.keys_of(grammar.NEWEST_EDITION)}


STRUCTS: dict[type[msgspec.Struct], tuple[Table, set[str]]] = {
    Torch: (grammar.TORCH, set()),
    TorchNoarch: (grammar.TORCH_NOARCH, set()),
    TvmFfi: (grammar.TVM_FFI, set()),
    **{
        component: (grammar.COMPONENTS.by_language[str(component.__struct_config__.tag)], {"name"})
        for component in BACKENDS
    },
}


@pytest.mark.parametrize("struct", STRUCTS)
def test_grammar_has_the_fields_of_the_model(struct: type[msgspec.Struct]) -> None:
    table, given = STRUCTS[struct]
    keys = _keys(table)
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    assert set(fields) - given == set(keys) - {"language"}
    required = {name for name, field in fields.items() if field.required}
    assert required - given <= {name for name, key in keys.items() if key.required}


def test_grammar_has_the_fields_of_general() -> None:
    keys = set(_keys(grammar.GENERAL)) - {"edition"}
    fields = {field.name for field in msgspec.structs.fields(General)} - {"by_backend"}
    assert keys == fields | {"cuda", "neuron", "tpu", "xpu"}


def test_model_is_made_of_json(samples: dict[str, str], tmp_path: Path) -> None:
    kernel = _parse(tmp_path, samples["edition-5"])
    assert msgspec.json.decode(msgspec.json.encode(kernel, enc_hook=str), type=Kernel, dec_hook=_path) == kernel


def _path(type_: type, value: object) -> object:
    assert type_ is Path
    return Path(str(value))


def test_corpus_keeps_its_values(corpus: list[Path]) -> None:
    for file in corpus:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        kernel = config.parse(file)
        assert [component.name for component in kernel.components] == list(document.get("kernel", {}))
        for component in kernel.components:
            raw = document["kernel"][component.name]
            assert BACKENDS[type(component)] == raw["backend"]
            assert list(component.src) == list(dict.fromkeys(raw["src"]))
            for key in ("include", "cxx-flags", "cuda-flags", "cuda-capabilities", "hip-flags", "sycl-flags"):
                assert list(getattr(component, key.replace("-", "_"), ())) == raw.get(key, [])


def test_corpus_loads_fast(corpus: list[Path]) -> None:
    small = [file for file in corpus if file.stat().st_size < 200_000]
    assert min(_seconds(small) for _ in range(3)) <= 0.15
    assert min(_seconds(corpus) for _ in range(3)) <= 0.4


def _seconds(files: list[Path]) -> float:
    start = time.process_time()
    for file in files:
        config.parse(file)
    return time.process_time() - start


def test_all_words_of_the_model_are_there() -> None:
    assert set(BACKENDS.values()) == {Backend.CPU, Backend.CUDA, Backend.ROCM, Backend.XPU, Backend.METAL}
    assert {component.__struct_config__.tag for component in model.BACKENDS} == set(grammar.COMPONENTS.by_language)
