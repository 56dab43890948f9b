"""Device code in cuda-oxide. Its command, which no package index has, is a stand-in that keeps to its contract:
it compiles nothing, and writes PTX of the asked capability where it is told to. All else is real."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from buildlib import environment
from tests.integration.conftest import PROJECTS, ROOT, Yard, needs_cargo, new_yard

pytestmark = needs_cargo

_VARIANT = "tvm-ffi01-cu130-x86_64-linux"

# What `cargo` of the pinned nightly is: it has one command. The arguments and variables of each call are noted.
_CARGO = r"""#!{python}
import json, os, re, sys
from pathlib import Path
oxide, build, *options = sys.argv[1:]
assert (oxide, build) == ("oxide", "build"), sys.argv
ours, cargos = options[: options.index("--")], options[options.index("--") + 1 :]
named = dict(word.removeprefix("--").split("=", 1) for word in ours)
manifest = Path(dict(word.removeprefix("--").split("=", 1) for word in cargos if "=" in word)["manifest-path"])
crate = re.search(r'name = "(.+)"', manifest.read_text())[1]
assert named["device-codegen-crate"] == crate
assert (manifest.parent.parent / "Cargo.lock").exists() or manifest.with_name("Cargo.lock").exists()
(source,) = manifest.parent.glob("src/*.rs")
call = dict(arguments=sys.argv[1:], environ=dict(os.environ), source=source.read_text())
with open({calls!r}, "a") as calls:
    calls.write(json.dumps(call) + "\n")
if "does not compile" in source.read_text():
    sys.exit(f"error: cannot find value `y`\n --> {{source}}:3:5")
arch = "sm_80" if "wrong arch" in source.read_text() else named["arch"]
entries = re.findall(r"#\[kernel\]\s*pub fn (\w+)", source.read_text())
text = f".version 7.8\n.target {{arch}}\n.address_size 64\n"
for entry in entries:
    text += f".visible .entry {{entry}}(.param .u64 .ptr .align 1 a, .param .u64 b)\n{{{{ ret; }}}}\n"
if "nothing" not in source.read_text():
    Path(os.environ["CUDA_OXIDE_PTX_DIR"], crate.replace("-", "_") + ".ptx").write_text(text)
"""


class Oxide:
    """A machine with the stand-in, beside the toolchains that rustup has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls_file = folder / "calls"
        real = environment.home_of(environment.read(), "rustup")
        toolchains = folder / "rustup/toolchains"
        toolchains.mkdir(parents=True)
        for toolchain in real.glob("toolchains/*"):
            (toolchains / toolchain.name).symlink_to(toolchain)
        if (real / "settings.toml").exists():
            shutil.copy(real / "settings.toml", folder / "rustup")
        nightly = next(
            line.partition('"')[2].rstrip('"\n')
            for line in (ROOT / "toolchains/dsl.toml").read_text().splitlines()
            if line.startswith("nightly = ")
        )
        programs = toolchains / f"{nightly}-x86_64-unknown-linux-gnu/bin"
        self._program(programs / "rustc", "#!/bin/sh\nprintf 'release: 1.98.0-nightly\\ncommit-hash: 0123456789\\n'\n")
        self._program(programs / "cargo", _CARGO.format(python=sys.executable, calls=str(self.calls_file)))
        self._program(folder / "bin/cargo-oxide", "#!/bin/sh\nexit 1\n")
        self.backend = folder / "backend.so"
        self.backend.write_text("backend")
        self.nightly = nightly

    def _program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def environ(self) -> dict[str, str]:
        return {
            "RUSTUP_HOME": str(self.folder / "rustup"),
            "CUDA_OXIDE_BACKEND": str(self.backend),
            "PATH": f"{os.environ['PATH']}:{self.folder}/bin",
        }

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.calls_file.read_text().splitlines()]


