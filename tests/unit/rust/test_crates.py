from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from buildlib.config.model import Dsl, Kernel, RustCpu, RustCuda, Torch, TvmFfi
from buildlib.errors import ConfigError
from buildlib.rust import crates
from buildlib.variant import Backend
from tests.unit.factories import kernel, write_files

from .factories import in_rust, manifest, with_device


def _load(kernel: Kernel) -> crates.Crates:
    loaded = crates.load(kernel)
    assert loaded is not None
    return loaded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kernels" / "relu"


def test_a_kernel_without_rust_has_no_crates() -> None:
    assert crates.load(kernel()) is None


def test_one_crate(folder: Path) -> None:
    loaded = _load(in_rust(folder, features=("fast",), src=("data",)))
    assert (loaded.key, loaded.own, loaded.channel, loaded.src) == ("relu", None, "", {Backend.CPU: ("data",)})
    assert [(crate.name, crate.folder) for crate in loaded.crates] == [("relu", "")]
    (part,) = loaded.extensions[Backend.CPU]
    assert (part.crate.name, part.features) == ("relu", ("fast",))


def test_rust_needs_tvm_ffi(folder: Path) -> None:
    planned = msgspec.structs.replace(in_rust(folder), framework=Torch())
    with pytest.raises(ConfigError, match=r"^kernels/relu/build.toml: \[kernel.main\] language: Rust needs"):
        crates.load(planned)


def test_crates_beside_it_are_reached_once(folder: Path) -> None:
    write_files(folder.parent, {"_rust/common/Cargo.toml": manifest("common")})
    files = {
        "Cargo.toml": manifest("relu", '[dependencies]\na = { path = "a" }\ncommon = { path = "../_rust/common" }\n'),
        "a/Cargo.toml": manifest(
            "a", '[dependencies]\nb = { path = "../b" }\ncommon = { path = "../../_rust/common" }\n'
        ),
        "b/Cargo.toml": manifest("b", '[dev-dependencies]\na = { path = "../a" }\n'),
    }
    loaded = _load(in_rust(folder, files))
    assert {crate.name: crate.folder for crate in loaded.crates} == {
        "relu": "", "a": "a", "b": "b", "common": "../_rust/common"
    }  # fmt: skip
    assert [crate.name for crate in loaded.crates if crate.is_shared] == ["common"]


@pytest.mark.parametrize("path", ["../gelu", "/gelu", "../../gelu", "../_rust", "../_rust/a/b"])
def test_a_crate_outside_is_refused(folder: Path, path: str) -> None:
    files = {"Cargo.toml": manifest("relu", f'[dependencies]\nx = {{ path = "{path}" }}\n')}
    with pytest.raises(ConfigError, match=r"^kernels/relu/Cargo.toml: dependency 'x': .* is outside of"):
        crates.load(in_rust(folder, files))


def test_a_crate_that_is_not_there(folder: Path) -> None:
    files = {"Cargo.toml": manifest("relu", '[dependencies]\nx = { path = "x" }\n')}
    with pytest.raises(ConfigError, match=r"dependency 'x': there is no x/Cargo.toml; correct the path"):
        crates.load(in_rust(folder, files))


def test_a_broken_crate_beside_it_is_named(folder: Path) -> None:
    files = {"Cargo.toml": manifest("relu", '[dependencies]\nx = { path = "x" }\n'), "x/Cargo.toml": "["}
    with pytest.raises(ConfigError, match=r"^kernels/relu/x/Cargo.toml: "):
        crates.load(in_rust(folder, files))


def test_two_components_of_one_crate_join_their_features(folder: Path) -> None:
    in_rust(folder)
    components = [RustCpu(name=name, cargo_manifest="Cargo.toml", features=(name, "both")) for name in ("a", "b")]
    loaded = _load(kernel(TvmFfi(), *components, folder=folder))
    (part,) = loaded.extensions[Backend.CPU]
    assert part.features == ("a", "both", "b")


# --- workspaces of a kernel's own ---


