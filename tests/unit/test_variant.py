"""Names of variants, held against the parser of the client that looks for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernels.variants import ArchVariant, NoarchVariant, parse_variant

from buildlib import matrix, variant
from buildlib.matrix import Row
from buildlib.variant import (
    Backend,
    Compute,
    Platform,
    TorchNoarchVariant,
    TorchStableAbiVariant,
    TorchVariant,
    TvmFfiVariant,
    Variant,
    Version,
)

_MATRIX = matrix.load(Path(__file__).parents[2] / "toolchains" / "variants.toml")
_LINUX = Platform.X86_64_LINUX


def _of_row(framework: str, row: Row) -> Variant:
    if framework == "tvm-ffi":
        return TvmFfiVariant(tvm_ffi=row.version, compute=row.compute, platform=row.platform)
    if framework == "torch-stable-abi":
        return TorchStableAbiVariant(abi=row.version, compute=row.compute, platform=row.platform)
    return TorchVariant(torch=row.version, compute=row.compute, platform=row.platform)


_WITH_EXTENSION = {
    variant.name(made): made
    for framework, rows in (
        ("torch", _MATRIX.torch),
        ("torch-stable-abi", _MATRIX.torch),
        ("tvm-ffi", _MATRIX.tvm_ffi),
    )
    for row in rows
    for made in (_of_row(framework, row),)
}


@pytest.mark.parametrize("name", _WITH_EXTENSION)
def test_the_client_reads_what_the_name_was_made_from(name: str) -> None:
    made = _WITH_EXTENSION[name]
    assert not isinstance(made, TorchNoarchVariant)
    read = parse_variant(name)
    assert isinstance(read, ArchVariant)
    version = getattr(read.arch.backend, "version", None)
    assert {
        "name": read.variant_str,
        "framework": (type(read.framework).__name__, str(read.framework.version)),
        "backend": read.arch.backend.name,
        "backend's version": version and str(version),
        "platform": f"{read.arch.platform}-{read.arch.os}",
    } == {
        "name": name,
        "framework": _framework_of(made),
        "backend": made.compute.backend,
        "backend's version": made.compute.version and str(made.compute.version),
        "platform": made.platform,
    }


def _framework_of(made: Variant) -> tuple[str, str]:
    match made:
        case TorchVariant():
            return "Torch", str(made.torch)
        case TorchStableAbiVariant():
            return "TorchStableAbi", str(made.abi)
        case TvmFfiVariant():
            return "TvmFfi", str(made.tvm_ffi)
        case TorchNoarchVariant():
            raise AssertionError


@pytest.mark.parametrize("backend", Backend)
def test_the_client_reads_the_backend_of_a_variant_without_extension(backend: Backend) -> None:
    read = parse_variant(variant.name(TorchNoarchVariant(backend=backend)))
    assert isinstance(read, NoarchVariant)
    # torch calls a CANN device an NPU, and the client looks for torch's name.
    assert read.arch.backend_name == ("npu" if backend is Backend.CANN else backend)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (
            TorchVariant(torch=Version(2, 13), compute=Compute.parse("cu130"), platform=_LINUX),
            "torch213-cxx11-cu130-x86_64-linux",
        ),
        (
            TorchVariant(torch=Version(2, 13), compute=Compute.parse("metal"), platform=Platform.AARCH64_DARWIN),
            "torch213-metal-aarch64-darwin",
        ),
        (
            TorchVariant(torch=Version(2, 9), compute=Compute.parse("cu128"), platform=Platform.X86_64_WINDOWS),
            "torch29-cu128-x86_64-windows",
        ),
        (
            TorchStableAbiVariant(abi=Version(2, 11), compute=Compute.parse("xpu20253"), platform=_LINUX),
            "torch-stable-abi211-xpu20253-x86_64-linux",
        ),
        (
            TvmFfiVariant(tvm_ffi=Version(0, 1), compute=Compute.parse("cpu"), platform=Platform.AARCH64_LINUX),
            "tvm-ffi01-cpu-aarch64-linux",
        ),
        (TorchNoarchVariant(backend=Backend.CUDA), "torch-cuda"),
        (TorchNoarchVariant(backend=Backend.CANN), "torch-npu"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_name(made: Variant, name: str) -> None:
    assert variant.name(made) == name


@pytest.mark.parametrize(
    ("made", "framework", "backend"),
    [
        (TorchVariant(torch=Version(2, 13), compute=Compute.parse("cu130"), platform=_LINUX), "torch", Backend.CUDA),
        (TorchStableAbiVariant(abi=Version(2, 11), compute=Compute.parse("cpu"), platform=_LINUX), "torch", "cpu"),
        (TvmFfiVariant(tvm_ffi=Version(0, 1), compute=Compute.parse("rocm71"), platform=_LINUX), "tvm-ffi", "rocm"),
        (TorchNoarchVariant(backend=Backend.XPU), "torch-noarch", "xpu"),
    ],
)
def test_framework_and_backend(made: Variant, framework: str, backend: str) -> None:
    assert (variant.framework(made), variant.backend(made)) == (framework, backend)


@pytest.mark.parametrize(
    ("text", "backend", "version"),
    [
        ("cpu", Backend.CPU, None),
        ("metal", Backend.METAL, None),
        ("neuron", Backend.NEURON, None),
        ("tpu", Backend.TPU, None),
        ("cu126", Backend.CUDA, Version(12, 6)),
        ("rocm72", Backend.ROCM, Version(7, 2)),
        ("xpu20260", Backend.XPU, Version(2026, 0)),
        ("cann82", Backend.CANN, Version(8, 2)),
    ],
)
def test_compute_is_read_and_written_alike(text: str, backend: Backend, version: Version | None) -> None:
    compute = Compute.parse(text)
    assert (compute.backend, compute.version, str(compute)) == (backend, version, text)


@pytest.mark.parametrize("text", ["", "cu", "cu1", "cuda130", "CU130", "cu13.0", "cpu1", " cpu", "gpu", "npu"])
def test_compute_refuses_what_is_no_backend(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid Backend"):
        Compute.parse(text)


@pytest.mark.parametrize("backend", [Backend.CUDA, Backend.ROCM, Backend.XPU, Backend.CANN])
def test_compute_says_that_a_version_is_missing(backend: Backend) -> None:
    with pytest.raises(ValueError, match=f"{backend.value!r} lacks a version"):
        Compute.parse(backend.value)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.13", Version(2, 13)),
        ("2.13.0+cu130", Version(2, 13)),
        ("2.14.0.dev20260801", Version(2, 14)),
        ("13", Version(13, 0)),
        ("0.1.15.post2", Version(0, 1)),
    ],
)
def test_version_reads_two_numbers(text: str, version: Version) -> None:
    assert Version.parse(text) == version


@pytest.mark.parametrize("text", ["", "v2.13", "cpu", ".5"])
def test_version_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is not a version"):
        Version.parse(text)


def test_versions_compare_as_numbers() -> None:
    assert Version.parse("2.9") < Version.parse("2.10") < Version.parse("3.0")


def test_version_as_text() -> None:
    version = Version(2, 13)
    assert (str(version), version.digits) == ("2.13", "213")


@pytest.mark.parametrize("platform", Platform)
def test_os_of_a_platform(platform: Platform) -> None:
    assert platform.os in {"linux", "darwin", "windows"}
