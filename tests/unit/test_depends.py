"""Where the libraries that a component depends on come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from buildlib import depends
from buildlib.depends import Dependency
from buildlib.environment import Settings
from buildlib.lock import Locked

from .factories import write_files

_DATA = Path(__file__).parents[2] / "toolchains" / "deps.toml"
_WHEELS = {"cutlass-3.6": Locked(id="cutlass-3.6")}
_TOML = """\
[cutlass_3_6]
version = "3.6.0"
toolchain = "cutlass-3.6"

[cutlass_4_0]
version = "4.0.0"
git = { url = "https://host/cutlass.git", tag = "v4.0.0", commit = "abc", size = 4000000 }

[metal-cpp]
why = "not here"
"""


def _find(tmp_path: Path, name: str, cutlass: Path | None = None, toml: str = _TOML) -> Dependency | str:
    data = write_files(tmp_path, {"deps.toml": toml}) / "deps.toml"
    return depends.find(Settings(cache=tmp_path / "cache", cutlass=cutlass), data, _WHEELS)[name]


def _checkout(folder: Path, version: str) -> Path:
    numbers = zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)
    text = "".join(f"#define CUTLASS_{part} {number}\n" for part, number in numbers)
    return write_files(folder, {"include/cutlass/version.h": text})


def test_a_wheel(tmp_path: Path) -> None:
    found = _find(tmp_path, "cutlass_3_6")
    assert isinstance(found, Dependency)
    assert found.locked is not None
    assert found.locked.wheels == _WHEELS["cutlass-3.6"].wheels
    assert found.includes[0].endswith("/cutlass_library/source/include")


def test_a_tag_where_there_is_no_wheel(tmp_path: Path) -> None:
    found = _find(tmp_path, "cutlass_4_0")
    assert isinstance(found, Dependency)
    locked = found.locked
    assert locked is not None
    assert locked.git is not None
    assert (locked.id, locked.git.commit, locked.git.folders) == (
        "cutlass-4.0",
        "abc",
        ("include", "tools/util/include"),
    )
    assert found.includes == tuple(
        str(locked.folder(tmp_path / "cache") / each) for each in ("include", "tools/util/include")
    )
    assert locked.instead == "set CUTLASS_DIR to a checkout of its tag v4.0.0"
    assert locked.contents == "https://host/cutlass.git v4.0.0"
    assert locked.room > locked.size == 4_000_000


def test_another_commit_is_another_folder(tmp_path: Path) -> None:
    folders = set()
    for commit in ("abc", "abd"):
        found = _find(tmp_path, "cutlass_4_0", toml=_TOML.replace("abc", commit))
        assert isinstance(found, Dependency)
        folders.add(found.includes)
    assert len(folders) == 2


@pytest.mark.parametrize("name", ["cutlass_3_6", "cutlass_4_0"])
def test_a_checkout_of_the_version_comes_first(tmp_path: Path, name: str) -> None:
    checkout = _checkout(tmp_path / "mine", {"cutlass_3_6": "3.6.0", "cutlass_4_0": "4.0.0"}[name])
    found = _find(tmp_path, name, checkout)
    assert isinstance(found, Dependency)
    assert (found.includes[0], found.locked) == (f"{checkout}/include", None)


def test_a_checkout_of_cutlass_2_says_its_version_elsewhere(tmp_path: Path) -> None:
    cmake = "cmake_minimum_required(VERSION 3.12)\nproject(CUTLASS VERSION 2.10.0 LANGUAGES CXX)\n"
    checkout = write_files(tmp_path / "mine", {"CMakeLists.txt": cmake, "include/cutlass/cutlass.h": ""})
    found = _find(tmp_path, "cutlass_2_10", checkout, '[cutlass_2_10]\nversion = "2.10.0"\n')
    assert isinstance(found, Dependency)
    assert found.locked is None


@pytest.mark.parametrize(
    ("version", "said"), [(None, ""), ("4.1.0", "; {} is CUTLASS 4.1.0"), ("", "; {} is no CUTLASS")]
)
def test_none(tmp_path: Path, version: str | None, said: str) -> None:
    mine = tmp_path / "mine"
    checkout = None if version is None else _checkout(mine, version) if version else write_files(mine, {"a": ""})
    reason = _find(tmp_path, "cutlass_3_9", checkout, '[cutlass_3_9]\nversion = "3.9.2"\n')
    assert reason == (
        f"CUTLASS 3.9.2 cannot be fetched on this machine{said.format(mine)}; "
        "set CUTLASS_DIR to a checkout of its tag v3.9.2"
    )


def test_a_known_name_that_cannot_be_had(tmp_path: Path) -> None:
    assert _find(tmp_path, "metal-cpp") == "not here"


def test_the_committed_data(tmp_path: Path) -> None:
    found = depends.find(Settings(cache=tmp_path), _DATA, _WHEELS)
    assert {name for name in found if name.startswith("cutlass")} == {
        f"cutlass_{version}" for version in ("2_10", "3_5", "3_6", "3_8", "3_9", "4_0", "4_4", "4_5")
    }
    tags = [each.locked.git for each in found.values() if isinstance(each, Dependency) and each.locked]
    for tag in filter(None, tags):
        assert re.fullmatch("[0-9a-f]{40}", tag.commit)
        assert 1_000_000 < tag.size < 10_000_000
