"""What the environment asks for, and what a compiler gets to see of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildlib import environment
from buildlib.environment import Settings
from buildlib.errors import ToolchainError


@pytest.mark.parametrize(
    ("environ", "cache"),
    [
        ({"KERNELYARD_CACHE": "/mine", "XDG_CACHE_HOME": "/xdg"}, "/mine"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/kernelyard"),
        ({"KERNELYARD_CACHE": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/kernelyard"),
    ],
)
def test_cache(environ: dict[str, str], cache: str) -> None:
    assert environment.read(environ).cache == Path(cache)


def test_cache_is_in_the_home_folder_without_any_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert environment.read({}).cache == Path("/home/someone/.cache/kernelyard")


@pytest.mark.parametrize(("text", "jobs"), [("4", 4), ("", None)])
def test_max_jobs(text: str, jobs: int | None) -> None:
    assert environment.read({"MAX_JOBS": text}).max_jobs == jobs


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "²"])
def test_what_is_no_number_of_jobs_is_an_error(text: str) -> None:
    with pytest.raises(ToolchainError) as caught:
        environment.read({"MAX_JOBS": text})
    assert str(caught.value) == f"MAX_JOBS: {text!r} is no number of jobs; set it to 1 or more, or unset it"


@pytest.mark.parametrize(("text", "cxx"), [("clang++-19", "clang++-19"), ("", None)])
def test_cxx(text: str, cxx: str | None) -> None:
    assert environment.read({"CXX": text}).cxx == cxx


@pytest.mark.parametrize(("text", "on_ci"), [("true", True), ("1", True), ("false", False), ("0", False), ("", False)])
def test_ci(text: str, *, on_ci: bool) -> None:
    assert environment.read({"CI": text}).on_ci is on_ci


def test_an_empty_environment_asks_for_nothing() -> None:
    settings = environment.read({})
    assert (settings.max_jobs, settings.cxx, settings.on_ci, settings.passed) == (None, None, False, {})


@pytest.mark.parametrize(
    "name",
    [
        "CXXFLAGS", "CFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH",
        "CMAKE_PREFIX_PATH", "CMAKE_GENERATOR", "TORCH_CUDA_ARCH_LIST", "PYTHONPATH", "MAKEFLAGS", "NINJAFLAGS", "CC",
    ],
)  # fmt: skip
def test_nothing_that_changes_an_output_unseen_reaches_a_compiler(name: str) -> None:
    settings = environment.read({"PATH": "/bin", name: "surprise"})
    assert "surprise" not in environment.child(settings).values()


def test_a_child_gets_what_it_needs_to_run_and_speaks_english() -> None:
    settings = environment.read({"PATH": "/bin", "HOME": "/root", "LC_ALL": "de_DE.UTF-8", "https_proxy": "proxy"})
    assert environment.child(settings, EXTRA="more") == {
        "PATH": "/bin",
        "HOME": "/root",
        "https_proxy": "proxy",
        "LC_ALL": "C.UTF-8",
        "EXTRA": "more",
    }


def test_what_a_step_adds_wins() -> None:
    assert environment.child(Settings(cache=Path("/c"), passed={"HOME": "/a"}), HOME="/b")["HOME"] == "/b"


def test_programs_that_come_first_in_path() -> None:
    settings = Settings(cache=Path("/c"), passed={"PATH": "/usr/bin:/venv/bin:/bin"})
    assert environment.path_with(settings, "/venv/bin/python", "/rust/bin/cargo") == "/venv/bin:/rust/bin:/usr/bin:/bin"
    # In a shell where they are first already, the same.
    again = Settings(cache=Path("/c"), passed={"PATH": environment.path_with(settings, "/venv/bin/python")})
    assert environment.path_with(again, "/venv/bin/python") == again.passed["PATH"]


@pytest.mark.parametrize(
    ("rust", "expected"),
    [({}, "/home/me/.cargo"), ({"CARGO_HOME": "/elsewhere"}, "/elsewhere")],
)
def test_where_rusts_tools_keep_things(rust: dict[str, str], expected: str) -> None:
    settings = Settings(cache=Path("/c"), passed={"HOME": "/home/me"}, rust=rust)
    assert environment.home_of(settings, "cargo") == Path(expected)


def test_what_is_for_rusts_tools_is_not_for_others() -> None:
    settings = environment.read({"CARGO_HOME": "/cargo", "CARGO_NET_OFFLINE": "true", "CARGO_BUILD_JOBS": "9"})
    assert settings.rust == {"CARGO_HOME": "/cargo", "CARGO_NET_OFFLINE": "true"}
    assert set(environment.child(settings)) == {"LC_ALL"}