@pytest.fixture(scope="module")
def oxide(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Oxide:
    yard = new_yard(tmp_path_factory.mktemp("toolchain") / "yard", cache)
    result = yard.doit("toolchain:cuda-13.0", "toolchain:cuobjdump")
    if "skipped" in result.out:
        pytest.skip(result.out)
    assert result.status == 0, result.out
    return Oxide(tmp_path_factory.mktemp("oxide"))


def _add(yard: Yard, *, upstream: bool = False) -> Path:
    """The project rust-nvptx with a device crate of cuda-oxide: in the standard layout, or in upstream's."""
    folder = yard.add("rust-nvptx", "rust-oxide")
    shutil.rmtree(folder / "table")
    shutil.rmtree(folder / "device")
    device = folder / ("kernels" if upstream else "device")
    (device / "src").mkdir(parents=True)
    workspace = "" if upstream else "[workspace]\n"
    (device / "Cargo.toml").write_text(
        f'[package]\nname = "rust-oxide-kernels"\nversion = "1.0.0"\nedition = "2021"\n{workspace}'
    )
    source = device / "src" / ("main.rs" if upstream else "lib.rs")
    source.write_text("#[kernel]\npub fn relu_fwd(x: &[f32]) {}\n" + ("fn main() {}\n" if upstream else ""))
    lock = 'version = 4\n\n[[package]]\nname = "rust-oxide-kernels"\nversion = "1.0.0"\n'
    (device / "Cargo.lock").write_text(lock)
    toml = (folder / "build.toml").read_text().replace('"nvptx"', '"cuda-oxide"')
    if upstream:
        (device / "Cargo.lock").unlink()
        toml += 'device-manifest = "kernels/Cargo.toml"\n'
        (folder / "Cargo.toml").write_text(
            (folder / "Cargo.toml").read_text() + '\n[workspace]\nmembers = ["kernels"]\ndefault-members = ["."]\n'
        )
        (folder / "Cargo.lock").write_text(lock + '\n[[package]]\nname = "rust-nvptx"\nversion = "1.0.0"\n')
        host = folder / "src/lib.rs"
        ptx = 'concat!(env!("CARGO_MANIFEST_DIR"), "/kernels-ptx/rust_oxide_kernels.ptx")'
        host.write_text(host.read_text() + f"\n#[used]\nstatic PTX: &[u8] = include_bytes!({ptx});\n")
    (folder / "build.toml").write_text(toml)
    return source


def _build(yard: Yard, oxide: Oxide, **extra: str) -> str:
    result = yard.doit(f"check:rust-oxide:{_VARIANT}", **oxide.environ(), **extra)
    assert "Traceback" not in result.out + result.err
    return "" if result.status == 0 else result.out


def test_built_with_the_contract_of_its_command(yard: Yard, oxide: Oxide) -> None:
    source = _add(yard)
    assert _build(yard, oxide) == ""
    metadata = yard.metadata("rust-oxide")
    # The images were checked against this.
    assert metadata["backend"] == {"type": "cuda", "archs": ["8.0", "9.0+PTX"]}
    assert any(part.startswith("cuda-oxide ") for part in metadata["kernelyard"]["toolchain"])
    calls = oxide.calls()[-2:]
    for call, arch in zip(calls, ("sm_80", "sm_90"), strict=True):
        assert call["arguments"][:3] == ["oxide", "build", f"--arch={arch}"]
        environ = call["environ"]
        assert (environ["CUDA_OXIDE_TARGET"], environ["RUSTUP_TOOLCHAIN"]) == (arch, oxide.nightly)
        assert environ["CUDA_OXIDE_BACKEND"] == str(oxide.backend)
        # cargo-oxide finds the cargo and the rustc of the nightly, and is found.
        first = environ["PATH"].split(":")
        assert first[0] == str(Path(environ["RUSTC"]).parent)
        assert first[1] == f"{oxide.folder}/bin"
        assert environ.get("RUSTC_BOOTSTRAP") is None
    count = len(oxide.calls())
    assert yard.doit(f"build:rust-oxide:{_VARIANT}", **oxide.environ()).ran() == []
    host = yard.root / "kernels/rust-oxide/src/lib.rs"
    host.write_text(host.read_text() + "// edited\n")
    assert _build(yard, oxide) == ""
    assert len(oxide.calls()) == count
    source.write_text(source.read_text() + "// edited\n")
    assert _build(yard, oxide) == ""
    assert len(oxide.calls()) == count + 2
    # Another backend is another compiler.
    oxide.backend.write_text("a newer backend")
    assert _build(yard, oxide) == ""
    assert len(oxide.calls()) == count + 4


def test_upstreams_layout(yard: Yard, oxide: Oxide) -> None:
    _add(yard, upstream=True)
    assert _build(yard, oxide) == ""
    (library,) = yard.artifact("rust-oxide").glob("*.so")
    # As PTX for the oldest capability, which the host crate includes by itself, and in the image.
    assert b".target sm_80" in library.read_bytes()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "// does not compile\n",
            ["does not compile for 8.0 (exit status 1)", "--> kernels/rust-oxide/device/src/lib.rs:3:5"],
        ),
        ("// wrong arch\n#[kernel]\npub fn f() {}\n", ["cuda-oxide wrote code for sm_80 and was asked for sm_90"]),
        ("// nothing\n", ["cuda-oxide wrote no rust_oxide_kernels.ptx; mark a function"]),
        ("// no entry\n", ["there is nothing that can be launched"]),
    ],
    ids=["an error", "another capability", "no PTX", "no entry"],
)
def test_device_code_that_cannot_be(yard: Yard, oxide: Oxide, source: str, expected: list[str]) -> None:
    _add(yard).write_text(source)
    said = _build(yard, oxide)
    for words in expected:
        assert words in said


def test_where_it_is_not_installed_kernels_are_skipped(yard: Yard, tmp_path: Path) -> None:
    shutil.copytree(PROJECTS / "rust-answer", yard.root / "kernels/rust-answer")
    _add(yard)
    result = yard.doit("matrix", CUDA_OXIDE_BACKEND=str(tmp_path / "none"))
    assert result.status == 0
    assert "cuda-oxide: rustup has no nightly-" in result.out
    assert "rustup toolchain install nightly-" in result.out
