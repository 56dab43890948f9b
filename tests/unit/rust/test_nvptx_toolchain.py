from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from buildlib import process
from buildlib.cuda import Cuda
from buildlib.environment import Settings
from buildlib.errors import ToolchainError
from buildlib.rust import nvptx_toolchain
from buildlib.rust.nvptx_toolchain import Nvptx, Requirements, ensure_core, find
from buildlib.variant import Version
from buildlib.workspace import Workspace
from tests.unit.factories import write_files

_REQUIRED = Requirements(minimum="7.0", rustc="1.95", published="1.96.0", install="install it")
_SOURCE = {
    "lib/rustlib/src/rust/library/core/src/lib.rs": "",
    "lib/rustlib/src/rust/library/core/Cargo.toml": '[package]\nname = "core"\nedition = "2024"\n',
}
_TARGET = {"lib/rustlib/nvptx64-nvidia-cuda/lib/libcore-0123.rlib": ""}


class Machine:
    """A machine with rustcs that answer, each in a folder of its own; what was asked is noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = [folder / "nothing"]
        self.versions: dict[str, str] = {}
        self.asked: list[str] = []
        self.settings = Settings(cache=folder / "cache")

    def install(self, name: str, version: str, files: Mapping[str, str] = _SOURCE, *, rustup: bool = False) -> str:
        root = self.folder / ("rustup/toolchains" if rustup else "opt") / name
        write_files(root, {"bin/rustc": "#!/bin/sh\n", **files})
        (root / "bin/rustc").chmod(0o755)
        self.versions[str(root / "bin/rustc")] = version
        if not rustup:
            self.path.append(root / "bin")
        return str(root / "bin/rustc")

    def output(self, argv: Sequence[str], *, env: Mapping[str, str]) -> str | None:
        assert env["RUSTC_BOOTSTRAP"] == "1"
        self.asked.append(" ".join(argv[1:]))
        version = self.versions[argv[0]]
        if not version:
            return None
        if argv[1] == "-vV":
            return f"rustc {version}\nrelease: {version}\ncommit-hash: 0123456789abcdef\nhost: here\n"
        cpus = (
            "Available CPUs for this target:\n    sm_30  - the default\n    sm_70\n    sm_80\n    sm_90\n    sm_90a\n"
        )
        return f"{Path(argv[0]).parents[1]}\n{cpus}"

    def find(self) -> Nvptx | str:
        passed = {"PATH": ":".join(map(str, self.path))}
        rust = {"RUSTUP_HOME": str(self.folder / "rustup")}
        return find(Settings(cache=self.settings.cache, passed=passed, rust=rust), _REQUIRED)

    def found(self) -> Nvptx:
        found = self.find()
        assert isinstance(found, Nvptx), found
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(process, "output", made.output)
    return made


# --- which rustc ---


def test_a_rustc_with_its_source(machine: Machine) -> None:
    rustc = machine.install("web", "1.96.0")
    found = machine.found()
    assert (found.rustc, found.version, found.instead_of) == (rustc, "1.96.0", None)
    assert found.source == machine.folder / "opt/web/lib/rustlib/src/rust/library"
    assert found.cpus == ("sm_30", "sm_70", "sm_80", "sm_90", "sm_90a")


def test_it_is_asked_once(machine: Machine) -> None:
    machine.install("web", "1.96.0")
    assert machine.find() == machine.find()
    assert machine.asked == ["-vV", "--print=sysroot --print=target-cpus --target=nvptx64-nvidia-cuda"]


def test_another_rustc_in_its_place_is_asked_again(machine: Machine) -> None:
    rustc = machine.install("web", "1.96.0")
    machine.found()
    machine.versions[rustc] = "1.97.0"
    Path(rustc).write_text("#!/bin/sh\n# another\n")
    assert machine.found().version == "1.97.0"


def test_one_with_the_target_installed(machine: Machine) -> None:
    machine.install("1.96.0-here", "1.96.0", _TARGET, rustup=True)
    assert machine.found().source is None
    # Its source goes first.
    machine.install("1.96.0-here", "1.96.0", _SOURCE, rustup=True)
    assert machine.found().source is not None


@pytest.mark.parametrize(
    ("versions", "best", "instead_of"),
    [
        (["1.97.0", "1.96.0"], "1.96.0", None),
        (["1.95.0", "1.97.0"], "1.97.0", "1.96.0"),
        (["1.98.0-nightly", "1.95.1"], "1.95.1", "1.96.0"),
        (["1.97.0-nightly", "1.98.0-nightly"], "1.98.0-nightly", "1.96.0"),
    ],
)
def test_the_published_version_then_the_newest_release(
    machine: Machine, versions: list[str], best: str, instead_of: str | None
) -> None:
    for version in versions:
        machine.install(version, version, rustup=version != versions[0])
    assert (machine.found().version, machine.found().instead_of) == (best, instead_of)


def test_the_first_on_path_of_one_version(machine: Machine) -> None:
    first = machine.install("a", "1.96.0")
    machine.install("b", "1.96.0")
    machine.install("c", "1.96.0", rustup=True)
    assert machine.found().rustc == first


def test_rustups_stand_in_is_no_rustc(machine: Machine) -> None:
    rustc = machine.install("proxy", "1.96.0")
    write_files(Path(rustc).parent, {"rustup": ""})
    assert machine.find() == "nvptx: no rustc that knows nvptx64-nvidia-cuda; install it"
    assert machine.asked == []


def test_why_there_is_none(machine: Machine) -> None:
    assert machine.find() == "nvptx: no rustc that knows nvptx64-nvidia-cuda; install it"
    machine.install("broken", "")
    assert machine.find() == "nvptx: no rustc that knows nvptx64-nvidia-cuda; install it"
    old = machine.install("old", "1.63.0")
    assert machine.find() == (f"nvptx: no rustc of 1.95 or newer for nvptx64-nvidia-cuda ({old} is 1.63.0); install it")
    bare = machine.install("bare", "1.96.0", {})
    assert machine.find() == (
        f"nvptx: no core for nvptx64-nvidia-cuda and no source of it, which {bare} 1.96.0 would need; install it"
    )


# --- what it is for a build ---


def test_the_identity_has_no_path_but_all_that_decides(machine: Machine) -> None:
    machine.install("web", "1.96.0")
    found = machine.found()
    assert found.identity.startswith("rustc 1.96.0 012345678 nvptx64-nvidia-cuda (own core, ")
    assert str(machine.folder) not in found.identity
    toolkit = Cuda(version=Version(13, 2), nvcc="13.2.88", root=Path("/cuda"))
    beside = found.beside(toolkit)
    assert beside.identity == f"{found.identity} and nvcc 13.2.88"
    assert (beside.root, beside.cuda) == (Path("/cuda"), Version(13, 0))
    # The assembler does not decide about core.
    assert beside.folder(Path("/cache")) == found.folder(Path("/cache"))


def test_capabilities(machine: Machine) -> None:
    machine.install("web", "1.96.0")
    found = machine.found()
    assert found.wrong(["8.0", "9.0a", "9.0+PTX"]) is None
    assert found.wrong(["8.0", "6.1"]) == "nvptx makes code for 7.0 and newer, and not for '6.1'; remove it"
    assert found.wrong(["12.0"]) == "rustc 1.96.0 makes no code for '12.0'; remove it, or install a newer rustc"
    assert found.made(["6.1", "9.0", "8.0", "12.0", "12.1+PTX"]) == ("8.0", "9.0")
    assert found.refuses(Version(12, 6)) is None


# --- core, once ---


class Programs:
    """A rustc that writes what it is told to, or fails."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, ...]] = []
        self.status = 0

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], log: Path, **_: Any) -> int:
        self.runs.append(tuple(argv))
        assert env["RUSTC_BOOTSTRAP"] == "1"
        log.write_text("error[E0093]: what rustc says\n")
        if not self.status:
            (made,) = (word.removeprefix("-o") for word in argv if word.startswith("-o"))
            Path(made).write_text("library")
        return self.status


