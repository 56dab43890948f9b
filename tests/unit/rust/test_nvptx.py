from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buildlib import package
from buildlib.config.model import Dsl
from buildlib.cuda import Cuda
from buildlib.errors import StepError
from buildlib.plan import BuildSpec
from buildlib.rust import nvptx, nvptx_toolchain
from buildlib.rust.crates import Device
from buildlib.rust.device_code import Code
from buildlib.rust.manifest import Crate
from buildlib.rust.nvptx_toolchain import Nvptx
from buildlib.variant import Version
from buildlib.workspace import Workspace
from tests.unit.factories import HOST, spec, tvm_ffi

from .factories import RUST

_COMPILER = Nvptx(
    rustc="/web/bin/rustc",
    version="1.96.0",
    commit="ac68faa20",
    build="0",
    sysroot=Path("/web"),
    source=Path("/web/library"),
    cpus=("sm_80", "sm_90a"),
    minimum="7.0",
    toolkit=Cuda(version=Version(13, 0), nvcc="13.0.88", root=Path("/cuda")),
)
_DEVICE = Device(
    component="relu_cuda",
    dsl=Dsl.NVPTX,
    crate=Crate(name="relu-device", folder="device"),
    host=Crate(name="relu", folder=""),
)


def _ptx(*entries: str) -> str:
    return "".join(f".visible .entry {entry}\n{{\n\tret;\n}}\n" for entry in entries)


_ONE = _ptx("one(\n\t.param .u64 .ptr .align 1 one_param_0,\n\t.param .u32 one_param_1\n)")


# --- what the PTX must be ---


def test_entries_that_agree() -> None:
    (entry,) = nvptx.agreeing({"8.0": _ONE, "9.0": _ONE}, "here")
    assert (entry.symbol, entry.parameters) == ("one", ("pointer", "b32"))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"8.0": _ONE, "9.0": _ptx("two()")}, "here: one, two: not the same for 8.0 and 9.0; give every entry"),
        ({"8.0": _ONE, "9.0": _ptx("one(.param .u64 a)")}, "here: one: not the same for 8.0 and 9.0; give every entry"),
        (
            {"8.0": _ptx("one(.param .u64 a, .param .align 8 .b8 b[24])")},
            "here: one: parameter 2 is neither a number nor a pointer; pass pointers, and numbers of 32 or 64 bits",
        ),
        ({"8.0": _ptx("one(.param .u8 a)")}, "here: one: parameter 1 has 8 bits; pass pointers, and numbers"),
        (
            {"8.0": _ONE + ".extern .func (.param .b32 a) memcmp(.param .b64 b);\n"},
            "here: uses memcmp, which nothing defines for GPUs; write it in the device crate",
        ),
    ],
)
def test_what_cannot_be_launched(texts: dict[str, str], message: str) -> None:
    with pytest.raises(StepError) as raised:
        nvptx.agreeing(texts, "here")
    assert str(raised.value).startswith(message)


def test_all_entries_are_in_one_fatbin() -> None:
    files = {"8.0": Path("a.ptx"), "9.0a": Path("b.ptx")}
    entries = nvptx.agreeing({"8.0": _ONE}, "here")
    unit = nvptx.unit("relu-device", entries, files, ("8.0", "8.0+PTX", "9.0a"))
    assert (unit.name, unit.kind) == ("relu-device", "ptx")
    assert unit.codes == (
        Code(capability="8.0", arch="80", file=Path("a.ptx"), portable=True),
        Code(capability="9.0", arch="90a", file=Path("b.ptx"), portable=False),
    )
    (entry,) = unit.entries
    assert (entry.function, entry.symbol, entry.parameters, entry.keys) == ("one", "one", ("pointer", "b32"), {})
    assert [(variant.capability, variant.exact, variant.portable) for variant in entry.variants] == [
        ("8.0", False, True),
        ("9.0", True, False),
    ]


def test_ptxas_of_the_variants_own_cuda() -> None:
    code = Code(capability="9.0", arch="90a", file=Path("b.ptx"), portable=False)
    assert nvptx.assemble(_COMPILER, code, Path("b.cubin")) == (
        "/cuda/bin/ptxas", "-O3", "--verbose", "--gpu-name=sm_90a", "--output-file=b.cubin", "b.ptx",
    )  # fmt: skip


# --- how cargo is called ---


