"""Which file of the Python index a requirement means on a platform: pip says it, without installing anything."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from buildlib.environment import Settings
from buildlib.errors import ToolchainError, UnavailableError
from buildlib.fetch import pip
from buildlib.fetch.common import last_line
from buildlib.process import Processes

# What pip says, in lower case, of an index that it did not reach; without it, the index has no such package.
_UNREACHABLE = ("connection broken", "proxyerror", "timed out")
_NOWHERE = ("no matching distribution", "could not find a version")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A requirement, `torch==2.12.*`, for a kind of machine, `x86_64`; `python` and `index` as in lock.toml."""

    requirement: str
    machine: str
    python: str | None = None
    index: str | None = None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The file that a requirement means; `size` in bytes."""

    version: str
    sha256: str
    size: int


class _Archive(msgspec.Struct, frozen=True):
    hashes: dict[str, str] = {}


class _Download(msgspec.Struct, frozen=True):
    archive_info: _Archive


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    version: str


class _Install(msgspec.Struct, frozen=True):
    metadata: _Metadata
    download_info: _Download


class _Report(msgspec.Struct, frozen=True):
    install: tuple[_Install, ...]


def resolve(
    wanted: Wanted, sizes: Mapping[str, int], folder: Path, settings: Settings, processes: Processes
) -> Found | None:
    """The newest file that will do, or None where the indexes have none for the machine.

    `sizes` are those of the files that are known, by SHA-256; another one is downloaded to `folder`, an empty one,
    because pip tells no sizes.

    Raises:
        UnavailableError: an index cannot be reached.
        ToolchainError: pip fails.
    """
    report = folder / "report.json"
    options = ("install", "--dry-run", "--ignore-installed", f"--report={report}", f"--target={folder / 'none'}")
    if not _run(options, wanted, wanted.requirement, folder, settings, processes):
        return None
    (install,) = msgspec.json.decode(report.read_bytes(), type=_Report).install
    sha256, version = install.download_info.archive_info.hashes.get("sha256", ""), install.metadata.version
    if sha256 in sizes:
        return Found(version=version, sha256=sha256, size=sizes[sha256])
    downloads = folder / "downloads"
    exactly = f"{install.metadata.name}=={version}"
    if not _run(("download", f"--dest={downloads}"), wanted, exactly, folder, settings, processes):
        return None
    (wheel,) = downloads.iterdir()
    with wheel.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Found(version=version, sha256=sha256, size=wheel.stat().st_size)


def _run(
    options: tuple[str, ...], wanted: Wanted, requirement: str, folder: Path, settings: Settings, processes: Processes
) -> bool:
    """Have pip do something with a requirement; False where no index has it."""
    requirements, log = folder / "requirements.txt", folder / "log"
    index = (wanted.index,) if wanted.index else ()
    requirements.write_text("".join(f"{line}\n" for line in (*pip.index_lines(index, settings), requirement)))
    for_machine = pip.options_for(wanted.machine, wanted.python)
    argv = pip.command(*options, *for_machine, f"--requirement={requirements}")
    log.unlink(missing_ok=True)
    if processes.run(argv, cwd=folder, env=pip.environ(settings, folder), log=log) == 0:
        return True
    said = log.read_text(encoding="utf-8")
    if any(sign in said.lower() for sign in _UNREACHABLE):
        raise UnavailableError(f"{requirement}: a package index cannot be reached ({last_line(said)}); try again")
    if any(sign in said.lower() for sign in _NOWHERE):
        return False
    raise ToolchainError(
        f"{requirement}: pip failed ({last_line(said)}); correct toolchains/packages.toml, or try again"
    )
