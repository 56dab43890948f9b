"""What real build.toml files do that is easy to get wrong."""

from __future__ import annotations

from pathlib import Path

from buildlib import config
from buildlib.config.model import CppCuda, CppRocm, Kernel, Torch
from buildlib.variant import Backend, Version

GENERAL = """\
[general]
name = "relu"
version = 0
license = "apache-2.0"
backends = ["cuda", "rocm"]
[torch]
"""


def _component(name: str, backend: str, *sources: str, more: str = "") -> str:
    listed = ", ".join(f'"{source}"' for source in sources)
    return f'[kernel.{name}]\nbackend = "{backend}"\ndepends = ["torch"]\nsrc = [{listed}]\n{more}\n'


def _load(folder: Path, text: str, *sources: str) -> Kernel:
    for source in sources:
        (folder / source).parent.mkdir(parents=True, exist_ok=True)
        (folder / source).touch()
    file = folder / "build.toml"
    file.write_text(text, encoding="utf-8")
    return config.load(file)


def test_components_keep_the_order_of_the_file(tmp_path: Path) -> None:
    """Flags of a source in two components are joined in this order."""
    text = GENERAL + "".join(_component(name, "cuda", "a.cu") for name in ("z", "m", "a", "b"))
    kernel = _load(tmp_path, text, "a.cu")
    assert [component.name for component in kernel.components] == ["z", "m", "a", "b"]
    assert [component.src for component in kernel.components] == [("a.cu",)] * 4


def test_component_of_headers_alone_keeps_its_capabilities(tmp_path: Path) -> None:
    text = GENERAL + _component("q", "cuda", "a.cuh", more='cuda-capabilities = ["8.0", "9.0a"]')
    (component,) = _load(tmp_path, text, "a.cuh").components
    assert isinstance(component, CppCuda)
    assert component.cuda_capabilities == ("8.0", "9.0a")


def test_component_from_a_cuda_version_on(tmp_path: Path) -> None:
    text = GENERAL + _component("old", "cuda", "a.cu") + _component("new", "cuda", "a.cu", more='cuda-minver = "12.9"')
    old, new = _load(tmp_path, text, "a.cu").components
    assert isinstance(old, CppCuda)
    assert isinstance(new, CppCuda)
    assert (old.cuda_minver, new.cuda_minver) == (None, Version(12, 9))


def test_source_of_two_backends(tmp_path: Path) -> None:
    text = GENERAL + _component("a", "cuda", "a.cu") + _component("b", "rocm", "a.cu")
    on_cuda, on_rocm = _load(tmp_path, text, "a.cu").components
    assert isinstance(on_cuda, CppCuda)
    assert isinstance(on_rocm, CppRocm)
    assert on_cuda.src == on_rocm.src


def test_equals_sign_in_a_name(tmp_path: Path) -> None:
    source = "configs/E=8,N=128,K=512.json"
    (component,) = _load(tmp_path, GENERAL + _component("a", "cuda", source), source).components
    assert component.src == (source,)


def test_thousands_of_sources(tmp_path: Path) -> None:
    sources = [f"instances/{index:04}.hip" for index in range(3439)]
    file = tmp_path / "build.toml"
    file.write_text(GENERAL + _component("ck", "rocm", *sources), encoding="utf-8")
    (component,) = config.parse(file).components
    assert component.src == tuple(sources)


def test_source_listed_twice(tmp_path: Path) -> None:
    (component,) = _load(tmp_path, GENERAL + _component("a", "cuda", "a.h", "a.cu", "a.h"), "a.h", "a.cu").components
    assert component.src == ("a.h", "a.cu")


def test_empty_kernel_table(tmp_path: Path) -> None:
    text = GENERAL.replace("[torch]", "[torch-noarch]")
    assert _load(tmp_path, text).components == _load(tmp_path, text + "[kernel]\n").components == ()


def test_backend_without_a_component(tmp_path: Path) -> None:
    kernel = _load(tmp_path, GENERAL + _component("a", "cuda", "a.cu"), "a.cu")
    assert kernel.general.backends == (Backend.CUDA, Backend.ROCM)


def test_stable_abi_of_some_backends(tmp_path: Path) -> None:
    text = GENERAL.replace("version = 0", "version = 0\nedition = 5") + '[torch.stable-abi]\ncuda = "2.10"\n'
    framework = _load(tmp_path, text).framework
    assert isinstance(framework, Torch)
    assert framework.stable_abi == {Backend.CUDA: Version(2, 10)}


def test_module_of_a_name_with_dashes(tmp_path: Path) -> None:
    kernel = _load(tmp_path, GENERAL.replace('"relu"', '"flash-attn-ops"'))
    assert kernel.general.module == "flash_attn_ops"