@pytest.mark.parametrize("root", ["", "rust"])
def test_a_lock_makes_a_workspace_of_its_own(folder: Path, root: str) -> None:
    above = f"{root}/" if root else ""
    files = {
        f"{above}Cargo.toml": '[workspace]\nmembers = ["x"]\n[profile.release]\nlto = false\n',
        f"{above}Cargo.lock": "",
        f"{above}x/Cargo.toml": manifest("x", "license.workspace = true\n"),
        f"{above}x/src/lib.rs": "",
    }
    assert _load(in_rust(folder, files, cargo_manifest=f"{above}x/Cargo.toml")).own == root


def test_a_lock_without_a_manifest_is_none(folder: Path) -> None:
    files = {"Cargo.lock": "", "x/Cargo.toml": manifest("x"), "x/src/lib.rs": ""}
    planned = in_rust(folder, files, cargo_manifest="x/Cargo.toml")
    (folder / "Cargo.toml").unlink()
    assert _load(planned).own is None


def test_what_the_root_offers_is_reached(folder: Path) -> None:
    files = {
        "Cargo.toml": '[workspace]\nmembers = ["x"]\n[workspace.dependencies]\ny = { path = "y" }\n',
        "Cargo.lock": "",
        "x/Cargo.toml": manifest("x", "[dependencies]\ny.workspace = true\n"),
        "x/src/lib.rs": "",
        "y/Cargo.toml": manifest("y"),
    }
    loaded = _load(in_rust(folder, files, cargo_manifest="x/Cargo.toml"))
    assert {crate.name for crate in loaded.crates} == {"x", "y"}


# --- toolchains ---


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("rust-toolchain.toml", '[toolchain]\nchannel = "1.90"\n', "1.90"),
        ("rust-toolchain", "nightly-2026-01-01\n", "nightly-2026-01-01"),
        ("rust-toolchain", '[toolchain]\nchannel = "beta"\n', "beta"),
    ],
)
def test_a_toolchain_of_its_own(folder: Path, file: str, content: str, expected: str) -> None:
    assert _load(in_rust(folder, {file: content})).channel == expected


@pytest.mark.parametrize(
    "content", ["", '[toolchain]\npath = "/rust"\n', '[toolchain]\nchannel = "a/b"\n', "toolchain = 1"]
)
def test_a_toolchain_without_a_channel(folder: Path, content: str) -> None:
    with pytest.raises(ConfigError, match=r"^kernels/relu/rust-toolchain.toml: \[toolchain\] channel: missing"):
        crates.load(in_rust(folder, {"rust-toolchain.toml": content}))


# --- names ---


def _named(root: Path, key: str, name: str) -> crates.Crates:
    return _load(in_rust(root / "kernels" / key, {"Cargo.toml": manifest(name)}))


def test_two_crates_of_one_name(tmp_path: Path) -> None:
    loaded = [_named(tmp_path, "a", "same"), _named(tmp_path, "b", "same"), _named(tmp_path, "c", "other")]
    assert dict(crates.clashes(loaded)) == {
        "a": "kernels/a/Cargo.toml: [package] name: 'same' is also the name of kernels/b/Cargo.toml; rename one",
        "b": "kernels/b/Cargo.toml: [package] name: 'same' is also the name of kernels/a/Cargo.toml; rename one",
    }


def test_a_shared_crate_is_no_clash(tmp_path: Path) -> None:
    write_files(tmp_path / "kernels", {"_rust/common/Cargo.toml": manifest("common")})
    uses = '[dependencies]\ncommon = { path = "../_rust/common" }\n'
    loaded = [
        _load(in_rust(tmp_path / "kernels" / key, {"Cargo.toml": manifest(name, uses)}))
        for key, name in (("a", "a"), ("b", "b"), ("c", "common"))
    ]
    assert set(dict(crates.clashes(loaded))) == {"c"}


def test_a_workspace_of_its_own_may_have_any_names(tmp_path: Path) -> None:
    own = in_rust(tmp_path / "kernels" / "a", {"Cargo.toml": manifest("same"), "Cargo.lock": ""})
    assert list(crates.clashes([_load(own), _named(tmp_path, "b", "same")])) == []


