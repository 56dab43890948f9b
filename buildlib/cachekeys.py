"""What CI should keep between runs, and under which keys, so that its workflows need not know."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from buildlib.environment import Settings
from buildlib.rows import Row

_KEY_DIGITS = 20


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """One cache: what is in it, its key, and the start of the keys of older ones that are better than nothing."""

    name: str
    paths: tuple[str, ...]
    key: str
    restore: str


def caches(root: Path, settings: Settings, rows: Sequence[Row], *, platform: str, commit: str) -> list[Cache]:
    """The caches of a checkout with these rows, at a commit.

    What is restored is never trusted for being there: toolchains are kept by content, cargo verifies what it has, and
    what is under build/ is compared with its digests. So a stale cache costs time, and nothing else.
    """
    toolchains = _digest_files(sorted((root / "toolchains").glob("*.toml")), root)
    locks = _digest_files(sorted((root / "kernels").rglob("Cargo.lock")), root)
    used = sorted({row.parts["toolchain"] for row in rows if row.parts})
    # CMake's folders hold absolute paths, so that those of a checkout elsewhere are of no use.
    compiled = _digest([str(root), *used])
    everything = _digest(f"{row.name} {row.digest}" for row in rows)
    objects = ("work", "kernels", "cargo", "files.msgpack", "objects.msgpack", "times.json")
    return [
        Cache(
            name="toolchains",
            paths=(str(settings.cache),),
            key=f"toolchains-{platform}-{toolchains}",
            restore=f"toolchains-{platform}-",
        ),
        Cache(
            name="cargo",
            paths=(f"{settings.cargo_home}/registry", f"{settings.cargo_home}/git"),
            key=f"cargo-{platform}-{locks}",
            restore=f"cargo-{platform}-",
        ),
        Cache(
            name="objects",
            paths=tuple(f"build/{name}" for name in objects),
            key=f"objects-{platform}-{compiled}-{everything}",
            restore=f"objects-{platform}-{compiled}-",
        ),
        Cache(
            name="published",
            paths=("build/published.json",),
            # Not by content: after a revert, what was published last counts, not what once looked alike.
            key=f"published-{platform}-{commit}",
            restore=f"published-{platform}-",
        ),
    ]


def outputs(found: Iterable[Cache]) -> str:
    """The caches as outputs of a step of CI: `<name>-key`, `<name>-restore` and, of several lines, `<name>-paths`."""
    lines = []
    for cache in found:
        lines += [f"{cache.name}-key={cache.key}", f"{cache.name}-restore={cache.restore}"]
        lines += [f"{cache.name}-paths<<end-of-paths", *cache.paths, "end-of-paths"]
    return "\n".join(lines) + "\n"


def _digest_files(paths: Iterable[Path], root: Path) -> str:
    return _digest(f"{path.relative_to(root)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in paths)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:_KEY_DIGITS]
