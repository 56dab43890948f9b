"""Instruction sets: what a disassembly shows, and who has asked for it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from buildlib import process
from buildlib.check import instructions
from buildlib.check.policy import Instructions
from buildlib.config.model import RustCpu
from buildlib.plan import BuildSpec
from buildlib.workspace import Workspace
from tests.unit.check.subjects import EXTENSION, ID, LIMITS, PORTABLE, library, messages, reasons, subject
from tests.unit.factories import kernel, noarch, spec, write_files

KNOWN = {each.name: each for each in LIMITS.instructions}

PLAIN = "0000000000001000 <plain>:\n    1000:\tmovaps %xmm0,%xmm1\n    1003:\tcall   1010 <verify>\n"
AVX = "0000000000002000 <fast>:\n    2000:\tvaddps %ymm0,%ymm1,%ymm2\n    2004:\tret\n"
AVX512 = "0000000000003000 <faster(float*)>:\n    3000:\tvaddps %zmm0,%zmm1,%zmm2\n"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (PLAIN, {}),
        (PLAIN + AVX, {"AVX": "fast"}),
        (PLAIN + AVX512, {"AVX": "faster(float*)", "AVX-512": "faster(float*)"}),
        (AVX.replace("%ymm0", "%ymm17"), {"AVX": "fast", "AVX-512": "fast"}),
        (AVX.replace("%ymm2", "%ymm2{%k1}"), {"AVX": "fast", "AVX-512": "fast"}),
        (AVX.replace("vaddps %ymm0,%ymm1,%ymm2", "kmovw  %eax,%k1"), {"AVX-512": "fast"}),
        (AVX.replace("vaddps %ymm0,%ymm1,%ymm2", "verw   %ax"), {}),
        (AVX.replace("vaddps %ymm0,%ymm1,%ymm2", "vzeroupper"), {"AVX": "fast"}),
        ("0000000000001000 <f>:\n    1000:\tadd\tz0.s, z0.s, z1.s\n", {"SVE": "f"}),
        ("0000000000001000 <f>:\n    1000:\tld1w\t{z0.s}, p0/z, [x0]\n", {"SVE": "f"}),
        ("0000000000001000 <f>:\n    1000:\tadd\tv0.4s, v0.4s, v1.4s\n", {}),
    ],
)
def test_the_instructions_in_a_disassembly(code: str, found: dict[str, str]) -> None:
    users = {name: instructions.user(code, known) for name, known in KNOWN.items()}
    assert {name: user for name, user in users.items() if user} == found


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ('__attribute__((target("avx2"))) void f();', {"AVX"}),
        ('__attribute__((target("avx512f,avx512bw"))) void f();', {"AVX", "AVX-512"}),
        ('#pragma GCC target("arch=haswell")', {"AVX", "AVX-512"}),
        ('[[gnu::target_clones("avx2", "default")]] void f();', {"AVX"}),
        ("// compile with -mavx2\nvoid f();", set()),
    ],
)
def test_a_source_that_asks(tmp_path: Path, text: str, asked: set[str]) -> None:
    source = write_files(tmp_path, {"f.cpp": text}) / "f.cpp"
    assert {name for name, known in KNOWN.items() if instructions.asks(source, known)} == asked


class Built:
    """A build of `relu`, whose disassemblies are texts: of the library, and of the objects of two sources."""

    def __init__(self, workspace: Workspace, made: BuildSpec, flags: str) -> None:
        self.workspace, self.made = workspace, made
        work = workspace.work(made)
        names = ("fast.cpp", "plain.cpp")
        self.folder = write_files(work, {f"src/csrc/{name}": "" for name in names})
        write_files(work / "cmake", {f"{name}.o": "" for name in names})
        commands = [
            {
                "directory": str(work / "cmake"),
                "command": f"g++ -O2 {flags if name == 'fast.cpp' else ''} -o {name}.o -c ../src/csrc/{name}",
                "file": str(work / "src" / "csrc" / name),
                "output": f"{name}.o",
            }
            for name in names
        ]
        write_files(work / "cmake", {"compile_commands.json": json.dumps(commands)})

    def found(self, monkeypatch: pytest.MonkeyPatch, **code: str) -> list[str]:
        def output(argv: list[str], **_: object) -> str | None:
            return code.get(Path(argv[-1]).name.partition(".")[0].replace(ID, "library"))

        monkeypatch.setattr(process, "output", output)
        return messages(instructions.check(subject(self.made, library()), self.workspace))


@pytest.fixture
def made(workspace: Workspace) -> BuildSpec:
    return spec(kernel(folder=workspace.root / "kernels" / "relu"), on=PORTABLE)


def test_nobody_uses_them(workspace: Workspace, made: BuildSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    # The objects are not even looked at.
    assert Built(workspace, made, "").found(monkeypatch, library=PLAIN) == []


@pytest.mark.parametrize("flags", ["-mavx2 -mfma", "-march=haswell", "-march=x86-64-v3"])
def test_who_uses_them_has_asked(
    workspace: Workspace, made: BuildSpec, monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    assert Built(workspace, made, flags).found(monkeypatch, library=PLAIN + AVX, fast=AVX, plain=PLAIN) == []


@pytest.mark.parametrize("flags", ["", "-march=x86-64-v2", "-msse4.2", "-march=native"])
def test_who_uses_them_has_not_asked(
    workspace: Workspace, made: BuildSpec, monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    (said,) = Built(workspace, made, flags).found(monkeypatch, library=PLAIN + AVX, fast=AVX, plain=PLAIN)
    assert said == (
        f"{EXTENSION}: AVX instructions in fast, from csrc/fast.cpp, which not every CPU of x86_64-linux has; keep "
        "them to a component that has the flag for them, which -march=native is not, and call it only where the CPU "
        "has them"
    )


def test_another_than_who_has_asked_uses_them(
    workspace: Workspace, made: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    (said,) = Built(workspace, made, "-mavx2").found(monkeypatch, library=AVX, fast=AVX, plain=PLAIN + AVX)
    assert "from csrc/plain.cpp" in said


def test_asking_for_less_is_not_enough(workspace: Workspace, made: BuildSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    (said,) = Built(workspace, made, "-mavx2").found(monkeypatch, library=AVX512, fast=AVX512, plain=PLAIN)
    assert "AVX-512 instructions in faster(float*), from csrc/fast.cpp" in said


def test_the_source_has_asked(workspace: Workspace, made: BuildSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built(workspace, made, "")
    write_files(built.folder, {"src/csrc/fast.cpp": '__attribute__((target("avx2")))'})
    assert built.found(monkeypatch, library=AVX, fast=AVX, plain=PLAIN) == []


def test_they_came_with_a_static_library(
    workspace: Workspace, made: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    (said,) = Built(workspace, made, "").found(monkeypatch, library=AVX, fast=PLAIN, plain=PLAIN)
    assert "in fast, from a static library, which" in said


def test_rust_has_them_only_where_it_asks(
    workspace: Workspace, made: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    rust = RustCpu(name="rust", cargo_manifest="Cargo.toml")
    with_rust = msgspec.structs.replace(made, components=(*made.components, rust))
    monkeypatch.setattr(process, "output", lambda *_, **__: AVX)
    assert messages(instructions.check(subject(with_rust, library()), workspace)) == []
    built = Built(workspace, with_rust, "")
    assert built.found(monkeypatch, library=AVX, fast=PLAIN, plain=PLAIN) == []
    # The C++ beside it asks as ever.
    assert len(built.found(monkeypatch, library=AVX, fast=AVX, plain=PLAIN)) == 1


def test_what_cannot_be_told_is_said(workspace: Workspace, made: BuildSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "output", lambda *_, **__: AVX)
    (reason,) = reasons(instructions.check(subject(made, library()), workspace))
    assert reason.startswith(
        f"{EXTENSION} has AVX instructions, and the objects that it was linked from are gone; 'doit"
    )
    monkeypatch.setattr(process, "output", lambda *_, **__: None)
    (reason,) = reasons(instructions.check(subject(made, library()), workspace))
    assert reason == f"objdump cannot read {EXTENSION}; install binutils"
    assert reasons(instructions.check(subject(spec(noarch())), workspace)) == ["no compiled library"]


def test_the_sets_that_are_known() -> None:
    assert all(isinstance(each, Instructions) for each in LIMITS.instructions)
    assert set(KNOWN) == {"AVX", "AVX-512", "SVE"}