class Cargo:
    """Stands in for cargo and rustc: writes PTX where it is told to, and what it read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder
        self.target = folder / "target"
        self.calls: list[tuple[tuple[str, ...], dict[str, str]]] = []
        self.status = 0
        self.reads = "device/src/lib.rs"

    def run(self, argv: tuple[str, ...], _cwd: Path, _folder: Path, *rest: Any) -> int:
        log, extra, answer = rest[1], rest[3], rest[4]
        self.calls.append((argv, extra))
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.write("   Compiling relu-device v1.0.0\nerror: what rustc says\n" if self.status else "")
        if self.status:
            return self.status
        (target,) = (Path(word.removeprefix("--emit=asm=")) for word in argv if word.startswith("--emit=asm="))
        target.write_text(_ONE)
        depfile = self.target / "nvptx64-nvidia-cuda/release/relu_device.d"
        depfile.parent.mkdir(parents=True, exist_ok=True)
        depfile.write_text(f"relu_device.ptx: {self.folder}/kernels/relu/{self.reads}\n")
        manifest = os.path.join(self.folder, "kernels/relu/device/Cargo.toml")
        message = {"reason": "compiler-artifact", "manifest_path": manifest, "target": {"name": "relu-device"}}
        answer.write_bytes(msgspec.json.encode(message) + b"\n")
        return 0


@pytest.fixture
def cargo(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Cargo:
    made = Cargo(workspace.build / "cargo")
    monkeypatch.setattr(nvptx, "run", made.run)
    monkeypatch.setattr(nvptx_toolchain, "ensure_core", lambda *_: Path("/cache/nvptx"))
    inputs = msgspec.defstruct("Inputs", [("crates", tuple[str, ...])])
    monkeypatch.setattr(workspace, "inputs", lambda _: inputs(("device/src/lib.rs",)))
    return made


@pytest.fixture
def emit(workspace: Workspace, cargo: Cargo, tmp_path: Path) -> Callable[..., Any]:
    planned = spec(tvm_ffi(folder=workspace.root / "kernels" / "relu"))
    assert planned.toolchain is not None
    made: BuildSpec = msgspec.structs.replace(
        planned,
        toolchain=msgspec.structs.replace(planned.toolchain, rust=RUST),
        archs={"relu_cuda": ("8.0", "9.0a", "9.0a+PTX")},
    )
    folder = tmp_path / "code"
    folder.mkdir()

    def run(compiler: Nvptx = _COMPILER) -> Any:
        return nvptx.emit(made, _DEVICE, compiler, folder, cargo, workspace)  # type: ignore[arg-type]

    return run


def test_once_for_each_capability(cargo: Cargo, emit: Callable[..., Any]) -> None:
    (unit,) = emit()
    assert [code.file.name for code in unit.codes] == ["relu-device.sm_80.ptx", "relu-device.sm_90a.ptx"]
    assert all(code.file.read_text() == _ONE for code in unit.codes)
    assert len(list(unit.codes[0].file.parent.iterdir())) == 2
    (argv, extra), (other, _) = cargo.calls
    assert argv[:5] == ("/rust/bin/cargo", "rustc", "--locked", "--package=relu-device", "--lib")
    assert {"--target=nvptx64-nvidia-cuda", "--crate-type=cdylib", "-Ctarget-cpu=sm_80", "-Zno-link"} <= {*argv}
    assert "-Ctarget-cpu=sm_90a" in other
    # A warning is shown once.
    assert ("--cap-lints=allow" in argv, "--cap-lints=allow" in other) == (False, True)
    assert (extra["RUSTC"], extra["RUSTC_BOOTSTRAP"]) == ("/web/bin/rustc", "1")
    flags = extra["CARGO_ENCODED_RUSTFLAGS"].split("\x1f")
    assert {"--sysroot=/cache/nvptx", "-Cpanic=immediate-abort", "--remap-path-prefix=/web/library=library"} <= {*flags}


def test_the_same_command_is_never_given_twice(cargo: Cargo, emit: Callable[..., Any]) -> None:
    # Cargo would take the work for done.
    emit()
    emit()
    assert len({argv for argv, _ in cargo.calls}) == 4


def test_an_installed_core_panics_through_a_crate_of_ours(cargo: Cargo, emit: Callable[..., Any]) -> None:
    emit(msgspec.structs.replace(_COMPILER, source=None))
    argv, extra = cargo.calls[0]
    assert "--extern=force:kernelyard_panics=/cache/nvptx/libkernelyard_panics.rlib" in argv
    assert "--sysroot=/web" in extra["CARGO_ENCODED_RUSTFLAGS"]


def test_what_rustc_says_is_shown_once(cargo: Cargo, emit: Callable[..., Any]) -> None:
    cargo.status = 101
    with pytest.raises(StepError) as raised:
        emit()
    assert str(raised.value) == (
        "kernels/relu: device code of [kernel.relu_cuda] does not compile for 8.0 (exit status 101); the whole log is "
        f"build/logs/relu/tvm-ffi01-cpu-{HOST.platform}/build.log\nerror: what rustc says"
    )
    assert len(cargo.calls) == 1


def test_a_file_that_is_not_listed_is_named(cargo: Cargo, emit: Callable[..., Any]) -> None:
    cargo.reads = "device/tests/table.rs"
    with pytest.raises(StepError, match=r"read device/tests/table\.rs, which is taken for a file of tests; list it"):
        emit()


def test_an_artifact_tells_of_another_rustc_than_that_of_published_builds() -> None:
    planned = spec(tvm_ffi())
    assert planned.toolchain is not None
    compiler = msgspec.structs.replace(_COMPILER, instead_of="1.97.0")
    chain = msgspec.structs.replace(planned.toolchain, dsls={Dsl.NVPTX: compiler})
    said = list(package._narrowed(msgspec.structs.replace(planned, toolchain=chain)))
    assert said[-1] == "rustc 1.96.0 for device code instead of 1.97.0"