def test_device_code_is_a_crate_of_its_own(folder: Path) -> None:
    loaded = _load(with_device(folder))
    (device,) = loaded.devices
    assert (device.component, device.crate.folder, device.host.folder) == ("on_cuda", "device", "")
    assert {crate.name for crate in loaded.crates} == {"relu", "main-device", "kernelyard-tile"}


def test_each_backend_is_built_from_its_own_crates(folder: Path) -> None:
    loaded = _load(with_device(folder, src=("data",)))
    on_cpu, on_cuda = loaded.of(Backend.CPU), loaded.of(Backend.CUDA)
    assert [crate.name for crate in on_cpu.crates] == ["relu"]
    assert (on_cpu.devices, on_cpu.src) == ((), {Backend.CPU: ()})
    assert {crate.name for crate in on_cuda.crates} == {"relu", "main-device", "kernelyard-tile"}
    assert (len(on_cuda.devices), on_cuda.src) == (1, {Backend.CUDA: ("data",)})


def test_device_code_elsewhere(folder: Path) -> None:
    files = {"gpu/Cargo.toml": manifest("gpu"), "gpu/src/lib.rs": ""}
    (device,) = _load(with_device(folder, files, device_manifest="gpu/Cargo.toml", dsl=Dsl.NVPTX)).devices
    assert device.crate.name == "gpu"


def test_device_code_of_cuda_oxide_is_in_a_workspace_of_its_own(folder: Path) -> None:
    files = {"device/Cargo.toml": manifest("main-device", "[workspace]\n"), "device/Cargo.lock": ""}
    loaded = _load(with_device(folder, files, dsl=Dsl.CUDA_OXIDE))
    (device,) = loaded.devices
    assert (device.crate.name, device.root, device.host.name) == ("main-device", "device", "relu")
    # The host's workspace has nothing of it.
    assert [crate.name for crate in loaded.crates] == ["relu"]


def test_device_code_of_cuda_oxide_in_the_kernels_workspace(folder: Path) -> None:
    files = {
        "Cargo.toml": manifest("relu", '[workspace]\nmembers = ["kernels"]\n'),
        "Cargo.lock": "",
        "kernels/Cargo.toml": manifest("relu-kernels"),
        "kernels/src/main.rs": "fn main() {}\n",
    }
    kernel = with_device(folder, files, dsl=Dsl.CUDA_OXIDE, device_manifest="kernels/Cargo.toml")
    (device,) = _load(kernel).devices
    assert (device.crate.folder, device.root) == ("kernels", "")


def test_device_code_of_cuda_oxide_that_nothing_pins(folder: Path) -> None:
    message = r"^kernels/relu/device/Cargo.toml: \[workspace\]: with cuda-oxide the device crate is in a workspace of"
    with pytest.raises(ConfigError, match=message):
        crates.load(with_device(folder, dsl=Dsl.CUDA_OXIDE))


@pytest.mark.parametrize(
    ("component", "message"),
    [
        (
            {"device_manifest": "gpu/Cargo.toml"},
            r"^kernels/relu/build.toml: \[kernel.on_cuda\]: gpu/Cargo.toml does not exist; write the device code as",
        ),
        (
            {"device_manifest": "Cargo.toml"},
            r"^kernels/relu/build.toml: \[kernel.on_cuda\] device-manifest: the host crate itself; device code needs",
        ),
        (
            {"device_manifest": "bare/Cargo.toml"},
            r"^kernels/relu/bare/Cargo.toml: \[dependencies\]: kernelyard-tile is missing; with it a device crate",
        ),
    ],
)
def test_device_code_that_cannot_be(folder: Path, component: dict[str, Any], message: str) -> None:
    files = {"bare/Cargo.toml": manifest("bare"), "bare/src/lib.rs": ""}
    with pytest.raises(ConfigError, match=message):
        crates.load(with_device(folder, files, **component))


def test_two_images_for_one_host_crate(folder: Path) -> None:
    planned = with_device(folder)
    second = RustCuda(name="second", cargo_manifest="Cargo.toml")
    planned = msgspec.structs.replace(planned, components=(*planned.components, second))
    with pytest.raises(
        ConfigError, match=r"\[kernel.second\] cargo-manifest: 'relu' is the host crate of \[kernel.on_c"
    ):
        crates.load(planned)
