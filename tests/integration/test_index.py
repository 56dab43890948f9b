"""Toolchains from package indexes on this machine: the main one, and one that only a variable names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import Result, Yard
from tests.integration.index import Index, Wheel, serve

_TASK = "toolchain:tiny-1"
_VARIABLE = "KERNELYARD_INDEX_EXTRA"


@dataclass(frozen=True)
class _Indexes:
    """The main index, an extra one, and a checkout with a cache of its own that is told of the main one."""

    main: Index
    extra: Index
    yard: Yard
    cache: Path

    def lock(self, wheel: Wheel, version: str = "1.0", more: str = 'index = "extra"\n') -> None:
        """Let toolchain `tiny-1` be a wheel."""
        file = f'{{ sha256 = "{wheel.sha256}", size = {wheel.size} }}'
        platforms = f"x86_64-linux = {file}\naarch64-linux = {file}\n"
        with (self.yard.root / "toolchains" / "lock.toml").open("a") as lock:
            lock.write(f'\n[[wheel]]\ntoolchain = "tiny-1"\nname = "ky-tiny"\nversion = "{version}"\n{more}{platforms}')

    def doit(self, *words: str, **extra: str) -> Result:
        here = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "PIP_FIND_LINKS": "", "PIP_NO_CACHE_DIR": "1"}
        environ = here | {"PIP_INDEX_URL": self.main.url, "KERNELYARD_CACHE": str(self.cache)} | extra
        return self.yard.doit(*words, **environ)

    def left(self) -> list[str]:
        """What is in the cache beside locks, by the name of the toolchain."""
        folder = self.cache / "toolchains"
        return [path.name.rpartition("-")[0] for path in folder.glob("*") if path.suffix != ".lock"]


@pytest.fixture
def indexes(yard: Yard, tmp_path: Path) -> Iterator[_Indexes]:
    with ExitStack() as stack:
        main, extra = (stack.enter_context(serve(tmp_path / name)) for name in ("main", "extra"))
        yield _Indexes(main, extra, yard, tmp_path / "fresh")


def test_an_extra_index_by_its_name(indexes: _Indexes) -> None:
    indexes.lock(indexes.extra.publish("ky-tiny", "1.0", {"tiny/tiny.h": "1\n"}))
    result = indexes.doit(_TASK)
    assert result.status == 0
    assert f"ky-tiny 1.0 is in the package index 'extra' only; set {_VARIABLE} to the URL of that index" in result.out
    assert indexes.left() == []
    listed = indexes.doit("toolchain").out
    assert f"set {_VARIABLE}" in next(line for line in listed.splitlines() if line.startswith("tiny-1"))
    result = indexes.doit(_TASK, **{_VARIABLE: indexes.extra.url})
    assert result.status == 0, result.out
    assert indexes.left() == ["tiny-1"]
    # And from now on the variable is not needed.
    assert indexes.doit(_TASK).out.startswith("ok ")


def test_the_main_index_cannot_stand_in_with_other_content(indexes: _Indexes) -> None:
    wheel = indexes.extra.publish("ky-tiny", "1.0", {"tiny/tiny.h": "1\n"})
    indexes.lock(wheel)
    shutil.rmtree(wheel.path.parent)
    indexes.main.publish("ky-tiny", "1.0", {"tiny/tiny.h": "another\n"})
    result = indexes.doit(_TASK, **{_VARIABLE: indexes.extra.url})
    assert result.status == 1
    assert "tiny-1: the index gives other content than toolchains/lock.toml names" in result.out
    assert indexes.left() == []


def test_a_truncated_wheel(indexes: _Indexes) -> None:
    wheel = indexes.main.publish("ky-tiny", "1.0", {"tiny/tiny.h": "1\n" * 1000})
    indexes.lock(wheel, more="")
    whole = wheel.path.read_bytes()
    wheel.path.write_bytes(whole[: len(whole) // 2])
    result = indexes.doit(_TASK)
    assert result.status == 1
    assert "or a broken download; try again, or ask who runs the index" in result.out
    assert indexes.left() == []
    wheel.path.write_bytes(whole)
    assert indexes.doit(_TASK).status == 0


def test_a_proxy_that_refuses(indexes: _Indexes) -> None:
    indexes.lock(indexes.main.publish("ky-tiny", "1.0", {"tiny/tiny.h": "1\n"}), more="")
    # The server of the index answers requests to connect elsewhere with an error, as a proxy does.
    proxy = {"https_proxy": indexes.main.url, "HTTPS_PROXY": indexes.main.url, "no_proxy": "", "NO_PROXY": ""}
    result = indexes.doit(_TASK, PIP_INDEX_URL="https://127.0.0.1:9/", **proxy)
    assert result.status == 0, result.out
    assert "toolchain tiny-1 cannot be fetched: the proxy refuses; mend HTTPS_PROXY" in result.out
    assert indexes.left() == []


def test_a_toolchain_is_locked_from_what_is_wanted(indexes: _Indexes) -> None:
    data = indexes.yard.root / "toolchains"
    before = (data / "lock.toml").read_text()
    with (data / "packages.toml").open("a") as packages:
        packages.write('\n["tiny-1"]\npackages = ["ky-tiny==1.*", "ky-other"]\nindex = "extra"\n')
    for version in ("1.0", "1.1", "2.0"):
        for machine in ("x86_64", "aarch64"):
            tag = f"py3-none-manylinux_2_28_{machine}"
            indexes.extra.publish("ky-tiny", version, {"tiny/tiny.h": f"{version} {machine}\n"}, tag)
    indexes.extra.publish("ky-other", "3", {"other/other.h": "3\n"})
    result = indexes.doit("lock", "--toolchains")
    assert f"set {_VARIABLE} to its URL" in result.out
    variable = {_VARIABLE: indexes.extra.url}
    result = indexes.doit("lock", "--toolchains", **variable)
    assert result.status == 0, result.out
    assert "tiny-1: ky-tiny 1.1 added; tiny-1: ky-other 3 added" in result.out
    after = (data / "lock.toml").read_text()
    assert after.startswith(before)
    assert indexes.doit(_TASK, **variable).status == 0
    (root,) = (path for path in (indexes.cache / "toolchains").iterdir() if path.is_dir())
    assert {path.name for path in root.iterdir()} >= {"tiny", "other"}
    # And with nothing new, it needs no index.
    assert "nothing to change" in indexes.doit("lock", "--toolchains").out
    assert (data / "lock.toml").read_text() == after
