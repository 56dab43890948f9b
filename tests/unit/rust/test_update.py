from __future__ import annotations

import pytest

from buildlib.errors import ConfigError, StepError
from buildlib.rust import crates
from buildlib.rust.update import update
from buildlib.rust.workspace import CargoWorkspace
from buildlib.workspace import Workspace

from .factories import RUST, in_rust

_PIN = '[[package]]\nname = "{}"\nversion = "{}"\nsource = "registry"\n'


@pytest.fixture
def in_one(workspace: Workspace) -> Workspace:
    """A checkout with one kernel in Rust."""
    loaded = crates.load(in_rust(workspace.root / "kernels" / "relu"))
    assert loaded is not None
    workspace.crates = (loaded,)
    return workspace


def _answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(CargoWorkspace, "update", lambda *_, **__: text.encode())


def test_what_changed_is_said(in_one: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = in_one.root / "Cargo.lock"
    _answer(monkeypatch, _PIN.format("half", "2.7.1"))
    assert update({"": RUST}, {}, in_one, upgrade=False) == "added half 2.7.1"
    assert lock.read_text() == _PIN.format("half", "2.7.1")
    assert update({"": RUST}, {}, in_one, upgrade=False) == "nothing to change"
    _answer(monkeypatch, _PIN.format("half", "2.8.0") + "".join(_PIN.format(f"x{n}", "1.0.0") for n in range(6)))
    said = update({"": RUST}, {}, in_one, upgrade=True)
    assert said.startswith("half 2.7.1 -> 2.8.0; added x0 1.0.0; ")
    assert said.endswith("; and 2 more")


def test_nothing_to_pin(workspace: Workspace) -> None:
    assert update({"": RUST}, {}, workspace, upgrade=False) == "no kernel needs it"
    assert not (workspace.root / "Cargo.lock").exists()


@pytest.mark.parametrize(
    ("rust", "expected"),
    [({"": "no cargo; install it"}, "no cargo; install it"), ({}, "no kernel is in Rust")],
)
def test_without_cargo(in_one: Workspace, rust: dict[str, str], expected: str) -> None:
    with pytest.raises(StepError, match=f"^Cargo.lock: cannot be updated: {expected}"):
        update(dict(rust), {}, in_one, upgrade=False)


def test_a_kernel_that_cannot_be_loaded(in_one: Workspace) -> None:
    with pytest.raises(ConfigError, match=r"^Cargo.lock: kernels/bad cannot be loaded, and what it needs .*\nno$"):
        update({"": RUST}, {"bad": "no"}, in_one, upgrade=False)
