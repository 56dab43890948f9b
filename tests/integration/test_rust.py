"""Kernels in Rust: what is built works, content decides, and what is wrong with one stops no other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from buildlib.rust.archive import dynamic_symbols
from tests.integration.conftest import PROJECTS, Yard, needs_cargo, new_yard
from tests.integration.registry import serve

pytestmark = needs_cargo

_VARIANT = "tvm-ffi01-cpu-x86_64-linux"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Yard:
    """A checkout with three kernels in Rust, built side by side. Tests put back what they edit."""
    yard = new_yard(tmp_path_factory.mktemp("rust") / "yard", cache)
    for project in ("rust-answer", "rust-mixed", "rust-own"):
        yard.add(project)
    result = yard.doit("build", "-n", "4")
    assert result.status == 0, result.out
    return yard


def _cargo_runs(yard: Yard, kernel: str) -> int:
    """When cargo ran last for a kernel: it leaves its answer."""
    (answer,) = (yard.root / "build" / "work" / kernel).glob("*/cargo.json")
    return answer.stat().st_mtime_ns


def _library(yard: Yard, kernel: str) -> Path:
    return next(yard.artifact(kernel).glob("*.so"))


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# --- what is built ---


@pytest.mark.parametrize(("kernel", "expected"), [("rust-answer", 111), ("rust-mixed", 321), ("rust-own", 222)])
def test_it_answers(built: Yard, kernel: str, expected: int) -> None:
    assert built.answer(kernel) == expected


def test_its_own_tests_and_checks_pass(built: Yard) -> None:
    result = built.doit("check", "test:rust-answer")
    assert result.status == 0, result.out
    # One of pytest, one of cargo.
    assert re.search(r"ok +test:rust-answer:\S+ .* 2 passed", result.out)


@pytest.mark.parametrize("kernel", ["rust-answer", "rust-own"])
def test_a_panic_is_caught_and_the_process_lives(built: Yard, kernel: str) -> None:
    # rust-own asks for panic = "abort", with which there would be nothing to catch.
    artifact = str(built.artifact(kernel))
    said = built.call(
        "from pathlib import Path; from kernels import get_local_kernel\n"
        f"kernel = get_local_kernel(Path({artifact!r}))\n"
        "try:\n    kernel.panics()\nexcept RuntimeError as error:\n    print(error, kernel.answer())"
    )
    assert said == f"a panic, caught {(kernel == 'rust-answer' and 111) or 222}"


def test_only_what_is_exported_on_purpose_is_visible(built: Yard) -> None:
    assert dynamic_symbols(_library(built, "rust-answer")) - {""} == {"__tvm_ffi_answer", "__tvm_ffi_panics"}
    expected = {"__tvm_ffi_answer", "__tvm_ffi_one", "__tvm_ffi_two"}
    assert dynamic_symbols(_library(built, "rust-mixed")) - {""} == expected
    assert _library(built, "rust-answer").stat().st_size < 1_000_000


def test_the_variant_is_that_of_the_cpu(built: Yard) -> None:
    metadata = built.metadata("rust-answer")
    assert built.artifact("rust-answer").name == _VARIANT
    assert metadata["backend"] == {"type": "cpu"}
    assert any(part.startswith("rustc 1.") for part in metadata["kernelyard"]["toolchain"])


# --- what is built again, and what is not ---


def test_a_second_build_runs_nothing(built: Yard) -> None:
    before = [_cargo_runs(built, kernel) for kernel in ("rust-answer", "rust-mixed", "rust-own")]
    assert built.doit("build").ran() == []
    assert [_cargo_runs(built, kernel) for kernel in ("rust-answer", "rust-mixed", "rust-own")] == before


@pytest.mark.parametrize("when", ["now", "2001"])
def test_an_edit_is_built_whatever_its_time(built: Yard, when: str) -> None:
    source = built.root / "kernels" / "rust-answer" / "src" / "value.rs"
    kept = source.read_text()
    _edit(source, "111 +", "112 +" if when == "now" else "113 +")
    if when == "2001":
        os.utime(source, (978_307_200, 978_307_200))
    assert built.doit("build").ran() == [f"build:rust-answer:{_VARIANT}"]
    assert built.answer("rust-answer") == (112 if when == "now" else 113)
    source.write_text(kept)


def test_python_and_c_do_not_run_cargo(built: Yard) -> None:
    folder = built.root / "kernels" / "rust-mixed"
    before = _cargo_runs(built, "rust-mixed")
    _edit(folder / "cpp" / "three.cpp", "300", "400")
    (folder / "tvm-ffi-ext" / "rust_mixed" / "extra.py").write_text("")
    assert built.doit("build:rust-mixed").status == 0
    assert built.answer("rust-mixed") == 421
    assert _cargo_runs(built, "rust-mixed") == before


def test_a_crate_beside_it_counts(built: Yard) -> None:
    _edit(built.root / "kernels" / "rust-mixed" / "helper" / "src" / "lib.rs", "= 1", "= 3")
    assert built.doit("build:rust-mixed").status == 0
    said = built.call(
        "from pathlib import Path; from kernels import get_local_kernel; "
        f"print(get_local_kernel(Path({str(built.artifact('rust-mixed'))!r})).parts())"
    )
    assert said == "(3, 60)"


def test_features_count_and_an_old_library_comes_back(built: Yard) -> None:
    toml = built.root / "kernels" / "rust-answer" / "build.toml"
    for features, expected in (('features = ["more"]\n', 1111), ("", 111)):
        kept = toml.read_text()
        toml.write_text(re.sub(r'(cargo-manifest = "Cargo.toml"\n)(features.*\n)?', rf"\1{features}", kept))
        assert built.doit("build:rust-answer").status == 0
        assert built.answer("rust-answer") == expected


def test_the_same_bytes_from_another_place_in_another_shell(
    built: Yard, make_yard: Callable[[str], Yard], tmp_path: Path
) -> None:
    assert built.doit("build:rust-answer").status == 0
    yard = make_yard("a b#$c'd\"é,=x")
    yard.add("rust-answer")
    home = tmp_path / "cargo home"
    home.mkdir()
    (home / "config.toml").write_text(
        '[build]\nrustflags = ["--cfg=feature=\\"more\\""]\nrustc-wrapper = "/none"\ntarget = "none"\n'
        '[profile.release]\nopt-level = 0\nlto = "off"\npanic = "abort"\n'
    )
    flags = '--cfg=feature="more"'
    hostile = {
        "CARGO_HOME": str(home),
        "CARGO_BUILD_RUSTFLAGS": flags,
        "CARGO_ENCODED_RUSTFLAGS": flags,
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
        "CARGO_TARGET_DIR": str(tmp_path / "elsewhere"),
        "LD_LIBRARY_PATH": str(tmp_path),
        "RUSTC": "/none",
        "RUSTC_WRAPPER": "/none",
        "RUSTFLAGS": flags,
    }
    result = yard.doit("build", **hostile)
    assert result.status == 0, result.out
    assert yard.answer("rust-answer") == 111
    assert _library(yard, "rust-answer").read_bytes() == _library(built, "rust-answer").read_bytes()
    assert not (tmp_path / "elsewhere").exists()


def test_a_c_kernel_sees_nothing_of_rust(yard: Yard, tmp_path: Path) -> None:
    yard.add("answer")
    for tool in ("cargo", "rustc", "rustup"):
        (tmp_path / tool).write_text(f"#!/bin/sh\ntouch '{tmp_path}/called'\nexit 1\n")
        (tmp_path / tool).chmod(0o755)
    assert yard.doit("build", PATH=f"{tmp_path}:{os.environ['PATH']}").status == 0
    assert not (tmp_path / "called").exists()
    assert not (yard.root / "build" / "cargo").exists()
    (project,) = (yard.root / "build" / "work" / "answer").glob("*/CMakeLists.txt")
    assert "rust" not in project.read_text().lower()


# --- what is wrong with one kernel ---


def _toml(old: str, new: str, file: str = "Cargo.toml") -> Callable[[Path], None]:
    return lambda folder: _edit(folder / file, old, new)


def _append(text: str, file: str = "Cargo.toml") -> Callable[[Path], None]:
    def append(folder: Path) -> None:
        with (folder / file).open("a") as out:
            out.write(text)

    return append


def _named(key: str) -> Callable[[str], str]:
    return lambda text: text.replace("test/rust-answer", f"test/{key}")


# How a copy of rust-answer is broken, and what must be said about it. Each is given another crate name before.
_BROKEN = {
    "syntax": (_toml("[package]", "[package"), ["kernels/syntax/Cargo.toml: ", "at line 1, column 9"]),
    "nameless": (_toml("name =", "nome ="), ["kernels/nameless/Cargo.toml: [package] name: missing"]),
    "profile": (_append("[profile.release]\nlto = false\n"), ["kernels/profile/Cargo.toml: [profile]: has no effect"]),
    "no-lock": (_append("[workspace]\n"), ["kernels/no-lock/Cargo.toml: [workspace]: Cargo.lock is missing"]),
    "inherits": (_toml('version = "1.0.0"', "version.workspace = true"), ["[package] version: there is no workspace"]),
    "outside": (_append('[dependencies]\nx = { path = "../../x" }\n'), ["dependency 'x': '../../x' is outside"]),
    "no-library": (_append('[lib]\npath = "lib.rs"\n'), ["[lib] path: 'lib.rs' does not exist"]),
    "twin-1": (_toml('name = "twin-1"', 'name = "twin"'), ["'twin' is also the name of kernels/twin-2/Cargo.toml"]),
    "twin-2": (_toml('name = "twin-2"', 'name = "twin"'), ["'twin' is also the name of kernels/twin-1/Cargo.toml"]),
    "edition": (_toml('edition = "2021"', 'edition = "1999"'), ["kernels/edition: cargo refuses", "edition"]),
    "unknown": (_append('[dependencies]\nno-such-crate = "1"\n'), ["kernels/unknown: cargo refuses", "no-such-crate"]),
    "feature": (
        _toml('cargo-manifest = "Cargo.toml"', 'cargo-manifest = "Cargo.toml"\nfeatures = ["none"]', "build.toml"),
        ["kernels/feature: cargo refuses", "none"],
    ),
    "error": (_append("\nfn f() -> i64 { true }\n", "src/value.rs"), ["kernels/error/src/value.rs:", "mismatched"]),
    "torch": (_toml("[tvm-ffi]", "[torch]", "build.toml"), ["[kernel.answer] language: Rust needs the framework"]),
    "channel": (lambda folder: (folder / "rust-toolchain.toml").write_text(""), ["rust-toolchain.toml: [toolchain]"]),
}  # fmt: skip


def test_broken_kernels_stop_no_other(yard: Yard) -> None:
    yard.add("rust-answer")
    for key, (breaking, _) in _BROKEN.items():
        folder = yard.add("rust-answer", key, rename=_named(key))
        _edit(folder / "Cargo.toml", "rust-answer", key)
        breaking(folder)
    result = yard.doit("build", CARGO_NET_OFFLINE="true")
    assert result.status == 1
    assert f"ok     build:rust-answer:{_VARIANT}" in result.out
    assert yard.answer("rust-answer") == 111
    for key, (_, expected) in _BROKEN.items():
        said = re.search(rf"^FAILED build:{key}\b.*?(?=^FAILED|^ok |^done|\Z)", result.out, re.MULTILINE | re.DOTALL)
        assert said is not None, key
        for words in expected:
            assert words in said[0]
    assert "Traceback" not in result.out + result.err
    assert str(yard.root) not in result.out + result.err


def test_a_build_script_runs_for_every_file(yard: Yard) -> None:
    folder = yard.add("rust-answer", listed=lambda text: text + 'src = ["data"]\n')
    (folder / "data").mkdir()
    (folder / "data" / "number.txt").write_text("5")
    (folder / "build.rs").write_text(
        "fn main() {\n"
        '    println!("cargo:rerun-if-changed=build.rs");\n'
        '    let number = std::fs::read_to_string("data/number.txt").unwrap();\n'
        '    println!("cargo:rustc-env=NUMBER={}", number.trim());\n'
        "}\n"
    )
    _edit(folder / "src" / "value.rs", "111 +", 'env!("NUMBER").parse::<i64>().unwrap() +')
    assert yard.doit("build").status == 0
    assert yard.answer("rust-answer") == 5
    (folder / "data" / "number.txt").write_text("6")
    assert yard.doit("build").status == 0
    assert yard.answer("rust-answer") == 6


def test_a_library_may_not_read_what_is_for_tests(yard: Yard) -> None:
    folder = yard.add("rust-answer")
    (folder / "tests" / "number.txt").write_text("5")
    _append('\npub const TEXT: &str = include_str!("../tests/number.txt");\n', "src/lib.rs")(folder)
    assert "its crates read tests/number.txt, which is taken for a file of tests; list it" in yard.doit("build").out
    _append('src = ["tests/number.txt"]\n', "build.toml")(folder)
    assert yard.doit("build").status == 0


def test_a_crate_that_exports_nothing(yard: Yard) -> None:
    folder = yard.add("rust-answer")
    (folder / "src" / "lib.rs").write_text("mod value;\npub use value::answer;\n")
    result = yard.doit("build")
    assert "kernels/rust-answer: its crates export no function" in result.out


# --- toolchains ---


def test_without_cargo_kernels_in_rust_are_skipped(yard: Yard) -> None:
    yard.add("rust-answer")
    yard.add("answer")
    without = [path for path in os.environ["PATH"].split(os.pathsep) if not (Path(path) / "cargo").exists()]
    result = yard.doit("matrix", PATH=os.pathsep.join(without))
    assert result.status == 0
    assert "is not on this machine; install Rust" in result.out
    result = yard.doit("build", PATH=os.pathsep.join(without))
    assert result.status == 0, result.out
    assert result.ran() == [f"build:answer:{_VARIANT}"]


def test_a_toolchain_that_is_not_there(yard: Yard) -> None:
    folder = yard.add("rust-answer")
    (folder / "rust-toolchain.toml").write_text('[toolchain]\nchannel = "1.2.3"\n')
    result = yard.doit("build")
    assert (result.status, result.ran()) == (0, [])
    assert "rust-toolchain.toml asks for 1.2.3" in result.out


def test_an_own_toolchain_is_part_of_the_identity(yard: Yard) -> None:
    listed = subprocess.run(["rustup", "toolchain", "list"], capture_output=True, text=True, check=False).stdout
    if "nightly" not in listed:
        pytest.skip("needs a second toolchain, nightly")
    folder = yard.add("rust-answer")
    (folder / "rust-toolchain.toml").write_text('[toolchain]\nchannel = "nightly"\n')
    result = yard.doit("build")
    assert result.status == 0, result.out
    assert any("nightly" in part for part in yard.metadata("rust-answer")["kernelyard"]["toolchain"])


# --- Cargo.lock ---


def _use(folder: Path, crate: str) -> None:
    _append(f'[dependencies]\n{crate} = "1"\n')(folder)
    _edit(folder / "src" / "value.rs", "111 +", f"{crate}::VALUE +")


def test_versions_are_pinned_and_kept_and_need_no_network(yard: Yard, tmp_path: Path) -> None:
    def pinned() -> dict[str, str]:
        text = (yard.root / "Cargo.lock").read_text()
        return dict(re.findall(r'name = "(\w{4})"\nversion = "([\d.]+)"\nsource', text))

    with serve(tmp_path) as registry:
        environ = {"CARGO_HOME": str(registry.home), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        registry.publish("tiny", "1.0.0", "pub const VALUE: i64 = 5;\n")
        registry.publish("mini", "1.0.0", "pub const VALUE: i64 = 50;\n")
        _use(yard.add("rust-answer"), "tiny")
        result = yard.doit("build", **environ)
        assert "Cargo.lock: does not pin tiny 1.0.0 for kernels/rust-answer; run 'doit lock'" in result.out
        assert "added tiny 1.0.0" in yard.doit("lock", **environ).out
        assert yard.doit("build", **environ).status == 0
        assert yard.answer("rust-answer") == 5
        # Another kernel, for which there is a newer version by now: nothing happens to the first one.
        registry.publish("tiny", "1.1.0", "pub const VALUE: i64 = 6;\n")
        other = yard.add("rust-answer", "other", rename=_named("other"))
        _edit(other / "Cargo.toml", "rust-answer", "other")
        _use(other, "mini")
        assert "added mini 1.0.0" in yard.doit("lock", **environ).out
        assert pinned() == {"tiny": "1.0.0", "mini": "1.0.0"}
        assert yard.doit("build", **environ).ran() == [f"build:other:{_VARIANT}"]
        assert "nothing to change" in yard.doit("lock", **environ).out
    # The registry is gone; what was fetched once is enough.
    shutil.rmtree(yard.root / "build")
    result = yard.doit("build", CARGO_NET_OFFLINE="true", **environ)
    assert result.status == 0, result.out
    assert (yard.answer("rust-answer"), yard.answer("other")) == (5, 50)
    (other / "build.toml").write_text("broken")
    assert "what it needs would be dropped" in yard.doit("lock", **environ).out


def test_the_newest_versions_on_demand(yard: Yard, tmp_path: Path) -> None:
    with serve(tmp_path) as registry:
        environ = {"CARGO_HOME": str(registry.home), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        registry.publish("tiny", "1.0.0", "pub const VALUE: i64 = 5;\n")
        _use(yard.add("rust-answer"), "tiny")
        yard.doit("lock", **environ)
        registry.publish("tiny", "1.1.0", "pub const VALUE: i64 = 6;\n")
        assert "tiny 1.0.0 -> 1.1.0" in yard.doit("lock", "--upgrade", **environ).out


def test_a_stale_lock_of_its_own_is_refused(yard: Yard, tmp_path: Path) -> None:
    with serve(tmp_path) as registry:
        registry.publish("tiny", "1.0.0", "pub const VALUE: i64 = 5;\n")
        folder = yard.add("rust-own")
        _append('[dependencies]\ntiny = "1"\n', "answer/Cargo.toml")(folder)
        environ = {"CARGO_HOME": str(registry.home), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        result = yard.doit("build", **environ)
    assert "kernels/rust-own/Cargo.lock: does not pin tiny 1.0.0" in result.out
    assert (folder / "Cargo.lock").read_text() == (PROJECTS / "rust-own" / "Cargo.lock").read_text()
