"""What is remembered about files, and writes that leave no half of one."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from buildlib import files
from buildlib.files import FileCache, inspect, listing, prune, write, write_if_changed

from .factories import write_files

_LONG_AGO = 1_000_000_000_000_000_000


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file be old enough for what is learnt of it to be stored."""
    monkeypatch.setattr("buildlib.files.time.time_ns", lambda: 2**62)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The contents that were looked into."""
    looked: list[bytes] = []

    def spy(content: bytes, suffix: str) -> files.FileInfo:
        looked.append(content)
        return inspect(content, suffix)

    monkeypatch.setattr(files, "inspect", spy)
    return looked


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _replace_in_place(path: Path, content: bytes) -> None:
    """Write a file of the same inode, until the clock of the file system has moved on."""
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:
        path.write_bytes(content)


# --- FileCache ---


def test_an_unchanged_file_is_not_read_in_the_next_run(tmp_path: Path, later: None, reads: list[bytes]) -> None:
    file = write_files(tmp_path, {"a.h": "one"}) / "a.h"
    for _ in range(2):
        cache = FileCache(tmp_path / "store")
        assert cache.get(str(file)) == inspect(b"one", ".h")
        cache.save()
    assert reads == [b"one"]


def test_a_file_is_read_once_in_a_run(tmp_path: Path, reads: list[bytes]) -> None:
    file = write_files(tmp_path, {"a.h": "one"}) / "a.h"
    cache = FileCache(tmp_path / "store")
    assert cache.get(str(file)) == cache.get(str(file))
    assert reads == [b"one"]


@pytest.mark.parametrize(
    ("content", "times"),
    [
        (b"longer", None),
        (b"two", None),
        # As a checkout, an archive or `touch -r` does: the size is the same and the time is put back.
        (b"two", (_LONG_AGO, _LONG_AGO)),
        (b"two", (_LONG_AGO - 1, _LONG_AGO - 1)),
    ],
    ids=["another size", "the same size", "time put back", "an older time"],
)
def test_a_changed_file_is_noticed(tmp_path: Path, later: None, content: bytes, times: tuple[int, int] | None) -> None:
    file = write_files(tmp_path, {"a.h": "one"}) / "a.h"
    os.utime(file, ns=(_LONG_AGO, _LONG_AGO))
    first = FileCache(tmp_path / "store")
    first.get(str(file))
    first.save()
    _replace_in_place(file, content)
    if times is not None:
        os.utime(file, ns=times)
    info = FileCache(tmp_path / "store").get(str(file))
    assert info is not None
    assert info.sha256 == _sha256(content)


def test_a_file_that_replaces_another_is_noticed(tmp_path: Path, later: None) -> None:
    file = write_files(tmp_path, {"a.h": "one", "b.h": "two"}) / "a.h"
    for each in ("a.h", "b.h"):
        os.utime(tmp_path / each, ns=(_LONG_AGO, _LONG_AGO))
    first = FileCache(tmp_path / "store")
    first.get(str(file))
    first.save()
    (tmp_path / "b.h").replace(file)
    info = FileCache(tmp_path / "store").get(str(file))
    assert info is not None
    assert info.sha256 == _sha256(b"two")


@pytest.mark.parametrize("age", [0, 99_000_000, -5_000_000_000], ids=["now", "within a tick", "in the future"])
def test_a_file_that_may_still_change_unseen_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: int
) -> None:
    file = write_files(tmp_path, {"a.h": "one"}) / "a.h"
    changed = file.stat().st_ctime_ns
    monkeypatch.setattr("buildlib.files.time.time_ns", lambda: changed + age)
    cache = FileCache(tmp_path / "store")
    assert cache.get(str(file)) is not None
    cache.save()
    assert not (tmp_path / "store").exists()


def test_forget_looks_again_below_a_folder_only(tmp_path: Path, reads: list[bytes]) -> None:
    write_files(tmp_path, {"a/x.h": "1", "a/b/y.h": "2", "ab/z.h": "3"})
    cache = FileCache(tmp_path / "store")
    paths = [str(tmp_path / path) for path in ("a/x.h", "a/b/y.h", "ab/z.h")]
    for path in paths:
        cache.get(path)
    reads.clear()
    cache.forget(tmp_path / "a")
    for path in paths:
        cache.get(path)
    assert reads == [b"1", b"2"]


def test_forget_sees_a_change_of_content_and_of_the_listing(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/x.h": "1"})
    cache = FileCache(tmp_path / "store")
    before = (cache.get(f"{tmp_path}/a/x.h"), cache.get(f"{tmp_path}/a/y.h"), cache.listing(tmp_path / "a"))
    write_files(tmp_path, {"a/x.h": "22", "a/y.h": "3"})
    kept = (cache.get(f"{tmp_path}/a/x.h"), cache.get(f"{tmp_path}/a/y.h"), cache.listing(tmp_path / "a"))
    cache.forget(tmp_path / "a")
    after = (cache.get(f"{tmp_path}/a/x.h"), cache.get(f"{tmp_path}/a/y.h"), cache.listing(tmp_path / "a"))
    assert before == kept == (inspect(b"1", ".h"), None, ("x.h",))
    assert after == (inspect(b"22", ".h"), inspect(b"3", ".h"), ("x.h", "y.h"))


@pytest.mark.parametrize("path", ["gone.h", "folder", "file.h/below", "loop.h"])
def test_what_is_no_file_is_none(tmp_path: Path, path: str) -> None:
    write_files(tmp_path, {"file.h": "", "folder/x": ""})
    (tmp_path / "loop.h").symlink_to("loop.h")
    assert FileCache(tmp_path / "store").get(f"{tmp_path}/{path}") is None


def test_files_that_are_gone_are_dropped_from_the_store(tmp_path: Path, later: None) -> None:
    write_files(tmp_path, {"a.h": "1", "b.h": "2", "c.h": "3"})
    first = FileCache(tmp_path / "store")
    for name in "ab":
        first.get(f"{tmp_path}/{name}.h")
    first.save()
    (tmp_path / "a.h").unlink()
    second = FileCache(tmp_path / "store")
    for name in "abc":
        second.get(f"{tmp_path}/{name}.h")
    second.save()
    assert sorted(FileCache(tmp_path / "store")._known) == [f"{tmp_path}/b.h", f"{tmp_path}/c.h"]


def test_what_another_command_did_not_look_at_is_kept(tmp_path: Path, later: None) -> None:
    write_files(tmp_path, {"a.h": "1", "b.h": "2"})
    for name in "ab":
        cache = FileCache(tmp_path / "store")
        cache.get(f"{tmp_path}/{name}.h")
        cache.save()
    assert sorted(FileCache(tmp_path / "store")._known) == [f"{tmp_path}/a.h", f"{tmp_path}/b.h"]


def test_nothing_is_written_where_nothing_was_learnt(
    tmp_path: Path, later: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_files(tmp_path, {"a.h": "1"}) / "a.h"
    first = FileCache(tmp_path / "store")
    first.get(str(file))
    first.save()
    written: list[Path] = []
    monkeypatch.setattr(files, "write", lambda path, _: written.append(path))
    second = FileCache(tmp_path / "store")
    second.get(str(file))
    second.save()
    first.save()
    assert written == []


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x81\xa1a\x01"], ids=["empty", "garbage", "other types"])
def test_a_store_that_cannot_be_used_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    write_files(tmp_path, {"store": content, "a.h": "one"})
    assert FileCache(tmp_path / "store").get(f"{tmp_path}/a.h") == inspect(b"one", ".h")


def test_several_threads_share_a_cache(tmp_path: Path, later: None) -> None:
    names = [f"{index}.h" for index in range(50)]
    write_files(tmp_path, {name: name for name in names})
    cache = FileCache(tmp_path / "store")

    def work() -> None:
        for name in names:
            cache.get(f"{tmp_path}/{name}")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cache.save()
    assert len(FileCache(tmp_path / "store")._known) == len(names)


def test_one_thread_may_forget_while_another_looks(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/x.h": "", "a/y.h": "", "b.h": ""})
    cache = FileCache(tmp_path / "store")

    class Telltale(str):
        """A path that lets another thread look at a file just while it is compared."""

        __slots__ = ()

        def startswith(self, *arguments: Any) -> bool:
            other = threading.Thread(target=cache.get, args=(f"{tmp_path}/b.h",))
            other.start()
            # Only so long: where `forget` keeps the others out, this one has to go on first.
            other.join(0.05)
            return super().startswith(*arguments)

    cache.get(Telltale(tmp_path / "a/x.h"))
    cache.get(str(tmp_path / "a/y.h"))
    cache.forget(tmp_path / "a")
    assert set(cache._seen) <= {f"{tmp_path}/b.h"}


# --- inspect ---


def test_includes_are_in_order_and_each_once() -> None:
    text = b'#include <vector>\n#include "b.h"\n#include <a.h>\n#include "b.h"\n'
    assert inspect(text, ".h").includes == ("<vector", '"b.h', "<a.h")


@pytest.mark.parametrize("suffix", [".py", ".toml", ".def", ""])
def test_only_files_like_c_are_looked_into(suffix: str) -> None:
    text = b'#include "a.h"\nTORCH_LIBRARY(TORCH_EXTENSION_NAME, m)'
    assert inspect(text, suffix) == files.FileInfo(_sha256(text))


@pytest.mark.parametrize("suffix", [".H", ".CU", ".Cpp"])
def test_suffixes_may_be_in_capitals(suffix: str) -> None:
    assert inspect(b'#include "a.h"', suffix).includes == ('"a.h',)


# --- write ---


def test_write_makes_folders_and_replaces(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        write(tmp_path / "a/b/c.txt", content)
    assert ((tmp_path / "a/b/c.txt").read_bytes(), os.listdir(tmp_path / "a/b")) == (b"new", ["c.txt"])


def test_a_written_file_can_be_read_by_others(tmp_path: Path) -> None:
    write(tmp_path / "c.txt", b"")
    assert (tmp_path / "c.txt").stat().st_mode & 0o777 == 0o644


def _fail_with_full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("fault", [_fail_with_full_disk, _interrupt], ids=["full disk", "interrupted"])
@pytest.mark.parametrize("step", ["replace", "chmod"])
@pytest.mark.parametrize("existing", [None, b"old"], ids=["a new file", "an old file"])
def test_a_write_that_fails_leaves_all_as_it_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[..., None],
    step: str,
    existing: bytes | None,
) -> None:
    file = tmp_path / "c.txt"
    if existing is not None:
        file.write_bytes(existing)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(os, step, fault)
    with pytest.raises((OSError, KeyboardInterrupt)) as caught:
        write(file, b"new")
    if isinstance(caught.value, OSError):
        assert caught.value.filename == str(file)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_write_if_changed_writes_another_content(tmp_path: Path) -> None:
    file = write_files(tmp_path, {"c.txt": "old"}) / "c.txt"
    assert (write_if_changed(file, b"new"), file.read_bytes()) == (True, b"new")


def test_write_if_changed_keeps_the_time_of_the_same_content(tmp_path: Path) -> None:
    file = write_files(tmp_path, {"c.txt": "same"}) / "c.txt"
    os.utime(file, ns=(_LONG_AGO, _LONG_AGO))
    assert (write_if_changed(file, b"same"), file.stat().st_mtime_ns) == (False, _LONG_AGO)


def test_write_if_changed_makes_a_file_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "new/c.txt"
    assert (write_if_changed(file, b""), file.read_bytes()) == (True, b"")


# --- listing ---


def test_listing_is_sorted_and_has_no_bytecode_and_nothing_hidden(tmp_path: Path) -> None:
    names = ("b.h", "a/z.h", "a.h", "__pycache__/x.pyc", "a/__pycache__/y.txt", "x.pyc", ".hidden", ".git/config", "é")
    write_files(tmp_path, dict.fromkeys(names, ""))
    assert listing(tmp_path) == ("a.h", "a/z.h", "b.h", "é")


def test_listing_shows_hidden_files_when_asked(tmp_path: Path) -> None:
    write_files(tmp_path, dict.fromkeys((".hidden", ".git/config", "a/.b", "__pycache__/x"), ""))
    assert listing(tmp_path, hidden=True) == (".git/config", ".hidden", "a/.b")


def test_listing_follows_links(tmp_path: Path) -> None:
    write_files(tmp_path, {"kernel/a.h": "", "shared/b.h": ""})
    (tmp_path / "kernel/shared").symlink_to(tmp_path / "shared", target_is_directory=True)
    (tmp_path / "kernel/c.h").symlink_to(tmp_path / "shared/b.h")
    assert listing(tmp_path / "kernel") == ("a.h", "c.h", "shared/b.h")


def test_listing_ends_where_a_link_leads_back(tmp_path: Path) -> None:
    write_files(tmp_path, {"kernel/a.h": "", "kernel/sub/b.h": ""})
    (tmp_path / "kernel/sub/up").symlink_to("..", target_is_directory=True)
    assert listing(tmp_path / "kernel") == ("a.h", "sub/b.h")


# --- prune ---


def test_prune_keeps_what_it_is_told_to_and_no_empty_folder(tmp_path: Path) -> None:
    write_files(tmp_path, dict.fromkeys(("a/kept.h", "a/stale.h", "b/c/stale.h", ".hidden", "stale.h"), ""))
    prune(tmp_path, {"a/kept.h"})
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert left == ["a", "a/kept.h"]


def test_listing_ends_where_two_links_lead_to_each_other(tmp_path: Path) -> None:
    for folder, link, other in (("a", "x", "b"), ("b", "y", "a")):
        (tmp_path / "kernel" / folder).mkdir(parents=True)
        (tmp_path / "kernel" / folder / f"{folder}.h").write_text("")
        (tmp_path / "kernel" / folder / link).symlink_to(Path("..") / other)
    assert listing(tmp_path / "kernel") == ("a/a.h", "a/x/b.h", "b/b.h", "b/y/a.h")


def test_listing_has_a_link_that_leads_to_itself_and_passes_over_what_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"a.h": "", "closed/b.h": ""})
    (tmp_path / "self.h").symlink_to("self.h")
    scandir = os.scandir

    def guarded(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    assert listing(tmp_path) == ("a.h", "self.h")


def test_listing_passes_over_what_cargo_built(tmp_path: Path) -> None:
    write_files(tmp_path, {"target/CACHEDIR.TAG": "", "target/release/x.d": "", "a/target/file": ""})
    assert listing(tmp_path) == ("a/target/file",)


def test_forget_includes_folders_reached_through_one(tmp_path: Path) -> None:
    write_files(tmp_path, {"relu/a": "", "_rust/b": ""})
    cache = FileCache(tmp_path / "store")
    beside = tmp_path / "relu" / "../_rust"
    assert cache.listing(beside) == ("b",)
    (tmp_path / "_rust" / "c").touch()
    cache.forget(tmp_path / "relu")
    assert cache.listing(beside) == ("b", "c")
