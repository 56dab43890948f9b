from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from buildlib import process
from buildlib.cuda import Cuda
from buildlib.environment import Settings
from buildlib.rust.oxide_toolchain import CudaOxide, Requirements, find
from buildlib.variant import Version
from tests.unit.factories import write_files

_REQUIRED = Requirements(
    minimum="7.5",
    nightly="nightly-2026-08-28",
    toolchain="install the nightly",
    command="install the command",
    backend="install the backend",
)
_NIGHTLY = "rustup/toolchains/nightly-2026-08-28-x86_64-unknown-linux-gnu/bin/rustc"
_COMMAND = "cargo/bin/cargo-oxide"
_BACKEND = "cargo/cuda-oxide/librustc_codegen_cuda.so"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What programs were asked, on a machine whose rustc answers."""
    calls: list[str] = []

    def output(argv: Sequence[str], **_: object) -> str | None:
        calls.append(" ".join(argv[1:]))
        return "rustc 1.98.0-nightly\nrelease: 1.98.0-nightly\ncommit-hash: 0123456789abcdef\n"

    monkeypatch.setattr(process, "output", output)
    return calls


@pytest.fixture
def look(tmp_path: Path, asked: list[str]) -> Callable[..., CudaOxide | str]:
    """A function that looks for cuda-oxide where some of its parts are."""

    def run(*parts: str, backend: Path | None = None) -> CudaOxide | str:
        write_files(tmp_path, dict.fromkeys(parts, "content"))
        for part in parts:
            (tmp_path / part).chmod(0o755)
        rust = {"RUSTUP_HOME": str(tmp_path / "rustup"), "CARGO_HOME": str(tmp_path / "cargo")}
        settings = Settings(cache=tmp_path / "cache", passed={"PATH": "/none"}, rust=rust, oxide_backend=backend)
        return find(settings, _REQUIRED)

    return run


def test_what_is_missing_is_named_with_its_remedy(look: Callable[..., CudaOxide | str], tmp_path: Path) -> None:
    assert look() == "cuda-oxide: rustup has no nightly-2026-08-28; run 'install the nightly'"
    assert look(_NIGHTLY) == "cuda-oxide: cargo-oxide is not on this machine; run 'install the command'"
    assert look(_NIGHTLY, _COMMAND) == (
        f"cuda-oxide: there is no {tmp_path / _BACKEND}; run 'install the backend', or set CUDA_OXIDE_BACKEND to one"
    )


def test_all_of_it(look: Callable[..., CudaOxide | str], tmp_path: Path, asked: list[str]) -> None:
    found = look(_NIGHTLY, _COMMAND, _BACKEND)
    assert isinstance(found, CudaOxide)
    assert (found.folder, found.cargo_oxide) == ((tmp_path / _NIGHTLY).parents[1], tmp_path / _COMMAND)
    assert found.identity == "cuda-oxide ed7002b439e9 with rustc 1.98.0-nightly 012345678"
    assert look(_NIGHTLY, _COMMAND, _BACKEND) == found


def test_it_is_asked_once_for_each_backend(
    look: Callable[..., CudaOxide | str], tmp_path: Path, asked: list[str]
) -> None:
    first, own = look(_NIGHTLY, _COMMAND), tmp_path / "own.so"
    own.write_text("another")
    assert isinstance(first, str)
    other = look(backend=own)
    assert isinstance(other, CudaOxide)
    assert (other.backend, len(asked)) == (own, 1)
    assert look(backend=own) == other
    assert asked == ["-vV"]


def test_for_a_variant(look: Callable[..., CudaOxide | str]) -> None:
    found = look(_NIGHTLY, _COMMAND, _BACKEND)
    assert isinstance(found, CudaOxide)
    toolkit = Cuda(version=Version(13, 2), nvcc="13.2.88", root=Path("/cuda"))
    beside = found.beside(toolkit)
    assert (beside.root, beside.cuda, beside.locked) == (Path("/cuda"), Version(13, 0), ())
    assert beside.identity == f"{found.identity} and nvcc 13.2.88"
    assert found.refuses(Version(12, 6)) is None
    assert found.wrong(["7.0"]) == "cuda-oxide makes code for 7.5 and newer, and not for '7.0'; remove it"
    assert found.made(["9.0+PTX", "7.0", "8.0"]) == ("8.0", "9.0+PTX")
