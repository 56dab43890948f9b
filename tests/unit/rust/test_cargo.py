from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buildlib import package
from buildlib.errors import StepError
from buildlib.matrix import Matrix
from buildlib.plan import BuildSpec, plan
from buildlib.rust import archive, cargo, crates, testing
from buildlib.rust import workspace as cargo_workspace
from buildlib.workspace import Workspace
from tests.unit.factories import host, row

from .factories import RUST, in_rust

_MATRIX = Matrix(tvm_ffi=(row("0.1"),))


class Compiler:
    """A cargo that makes a library of the content `made`, and says that a crate of it exports a function."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.calls: list[str] = []
        self.made = b"library"
        self.status = 0
        self.says = ""
        self.reads = ["src/lib.rs"]

    def run(self, argv: tuple[str, ...], cwd: Path, folder: Path, *rest: Any) -> int:
        log: Path = rest[1]
        answer: Path | None = rest[4] if len(rest) > 4 else None
        self.calls.append(argv[1])
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.write(self.says)
        if argv[1] == "fetch" or self.status:
            (cwd / "Cargo.lock").touch()
            return self.status if argv[1] != "fetch" else 0
        if answer is not None:
            library = folder / "target" / RUST.host / "release" / "libkernelyard_relu_cpu.a"
            library.parent.mkdir(parents=True, exist_ok=True)
            library.write_bytes(self.made)
            read = " ".join(str(folder / "kernels" / "relu" / path).replace(" ", "\\ ") for path in self.reads)
            library.with_suffix(".d").write_text(f"{library}: {folder}/extensions/x/lib.rs {read}\n")
            message = {"reason": "compiler-artifact", "manifest_path": f"{folder}/kernels/relu/Cargo.toml"}
            answer.write_bytes(msgspec.json.encode({**message, "filenames": ["librelu.rlib"]}) + b"\nnot JSON\n")
        return 0


@pytest.fixture
def compiler(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    made = Compiler(workspace)
    monkeypatch.setattr(cargo, "run", made.run)
    monkeypatch.setattr(testing, "run", made.run)
    monkeypatch.setattr(cargo_workspace, "run", made.run)
    monkeypatch.setattr(archive, "symbols", lambda _: ["__tvm_ffi_relu", "other"])
    return made


@pytest.fixture
def make(workspace: Workspace) -> Callable[..., BuildSpec]:
    """A function that plans one kernel in Rust, named relu."""

    def spec(**component: Any) -> BuildSpec:
        kernel = in_rust(workspace.root / "kernels" / "relu", **component)
        loaded = crates.load(kernel)
        assert loaded is not None
        workspace.crates = (loaded,)
        (only,) = plan((kernel,), (), _MATRIX, host(rust={"": RUST}), {"relu": loaded}).specs
        return only

    return spec


def test_cargo_runs_where_something_differs(
    workspace: Workspace, compiler: Compiler, make: Callable[..., BuildSpec]
) -> None:
    made = make()
    hashes = cargo.build(made, workspace)
    assert set(hashes) == {"Cargo.toml", "src/lib.rs", "../../Cargo.lock"}
    assert compiler.calls == ["fetch", "build"]
    assert cargo.build(made, workspace) == hashes
    assert compiler.calls == ["fetch", "build"]
    assert (workspace.work(made) / "librust.a").read_bytes() == b"library"
    (made.kernel.folder / "src" / "lib.rs").write_text("// edited\n")
    workspace.look_again(made.kernel)
    assert cargo.build(made, workspace) != hashes
    assert compiler.calls == ["fetch", "build", "build"]
    # Features are no files.
    cargo.build(make(features=("fast",)), workspace)
    assert compiler.calls[-1] == "build"
    assert len(compiler.calls) == 4


def test_the_same_library_is_not_linked_again(
    workspace: Workspace, compiler: Compiler, make: Callable[..., BuildSpec]
) -> None:
    made = make()
    cargo.build(made, workspace)
    library = workspace.work(made) / "librust.a"
    before = library.stat().st_mtime_ns
    (made.kernel.folder / "src" / "lib.rs").write_text("// a comment\n")
    workspace.look_again(made.kernel)
    cargo.build(made, workspace)
    assert library.stat().st_mtime_ns == before


def test_a_failure_is_said_and_not_taken_for_done(
    workspace: Workspace, compiler: Compiler, make: Callable[..., BuildSpec]
) -> None:
    made = make()
    compiler.status, compiler.says = 101, "   Compiling relu v1.0.0\nerror: by design\n"
    for _ in range(2):
        with pytest.raises(
            StepError, match=r"^kernels/relu: cargo for tvm-ffi01-cpu-x86_64-linux failed \(exit status 101"
        ) as raised:
            cargo.build(made, workspace)
        assert str(raised.value).endswith("\nerror: by design")
    assert compiler.calls.count("build") == 2


@pytest.mark.parametrize(
    ("linked", "problem"),
    [
        ({"__tvm_ffi_relu", "x"}, None),
        ({"x"}, "the linked extension lacks __tvm_ffi_relu; this is a fault"),
    ],
)
def test_each_function_must_survive_linking(
    workspace: Workspace, compiler: Compiler, make: Callable[..., BuildSpec], monkeypatch: pytest.MonkeyPatch,
    linked: set[str], problem: str | None,
) -> None:  # fmt: skip
    made = make()
    cargo.build(made, workspace)
    monkeypatch.setattr(archive, "dynamic_symbols", lambda _: linked)
    if problem is None:
        cargo.check_exports(made, Path("x.so"), workspace)
        return
    with pytest.raises(StepError, match=problem):
        cargo.check_exports(made, Path("x.so"), workspace)


def test_a_library_may_not_read_what_the_digest_does_not_cover(
    workspace: Workspace, compiler: Compiler, make: Callable[..., BuildSpec]
) -> None:
    compiler.reads.append("tests/a file.txt")
    with pytest.raises(StepError, match=r"^kernels/relu: its crates read tests/a file.txt, which is taken for"):
        cargo.build(make(), workspace)


def test_there_must_be_a_function(
    workspace: Workspace, compiler: Compiler, make: Callable[..., BuildSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "symbols", lambda _: ["other"])
    made = make()
    cargo.build(made, workspace)
    with pytest.raises(StepError, match="kernels/relu: its crates export no function"):
        cargo.check_exports(made, Path("x.so"), workspace)


def test_tests_are_counted(workspace: Workspace, compiler: Compiler, make: Callable[..., BuildSpec]) -> None:
    compiler.says = (
        "test result: ok. 8 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n"
        "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n"
    )
    log = workspace.build / "logs" / "test.log"
    made = make()
    assert made.crates is not None
    assert testing.test(made, made.crates.crates, log, workspace) == (10, 1)
    compiler.status = 101
    with pytest.raises(StepError, match=r"^cargo test of relu: exit status 101; the whole log is build/logs/test.log"):
        testing.test(made, made.crates.crates, log, workspace)


# --- the plan ---


def test_rust_is_part_of_the_identity(make: Callable[..., BuildSpec]) -> None:
    made = make()
    assert made.toolchain is not None
    assert RUST.identity in made.toolchain.identity


def test_without_rust_a_kernel_is_skipped(make: Callable[..., BuildSpec]) -> None:
    made = make()
    assert made.crates is not None
    planned = plan((made.kernel,), (), _MATRIX, host(rust={"": "no cargo; install it"}), {"relu": made.crates})
    assert [skipped.reason for skipped in planned.skipped] == ["no cargo; install it"]


def test_what_other_kernels_pin_does_not_matter(workspace: Workspace, make: Callable[..., BuildSpec]) -> None:
    made = make()
    before = workspace.digest(made)
    (workspace.root / "Cargo.lock").write_text('[[package]]\nname = "half"\nversion = "2.7.1"\nsource = "registry"\n')
    workspace.sources.__dict__.pop("_pinned")
    assert workspace.digest(made) == before


def test_another_rustc_than_that_of_published_builds_is_said(make: Callable[..., BuildSpec]) -> None:
    made = make()
    assert made.toolchain is not None
    before = list(package._narrowed(made))
    other = msgspec.structs.replace(RUST, version="1.92.0", instead_of="1.95.0")
    toolchain = msgspec.structs.replace(made.toolchain, rust=other)
    narrowed = package._narrowed(msgspec.structs.replace(made, toolchain=toolchain))
    assert list(narrowed) == [*before, "rustc 1.92.0 instead of 1.95.0"]
