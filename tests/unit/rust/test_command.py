from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from buildlib.environment import Settings, read
from buildlib.rust import command
from buildlib.workspace import Workspace

from .factories import RUST


def test_the_profile_is_set_from_top_to_bottom() -> None:
    flags = list(command.release_flags())
    assert flags[0] == "--release"
    assert '--config=profile.release.panic="unwind"' in flags
    assert '--config=profile.release.lto="fat"' in flags


def test_what_cargo_sees_of_the_shell(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = {
        "PATH": "/bin:/rust/bin", "HOME": "/home/me", "CARGO_HOME": "/cargo", "CARGO_NET_OFFLINE": "true",
        "CARGO_REGISTRIES_MINE_TOKEN": "secret", "RUSTFLAGS": "-g", "CARGO_BUILD_RUSTFLAGS": "-g", "RUSTC_WRAPPER": "w",
        "CARGO_PROFILE_RELEASE_LTO": "off", "LD_LIBRARY_PATH": "/lib", "CARGO_TARGET_DIR": "/t", "RUSTC": "/none",
    }  # fmt: skip
    workspace.settings = msgspec.structs.replace(read(shell), cache=workspace.settings.cache)
    seen: dict[str, Any] = {}
    monkeypatch.setattr(workspace.processes, "run", lambda _, **given: seen.update(given) or 0)
    log = workspace.build / "logs" / "cargo.log"
    assert command.run(("cargo",), Path("/w"), Path("/w"), RUST, log, workspace) == 0
    env = seen["env"]
    assert (env["RUSTC"], env["CARGO_HOME"], env["CARGO_NET_OFFLINE"]) == (RUST.rustc, "/cargo", "true")
    assert env["CARGO_REGISTRIES_MINE_TOKEN"] == "secret"
    # Empty ones overrule configuration files.
    assert (env["CARGO_ENCODED_RUSTFLAGS"], env["RUSTC_WRAPPER"]) == ("", "")
    assert env["PATH"].split(":")[1:] == ["/rust/bin", "/bin"]
    assert "jobserver-auth=fifo:" in env["MAKEFLAGS"]
    leaks = {"RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "CARGO_PROFILE_RELEASE_LTO", "LD_LIBRARY_PATH", "CARGO_TARGET_DIR"}
    assert leaks.isdisjoint(env)


def test_nothing_says_where_a_crate_was(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "registry" / "src" / "mirror-0123").mkdir(parents=True)
    workspace.settings = Settings(cache=tmp_path, rust={"CARGO_HOME": str(tmp_path)})
    assert command.remaps(Path("/checkout/a=b"), workspace) == [
        "--remap-path-prefix=/checkout/a=b=.",
        f"--remap-path-prefix={tmp_path}/git/checkouts=git",
        f"--remap-path-prefix={tmp_path}/registry/src/mirror-0123=registry",
    ]


def test_progress_is_not_what_cargo_has_to_say(tmp_path: Path) -> None:
    log = tmp_path / "log"
    kept = ["error: no", "  --> kernels/x/src/lib.rs:1:1", "   |", "Caused by:", "  Unable to update", "    Two words"]
    progress = ["   Compiling half v2.7.1", "    Finished `release`", "    Blocking waiting"]
    log.write_text("before\n" + "\n".join(progress + kept))
    assert command.said(log, len("before\n")).splitlines() == kept
    assert command.said(log, lines=1) == kept[-1]
