"""Cargo workspaces, with a cargo that only answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli

from buildlib.errors import StepError
from buildlib.rust import crates
from buildlib.rust import workspace as module
from buildlib.rust.workspace import CargoWorkspace, extension_name
from buildlib.variant import Backend
from buildlib.workspace import Workspace
from tests.unit.factories import write_files

from .factories import RUST, in_rust, manifest

_PIN = '[[package]]\nname = "{}"\nversion = "1.0.0"\nsource = "registry"\n'


class Cargo:
    """Notes how it is called; refuses a workspace with a member that `refuses` says so of, and else locks `adds`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.refuses: Callable[[str], bool] = lambda _: False
        self.adds: dict[str, str] = {}

    def run(self, argv: tuple[str, ...], cwd: Path, folder: Path, *_: Any) -> int:
        self.calls.append(argv[1:])
        members = tomli.loads((cwd / "Cargo.toml").read_text())["workspace"]["members"]
        names = [member.removeprefix("kernels/") for member in members if member.startswith("kernels/")]
        if any(self.refuses(name) for name in names):
            with (folder / "log").open("a") as log:
                log.write("error: refused\n")
            return 101
        lock = cwd / "Cargo.lock"
        text = lock.read_text() if lock.exists() else ""
        for name in names:
            needs = self.adds.get(name, "")
            wanted = f'dependencies = ["{needs}"]\n' if needs else ""
            text += f'[[package]]\nname = "{extension_name(name, Backend.CPU)}"\nversion = "0.0.0"\n{wanted}'
            text += _PIN.format(needs) if needs and _PIN.format(needs) not in text else ""
        lock.write_text(text)
        return 0


@pytest.fixture
def cargo(monkeypatch: pytest.MonkeyPatch) -> Cargo:
    made = Cargo()
    monkeypatch.setattr(module, "run", made.run)
    return made


