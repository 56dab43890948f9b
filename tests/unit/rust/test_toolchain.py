from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from buildlib import process
from buildlib.environment import Settings
from buildlib.rust.toolchain import Requirements, Rust, probe
from tests.unit.factories import write_files

from .factories import RUST

_REQUIRED = Requirements(minimum="1.89", published="1.95.0", install="install it")


class Machine:
    """A machine with programs that answer as rustc does, in a folder; what was asked is noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.rustup = folder / "rustup"
        self.versions: dict[str, str] = {}
        self.default = ""
        self.asked: list[str] = []
        self.bin.mkdir()

    def program(self, path: Path) -> None:
        write_files(path.parent, {path.name: "#!/bin/sh\n"})
        path.chmod(0o755)

    def install(self, name: str, version: str) -> None:
        """A toolchain of rustup."""
        for program in ("rustc", "cargo"):
            self.program(self.rustup / "toolchains" / name / "bin" / program)
        self.versions[str(self.rustup / "toolchains" / name / "bin" / "rustc")] = version

    def with_rustup(self) -> None:
        for program in ("rustc", "cargo", "rustup"):
            self.program(self.bin / program)

    def plain(self, version: str) -> None:
        """rustc and cargo as a distribution installs them."""
        for program in ("rustc", "cargo"):
            self.program(self.bin / program)
        self.versions[str(self.bin / "rustc")] = version

    def output(self, argv: Sequence[str], **_: object) -> str | None:
        self.asked.append(" ".join(argv))
        if argv[1:] == ["--print", "sysroot"]:
            return f"{self.rustup}/toolchains/{self.default}\n" if self.default else None
        version = self.versions.get(argv[0])
        return f"rustc {version}\nrelease: {version}\ncommit-hash: 0123456789abcdef\nhost: here\n" if version else None

    def find(self, channel: str = "", **rust: str) -> Rust | str:
        settings = Settings(
            cache=self.folder / "cache",
            passed={"PATH": str(self.bin)},
            rust={"RUSTUP_HOME": str(self.rustup), **rust},
        )
        return probe(settings, self.folder, _REQUIRED, [channel])[channel]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(process, "output", made.output)
    return made


def _version(found: Rust | str) -> str:
    assert isinstance(found, Rust), found
    return found.version


def test_the_identity_has_no_path() -> None:
    assert RUST.identity == "rustc 1.95.0 59807616e x86_64-unknown-linux-gnu"


def test_nothing_is_there(machine: Machine) -> None:
    assert machine.find() == "rustc is not on this machine; install it"
    machine.program(machine.bin / "rustc")
    assert machine.find() == "cargo is not on this machine; install it"


def test_a_plain_rustc(machine: Machine) -> None:
    machine.plain("1.92.1")
    found = machine.find()
    assert _version(found) == "1.92.1"
    assert found == Rust(
        cargo=f"{machine.bin}/cargo",
        rustc=f"{machine.bin}/rustc",
        version="1.92.1",
        commit="012345678",
        host="here",
        instead_of="1.95.0",
    )


def test_an_old_rustc(machine: Machine) -> None:
    machine.plain("1.63.0")
    assert machine.find() == f"{machine.bin}/rustc is 1.63.0, older than 1.89; install it"


def test_a_rustc_that_does_not_answer(machine: Machine) -> None:
    machine.plain("1.92.1")
    machine.versions.clear()
    assert "does not answer as rustc does; install it" in str(machine.find())


@pytest.mark.parametrize(("channel", "fits"), [("1.92", True), ("1.92.1", True), ("1.9", False), ("nightly", False)])
def test_a_plain_rustc_for_a_kernel_that_asks_for_one(machine: Machine, channel: str, fits: bool) -> None:  # noqa: FBT001
    machine.plain("1.92.1")
    found = machine.find(channel)
    assert isinstance(found, Rust) is fits
    assert fits or f"rust-toolchain.toml asks for {channel}" in str(found)


def test_it_is_asked_once_for_each_content_of_its_file(machine: Machine) -> None:
    machine.plain("1.92.1")
    machine.find()
    assert _version(machine.find()) == "1.92.1"
    assert len(machine.asked) == 1
    (machine.bin / "rustc").write_text("#!/bin/sh\n# another\n")
    machine.versions[f"{machine.bin}/rustc"] = "1.93.0"
    assert _version(machine.find()) == "1.93.0"


# --- rustup ---


def test_the_version_of_published_builds_goes_first(machine: Machine) -> None:
    machine.with_rustup()
    machine.install("1.95.0-x86_64-unknown-linux-gnu", "1.95.0")
    machine.install("stable-x86_64-unknown-linux-gnu", "1.99.0")
    machine.default = "stable-x86_64-unknown-linux-gnu"
    published, other, own = machine.find(), machine.find(RUSTUP_TOOLCHAIN="stable"), machine.find("stable")
    assert [_version(found) for found in (published, other, own)] == ["1.95.0", "1.99.0", "1.99.0"]
    # A kernel's own choice is as it should be.
    assert [found.instead_of for found in (published, other, own) if isinstance(found, Rust)] == [None, "1.95.0", None]


def test_what_rustup_chooses_for_the_checkout(machine: Machine) -> None:
    machine.with_rustup()
    machine.install("stable-x86_64-unknown-linux-gnu", "1.99.0")
    machine.install("beta-x86_64-unknown-linux-gnu", "1.100.0")
    machine.default = "stable-x86_64-unknown-linux-gnu"
    assert _version(machine.find()) == "1.99.0"
    asked = len(machine.asked)
    assert _version(machine.find()) == "1.99.0"
    assert len(machine.asked) == asked
    # Another default is a change of rustup's settings.
    machine.default = "beta-x86_64-unknown-linux-gnu"
    write_files(machine.rustup, {"settings.toml": 'default_toolchain = "beta"\n'})
    assert _version(machine.find()) == "1.100.0"


def test_a_kernel_gets_the_toolchain_that_it_names(machine: Machine) -> None:
    machine.with_rustup()
    machine.install("nightly-2026-01-01-x86_64-unknown-linux-gnu", "1.98.0-nightly")
    machine.install("nightly-x86_64-unknown-linux-gnu", "1.99.0-nightly")
    machine.install("1.80-x86_64-unknown-linux-gnu", "1.80.1")
    assert _version(machine.find("nightly")) == "1.99.0-nightly"
    assert _version(machine.find("nightly-2026-01-01")) == "1.98.0-nightly"
    # It may be older than what other kernels need.
    assert _version(machine.find("1.80")) == "1.80.1"


def test_a_toolchain_that_is_not_installed_is_not_installed_here(machine: Machine) -> None:
    machine.with_rustup()
    found = machine.find("1.2.3")
    assert found == "rust-toolchain.toml asks for 1.2.3, which is not installed; run 'rustup toolchain install 1.2.3'"
    assert machine.asked == []
    assert "RUSTUP_TOOLCHAIN asks for x" in str(machine.find(RUSTUP_TOOLCHAIN="x"))


def test_rustup_without_a_toolchain(machine: Machine) -> None:
    machine.with_rustup()
    assert machine.find() == "rustup has no toolchain with cargo for this checkout; install it"