@pytest.fixture
def programs(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs()
    monkeypatch.setattr(workspace.processes, "run", made.run)
    return made


def test_core_is_compiled_once(machine: Machine, workspace: Workspace, programs: Programs) -> None:
    machine.install("web", "1.96.0")
    compiler = machine.found()
    folder = ensure_core(compiler, workspace)
    assert folder == ensure_core(compiler, workspace) == compiler.folder(workspace.settings.cache)
    library = folder / "lib/rustlib/nvptx64-nvidia-cuda/lib"
    assert sorted(path.name for path in library.iterdir()) == ["libcompiler_builtins.rlib", "libcore.rlib"]
    core, builtins = programs.runs
    assert {"--edition=2024", "-Cpanic=immediate-abort", "--target=nvptx64-nvidia-cuda"} <= {*core}
    assert f"--remap-path-prefix={compiler.source}=library" in core
    assert any(word.startswith("--sysroot=") for word in builtins)
    assert nvptx_toolchain.sysroot(compiler, folder) == folder


def test_an_installed_core_gets_only_what_panics_do(machine: Machine, workspace: Workspace, programs: Programs) -> None:
    machine.install("1.96.0-here", "1.96.0", _TARGET, rustup=True)
    compiler = machine.found()
    folder = ensure_core(compiler, workspace)
    assert len(programs.runs) == 1
    assert (folder / "libkernelyard_panics.rlib").is_file()
    assert nvptx_toolchain.sysroot(compiler, folder) == compiler.sysroot


def test_another_source_does_not_compile(machine: Machine, workspace: Workspace, programs: Programs) -> None:
    rustc = machine.install("web", "1.96.0")
    compiler = machine.found()
    programs.status = 1
    with pytest.raises(ToolchainError) as raised:
        ensure_core(compiler, workspace)
    assert str(raised.value) == (
        f"{compiler.source}: {rustc} 1.96.0 cannot compile core for nvptx64-nvidia-cuda (exit status 1); "
        "install the source of this very version\nerror[E0093]: what rustc says"
    )
    # Nothing is left that could be taken for it.
    assert [path.suffix for path in (workspace.settings.cache / "toolchains").iterdir()] == [".lock"]
