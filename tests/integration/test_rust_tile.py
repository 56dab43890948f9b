"""Kernels in Rust for CUDA, over tile programs: compiled and assembled for real, with no GPU and no driver."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT, Yard, needs_cargo, new_yard

pytestmark = needs_cargo

_VARIANT = "tvm-ffi01-cu130-x86_64-linux"
_OTHER = "tvm-ffi01-cu132-x86_64-linux"
_SYMBOLS = ("double_f16", "double_f32")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, user_cache: Path) -> Yard:
    """A checkout with a tile kernel, built and checked. Tests put back what they edit."""
    yard = new_yard(tmp_path_factory.mktemp("tile") / "yard", user_cache)
    yard.add("rust-tile")
    shutil.copytree(ROOT / "kernels/_rust/kernelyard-tile", yard.root / "kernels/_rust/kernelyard-tile")
    shutil.copy(ROOT / "Cargo.lock", yard.root / "Cargo.lock")
    result = yard.doit(f"check:rust-tile:{_VARIANT}")
    if "cannot be fetched" in result.out:
        pytest.skip(result.out)
    assert result.status == 0, result.out
    return yard


@pytest.fixture
def device(built: Yard) -> Iterator[Path]:
    """The device crate's source, put back after the test."""
    source = built.root / "kernels/rust-tile/device/src/lib.rs"
    before = source.read_text()
    yield source
    source.write_text(before)


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def _cubins(yard: Yard) -> dict[str, int]:
    """The time of each piece of machine code, by name: a name that stays with a new time was assembled again."""
    return {path.name: path.stat().st_mtime_ns for path in yard.root.glob("build/work/rust-tile/images/*/cubins/*")}


def _artifact(yard: Yard, variant: str) -> Path:
    return yard.root / "build/kernels/rust-tile/build" / variant


def _build(yard: Yard, variant: str = _VARIANT) -> str:
    result = yard.doit(f"build:rust-tile:{variant}")
    assert result.status == 0, result.out
    return result.out


def _refused(yard: Yard) -> str:
    result = yard.doit(f"build:rust-tile:{_VARIANT}")
    assert result.status == 1, result.out
    assert "Traceback" not in result.out + result.err
    return result.out


def test_each_capability_has_its_image(built: Yard) -> None:
    # The check has compared this with what cuobjdump finds of each kernel.
    assert built.metadata("rust-tile")["backend"] == {"type": "cuda", "archs": ["10.0+PTX", "10.0a", "8.0", "9.0a"]}
    assert "tileiras 13.5.37" in built.metadata("rust-tile")["kernelyard"]["toolchain"]


def test_the_image_is_in_the_library(built: Yard) -> None:
    library = next(_artifact(built, _VARIANT).glob("*.so"))
    code = f"import tvm_ffi; of = tvm_ffi.load_module({str(library)!r}).image_byte; print([of(i) for i in range(4)])"
    # What every fatbin begins with.
    assert built.call(code) == "[80, 237, 85, 186]"


def test_the_table_names_what_can_be_launched(built: Yard) -> None:
    (table,) = built.root.glob("build/work/rust-tile/images/*/rust-tile.rs")
    text = table.read_text()
    assert re.findall(r'symbol: "(\w+)"', text) == ["double_f32", "double_f16"]
    assert re.findall(r"capability: \((\d+, \d)\),\s+exact: (\w+),\s+portable: (\w+)", text)[:3] == [
        ("8, 0", "false", "false"), ("9, 0", "true", "false"), ("10, 0", "true", "true")
    ]  # fmt: skip
    assert re.findall(r'"SIZE", (\d+)', text) == ["512", "1024", "1024"] * 2


def test_nothing_is_done_twice(built: Yard) -> None:
    before = _cubins(built)
    assert built.doit(f"build:rust-tile:{_VARIANT}").ran() == []
    # Another variant with the same device compiler and capabilities takes the images that are there.
    _build(built, _OTHER)
    assert _cubins(built) == before


def test_an_edit_of_the_host_assembles_nothing(built: Yard) -> None:
    before = _cubins(built)
    host = built.root / "kernels/rust-tile/src/lib.rs"
    text = host.read_text()
    _edit(host, "% SIZE]", "% SIZE.max(1)]")
    assert f"ok     build:rust-tile:{_VARIANT}" in _build(built)
    assert _cubins(built) == before
    host.write_text(text)
    _build(built)


def test_an_edit_of_one_instance_assembles_that_one(built: Yard, device: Path) -> None:
    before, library = _cubins(built), next(_artifact(built, _VARIANT).glob("*.so")).read_bytes()
    _edit(device, "== 8 { 512 }", "== 8 { 256 }")
    _build(built)
    after = _cubins(built)
    assert {name for name in after if before.get(name) != after[name]} == {n for n in after if n not in before}
    assert sorted(name.partition(".")[2] for name in set(after) - set(before)) == ["sm_80.cubin"] * 2
    device.write_text(device.read_text().replace("256", "512"))
    _build(built)
    assert next(_artifact(built, _VARIANT).glob("*.so")).read_bytes() == library


def test_rust_that_does_not_compile(built: Yard, device: Path) -> None:
    _edit(device, "vec![program!", "vec![missing, program!")
    said = _refused(built)
    assert "kernels/rust-tile: device code of [kernel.double] does not compile" in said
    assert said.count("cannot find value `missing`") == 1
    assert re.search(r"kernels/rust-tile/device/src/lib.rs:\d+:\d+", said)


def test_a_tile_program_that_does_not_compile(built: Yard, device: Path) -> None:
    _edit(device, "value + value", "value + out")
    said = _refused(built)
    assert "kernels/rust-tile: device code of [kernel.double] does not compile" in said
    assert re.search(r"lib.rs:\d+", said)


def test_an_instance_that_is_listed_twice(built: Yard, device: Path) -> None:
    _edit(device, "[Type::F32, Type::F16]", "[Type::F32, Type::F32]")
    assert "double_f32" in _refused(built)


@pytest.mark.parametrize(
    ("capability", "message"),
    [
        ("7.5", "cutile makes code for 8.0 and newer, and not for '7.5'; remove it"),
        ("9.0a", "cutile takes '9.0a' without 'a': it always makes code for the architecture itself"),
        ("99.9", "no version of CUDA compiles for '99.9'; remove or correct it"),
    ],
)
def test_a_capability_that_cannot_be(built: Yard, capability: str, message: str) -> None:
    build_toml = built.root / "kernels/rust-tile/build.toml"
    text = build_toml.read_text()
    _edit(build_toml, '"8.0",', f'"8.0", "{capability}",')
    said = _refused(built)
    build_toml.write_text(text)
    assert f"kernels/rust-tile/build.toml: [kernel.double] cuda-capabilities: {message}" in said