class Checkout:
    """Kernels in Rust in a checkout, and the workspace that they share."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.kernels: dict[str, crates.Crates] = {}

    def add(self, key: str, files: dict[str, str] | None = None, **component: Any) -> crates.Crates:
        loaded = crates.load(in_rust(self.workspace.root / "kernels" / key, files, **component))
        assert loaded is not None
        self.kernels[key] = loaded
        return loaded

    def open(self) -> CargoWorkspace:
        """The shared workspace as a new run would see it."""
        self.workspace.crates = tuple(self.kernels.values())
        self.workspace.__dict__.pop("shared_cargo", None)
        shared = self.workspace.shared_cargo
        shared.folder.mkdir(parents=True, exist_ok=True)
        shared.log = shared.folder / "log"
        return shared

    def members(self) -> list[str]:
        document = tomli.loads((self.workspace.build / "cargo" / "Cargo.toml").read_text())
        return [member for member in document["workspace"]["members"] if member.startswith("kernels/")]


@pytest.fixture
def checkout(workspace: Workspace) -> Checkout:
    return Checkout(workspace)


def test_what_is_laid_out(checkout: Checkout, cargo: Cargo) -> None:
    files = {
        "Cargo.toml": manifest("relu", '[lib]\ncrate-type = ["staticlib"]\n[dependencies]\nx.path = "../_rust/x"\n'),
        "tests/rust.rs": "",
    }
    root = checkout.workspace.root
    write_files(root / "kernels", {"_rust/x/Cargo.toml": manifest("x"), "_rust/x/src/lib.rs": ""})
    relu = checkout.add("relu", files, features=("fast",))
    hashes = checkout.open().use(relu, RUST)
    assert set(hashes) == {"Cargo.toml", "src/lib.rs", "../_rust/x/Cargo.toml", "../_rust/x/src/lib.rs"}
    folder = checkout.workspace.build / "cargo"
    assert (folder / "kernels/relu/tests/rust.rs").exists()
    assert (folder / "kernels/_rust/x/src/lib.rs").exists()
    assert 'crate-type = ["rlib"]' in (folder / "kernels/relu/Cargo.toml").read_text()
    extension = tomli.loads((folder / "extensions/kernelyard-relu-cpu/Cargo.toml").read_text())
    assert extension["dependencies"] == {
        "part1": {"package": "relu", "path": "../../kernels/relu", "features": ["fast"]}
    }
    assert extension["lib"]["crate-type"] == ["staticlib"]
    assert "pub extern crate part1;" in (folder / "extensions/kernelyard-relu-cpu/lib.rs").read_text()
    assert checkout.members() == ["kernels/_rust/x", "kernels/relu"]


def test_cargo_is_asked_again_only_about_other_manifests(checkout: Checkout, cargo: Cargo) -> None:
    relu = checkout.add("relu")
    checkout.open().use(relu, RUST)
    assert cargo.calls == [("fetch", "--target", RUST.host, "--offline")]
    checkout.open().use(relu, RUST)
    (relu.kernel / "src" / "lib.rs").write_text("// edited\n")
    checkout.workspace.cache.forget(relu.kernel)
    checkout.open().use(relu, RUST)
    assert len(cargo.calls) == 1
    (relu.kernel / "Cargo.toml").write_text(manifest("relu", "[features]\nx = []\n"))
    checkout.workspace.cache.forget(relu.kernel)
    checkout.open().use(relu, RUST)
    assert len(cargo.calls) == 2
    # Somebody else changed the copy of Cargo.lock.
    (checkout.workspace.build / "cargo" / "Cargo.lock").write_text("")
    checkout.open().use(relu, RUST)
    assert len(cargo.calls) == 3


def test_a_file_that_is_gone_leaves_the_layout(checkout: Checkout, cargo: Cargo) -> None:
    relu = checkout.add("relu", {"src/gone.rs": ""})
    checkout.open().use(relu, RUST)
    copy = checkout.workspace.build / "cargo" / "kernels" / "relu" / "src" / "gone.rs"
    assert copy.exists()
    (relu.kernel / "src" / "gone.rs").unlink()
    checkout.workspace.cache.forget(relu.kernel)
    checkout.open().use(relu, RUST)
    assert not copy.exists()


def test_a_build_script_is_new_when_another_file_is(checkout: Checkout, cargo: Cargo) -> None:
    relu = checkout.add("relu", {"build.rs": "", "data/a": "", "data/b": ""}, src=("data",))
    copy = checkout.workspace.build / "cargo" / "kernels" / "relu" / "build.rs"

    def time_after(change: Callable[[], object]) -> int:
        change()
        checkout.workspace.cache.forget(relu.kernel)
        checkout.open().use(relu, RUST)
        return copy.stat().st_mtime_ns

    first = time_after(lambda: None)
    assert time_after(lambda: (relu.kernel / "src/lib.rs").write_text("// edited")) == first
    second = time_after(lambda: (relu.kernel / "data/a").write_text("edited"))
    assert second > first
    assert time_after((relu.kernel / "data/b").unlink) > second


def test_who_is_refused_stops_no_other(checkout: Checkout, cargo: Cargo) -> None:
    a, bad, c = (checkout.add(key) for key in ("a", "bad", "c"))
    cargo.refuses = lambda name: name == "bad"
    shared = checkout.open()
    shared.use(a, RUST)
    assert checkout.members() == ["kernels/a", "kernels/c"]
    with pytest.raises(StepError, match=r"^kernels/bad: cargo refuses its crates\nerror: refused"):
        shared.use(bad, RUST)
    shared.use(c, RUST)
    # The next run knows it.
    calls = len(cargo.calls)
    with pytest.raises(StepError, match=r"^kernels/bad: cargo refuses"):
        checkout.open().use(bad, RUST)
    checkout.open().use(a, RUST)
    assert (len(cargo.calls), checkout.members()) == (calls, ["kernels/a", "kernels/c"])


def test_who_cannot_be_read_stops_no_other(checkout: Checkout, cargo: Cargo) -> None:
    a, bad = checkout.add("a"), checkout.add("bad")
    (bad.kernel / "src" / "gone.rs").symlink_to("nowhere")
    shared = checkout.open()
    shared.use(a, RUST)
    assert checkout.members() == ["kernels/a"]
    with pytest.raises(StepError, match=r"^kernels/bad/src/gone.rs: cannot be read"):
        shared.use(bad, RUST)
    (bad.kernel / "src" / "gone.rs").unlink()
    checkout.workspace.cache.forget(bad.kernel)
    shared.use(bad, RUST)
    assert checkout.members() == ["kernels/a", "kernels/bad"]


def test_what_is_not_pinned_is_refused(checkout: Checkout, cargo: Cargo) -> None:
    a, b = checkout.add("a"), checkout.add("b")
    cargo.adds = {"a": "half", "b": "rayon"}
    (checkout.workspace.root / "Cargo.lock").write_text(_PIN.format("half"))
    shared = checkout.open()
    shared.use(a, RUST)
    with pytest.raises(StepError, match=r"^Cargo.lock: does not pin rayon 1.0.0 for kernels/b; run 'doit lock'$"):
        shared.use(b, RUST)
    assert checkout.members() == ["kernels/a"]
    (checkout.workspace.root / "Cargo.lock").write_text(_PIN.format("half") + _PIN.format("rayon"))
    checkout.open().use(b, RUST)
    assert checkout.members() == ["kernels/a", "kernels/b"]


def test_a_registry_is_asked_only_where_it_must_be(checkout: Checkout, cargo: Cargo) -> None:
    a = checkout.add("a")
    cargo.refuses = lambda _: "--offline" in cargo.calls[-1]
    checkout.open().use(a, RUST)
    assert ["--offline" in call for call in cargo.calls] == [True, False]


def test_the_lock_is_updated_from_all_kernels(checkout: Checkout, cargo: Cargo) -> None:
    checkout.add("a")
    checkout.add("b")
    cargo.adds = {"a": "half", "b": "rayon"}
    (checkout.workspace.root / "Cargo.lock").write_text(_PIN.format("half"))
    content = checkout.open().update(RUST, upgrade=False).decode()
    assert (content.count('name = "half"'), content.count('name = "rayon"')) == (1, 1)
    assert cargo.calls == [("update", "--workspace")]
    checkout.open().update(RUST, upgrade=True)
    assert cargo.calls[-1] == ("update",)


def test_no_lock_is_made_without_a_kernel(checkout: Checkout, cargo: Cargo) -> None:
    checkout.add("a")
    checkout.add("bad")
    cargo.refuses = lambda name: name == "bad"
    with pytest.raises(StepError, match=r"^kernels/bad: cargo refuses its crates"):
        checkout.open().update(RUST, upgrade=False)


@pytest.mark.parametrize(
    ("key", "expected"),
    [("relu-rs", "kernelyard-relu-rs-cpu"), ("Ré lu", "kernelyard--------cpu"), ("a_b", "kernelyard-a-b-")],
)
def test_every_folder_gives_a_name_that_a_crate_can_have(key: str, expected: str) -> None:
    name = extension_name(key, Backend.CPU)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert name == expected or key != "relu-rs"
    assert extension_name("a_b", Backend.CPU) != extension_name("a.b", Backend.CPU)
