"""The lock of what is fetched from the Python index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from buildlib import lock
from buildlib.errors import ToolchainError
from buildlib.variant import Platform

_X86, _ARM = Platform.X86_64_LINUX, Platform.AARCH64_LINUX
_DATA = Path(__file__).parents[2] / "toolchains" / "lock.toml"
_ENTRY = """
[[wheel]]
toolchain = "cuda-13.0"
name = "{name}"
version = "1.2"
x86_64-linux = {{ sha256 = "{sha}", size = 2000000 }}
"""


def _lock(tmp_path: Path, *entries: str) -> Path:
    path = tmp_path / "lock.toml"
    path.write_text("".join(entries))
    return path


def test_a_toolchain_is_all_of_its_packages(tmp_path: Path) -> None:
    path = _lock(tmp_path, _ENTRY.format(name="a", sha="1"), _ENTRY.format(name="b", sha="2"))
    (found,) = lock.load(path, _X86).values()
    assert (found.id, found.size, found.version("b"), found.version("c")) == ("cuda-13.0", 4_000_000, "1.2", None)


def test_a_toolchain_that_lacks_a_package_on_a_platform_is_not_there(tmp_path: Path) -> None:
    arm = 'aarch64-linux = { sha256 = "3", size = 1 }\n'
    path = _lock(tmp_path, _ENTRY.format(name="a", sha="1") + arm, _ENTRY.format(name="b", sha="2"))
    assert lock.load(path, _ARM) == {}
    assert lock.load(path, None) == {}
    assert lock.load(path, Platform.AARCH64_DARWIN) == {}


def test_the_folder_follows_the_content_and_nothing_else(tmp_path: Path) -> None:
    folders = [
        lock.load(_lock(tmp_path, _ENTRY.format(name="a", sha=sha)), _X86)["cuda-13.0"].folder(Path("/cache"))
        for sha in ("1", "1", "2")
    ]
    assert folders[0] == folders[1] != folders[2]
    assert re.fullmatch(r"cuda-13\.0-[0-9a-f]{12}", folders[0].name)


def test_an_index_is_named_by_package(tmp_path: Path) -> None:
    indexed = _ENTRY.format(name="b", sha="2").replace('"1.2"\n', '"1.2"\nindex = "torch"\n')
    path = _lock(tmp_path, _ENTRY.format(name="a", sha="1"), indexed)
    (found,) = lock.load(path, _X86).values()
    assert [wheel.index for wheel in found.wheels] == [None, "torch"]
    assert found.indexes == ("torch",)


def test_a_wrong_lock_is_named(tmp_path: Path) -> None:
    path = _lock(tmp_path, _ENTRY.format(name="a", sha="1"), 'url = "x"\n')
    with pytest.raises(ToolchainError, match=r"lock.toml: .*url.*; restore it"):
        lock.load(path, _X86)


@pytest.mark.parametrize("platform", [_X86, _ARM])
def test_the_committed_lock_is_complete(platform: Platform) -> None:
    locked = lock.load(_DATA, platform)
    assert {"cuda-13.0", "cuda-13.2", "cuobjdump", "torch-2.12-cu130"} <= set(locked)
    for toolchain in locked.values():
        assert all(re.fullmatch("[0-9a-f]{64}", wheel.sha256) and wheel.size > 0 for wheel in toolchain.wheels)
    for version in ("13.0", "13.2"):
        assert (locked[f"cuda-{version}"].version("nvidia-cuda-nvcc") or "").startswith(f"{version}.")
