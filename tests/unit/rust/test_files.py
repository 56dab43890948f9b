from __future__ import annotations

from pathlib import Path

import pytest

from buildlib.config.model import Dsl
from buildlib.files import FileCache
from buildlib.rust import crates, files
from buildlib.variant import Backend
from tests.unit.factories import write_files

from .factories import in_rust, manifest, with_device


@pytest.fixture
def cache(tmp_path: Path) -> FileCache:
    return FileCache(tmp_path / "files")


def _find(folder: Path, cache: FileCache, given: dict[str, str], **component: object) -> files.CrateFiles:
    loaded = crates.load(in_rust(folder, given, **component))
    assert loaded is not None
    return files.find(loaded, cache)


def test_a_crate_in_the_kernels_folder(tmp_path: Path, cache: FileCache) -> None:
    given = {
        "build.rs": "", "src/data.bin": "", "src/deep/mod.rs": "", "more/other.rs": "",
        "tests/rust.rs": "", "tests/test_relu.py": "", "benches/b.rs": "",
        "build.toml": "", "CARD.md": "", "tvm-ffi-ext/relu/__init__.py": "", "data/table.csv": "",
        "target/CACHEDIR.TAG": "", "target/release/build/x.rs": "", ".cargo/config.toml": "",
    }  # fmt: skip
    found = _find(tmp_path / "relu", cache, given)
    assert found.sources == (
        "Cargo.toml", "build.rs", "more/other.rs", "src/data.bin", "src/deep/mod.rs", "src/lib.rs"
    )  # fmt: skip
    assert found.tests == ("benches/b.rs", "tests/rust.rs", "tests/test_relu.py")


def test_what_build_toml_lists_counts(tmp_path: Path, cache: FileCache) -> None:
    given = {"data/table.csv": "", "data/deep/x.bin": "", "tests/shared.txt": "", "database.csv": ""}
    found = _find(tmp_path / "relu", cache, given, src=("data", "tests/shared.txt"))
    assert {"data/table.csv", "data/deep/x.bin", "tests/shared.txt"} <= set(found.sources)
    assert "database.csv" not in found.sources
    assert found.tests == ()


def test_crates_beside_it(tmp_path: Path, cache: FileCache) -> None:
    write_files(tmp_path, {"_rust/common/Cargo.toml": manifest("common"), "_rust/common/src/lib.rs": ""})
    write_files(tmp_path, {"_rust/common/tests/t.rs": "", "_rust/common/README.md": "", "_rust/other/src/lib.rs": ""})
    uses = '[dependencies]\ncommon = { path = "../_rust/common" }\n'
    found = _find(tmp_path / "relu", cache, {"Cargo.toml": manifest("relu", uses)})
    assert found.sources == (
        "../_rust/common/Cargo.toml", "../_rust/common/src/lib.rs", "Cargo.toml", "src/lib.rs"
    )  # fmt: skip
    assert found.tests == ("../_rust/common/tests/t.rs",)


def test_all_members_of_a_workspace_of_its_own(tmp_path: Path, cache: FileCache) -> None:
    given = {
        "Cargo.toml": '[workspace]\nmembers = ["x", "unused"]\n',
        "Cargo.lock": "",
        "x/Cargo.toml": manifest("x"),
        "x/src/lib.rs": "",
        "unused/Cargo.toml": manifest("unused"),
        "unused/src/main.rs": "",
    }
    found = _find(tmp_path / "relu", cache, given, cargo_manifest="x/Cargo.toml")
    assert set(given) <= set(found.sources)


def test_the_workspace_of_device_code_counts_for_cuda_alone(tmp_path: Path, cache: FileCache) -> None:
    given = {
        "device/Cargo.toml": manifest("gpu", '[workspace]\nmembers = ["math"]\n'),
        "device/Cargo.lock": "",
        "device/src/lib.rs": "",
        "device/math/Cargo.toml": manifest("math"),
        "device/math/src/lib.rs": "",
    }
    loaded = crates.load(with_device(tmp_path / "relu", given, dsl=Dsl.CUDA_OXIDE))
    assert loaded is not None
    assert set(given) < set(files.find(loaded, cache).sources)
    assert files.find(loaded.of(Backend.CPU), cache).sources == ("Cargo.toml", "src/lib.rs")
