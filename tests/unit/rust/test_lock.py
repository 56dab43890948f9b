from __future__ import annotations

import pytest

from buildlib.errors import ConfigError
from buildlib.rust.lock import Lock, changes

_TEXT = """
version = 4

[[package]]
name = "a"
version = "1.0.0"
source = "registry"
checksum = "aa"
dependencies = ["b 2.0.0", "c"]

[[package]]
name = "b"
version = "1.0.0"
source = "registry"

[[package]]
name = "b"
version = "2.0.0"
source = "registry"

[[package]]
name = "c"
version = "3.0.0"
source = "registry"
dependencies = ["a"]

[[package]]
name = "kernel"
version = "0.1.0"
dependencies = ["b 1.0.0 (registry)"]
"""
_LOCK = Lock.parse(_TEXT.encode(), "Cargo.lock")


def _pins(*names: str) -> set[str]:
    return {package.pin for package in _LOCK.reach(names)}


def test_what_a_package_reaches() -> None:
    # a and c depend on each other, which ends all the same.
    assert _pins("a") == {"a 1.0.0", "b 2.0.0", "c 3.0.0"}
    assert _pins("kernel") == {"kernel 0.1.0", "b 1.0.0"}
    assert _pins("b") == {"b 1.0.0", "b 2.0.0"}
    assert _pins("unknown") == set()


def test_the_digest_is_of_what_is_reached() -> None:
    before = {name: _LOCK.digest([name]) for name in ("a", "kernel", "unknown")}
    other = Lock.parse(_TEXT.replace('checksum = "aa"', 'checksum = "bb"').encode(), "Cargo.lock")
    after = {name: other.digest([name]) for name in before}
    assert {name for name in before if before[name] != after[name]} == {"a"}
    # Crates of this repository are known by their files.
    other = Lock.parse(_TEXT.replace('version = "0.1.0"', 'version = "0.2.0"').encode(), "Cargo.lock")
    assert other.digest(["kernel"]) == before["kernel"]


def test_what_another_lock_lacks() -> None:
    older = Lock.parse(_TEXT.replace('version = "3.0.0"', 'version = "2.9.0"').encode(), "Cargo.lock")
    assert [package.pin for package in _LOCK.missing_from(older)] == ["c 3.0.0"]
    assert _LOCK.missing_from(_LOCK) == set()
    assert {package.name for package in _LOCK.missing_from(Lock(()))} == {"a", "b", "c"}


def test_changes_in_words() -> None:
    newer = Lock.parse(_TEXT.replace("3.0.0", "3.1.0").replace('name = "a"', 'name = "z"').encode(), "Cargo.lock")
    assert changes(_LOCK, newer) == ["removed a 1.0.0", "c 3.0.0 -> 3.1.0", "added z 1.0.0"]
    assert changes(_LOCK, _LOCK) == []


@pytest.mark.parametrize("content", [b"[", b"[[package]]\nname = 3\n"])
def test_what_is_no_lock(content: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^Cargo.lock: "):
        Lock.parse(content, "Cargo.lock")
