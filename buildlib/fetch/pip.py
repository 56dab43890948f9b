"""Packages of the Python index, fetched and unpacked by pip, which holds them to the hashes of lock.toml."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from buildlib import environment
from buildlib.environment import Settings
from buildlib.errors import ToolchainError, UnavailableError
from buildlib.fetch.common import Progress, condition, last_line, watched
from buildlib.lock import Locked
from buildlib.process import Processes

# What pip says, in lower case, of a package that is not what it should be.
_ALTERED = ("do not match the hashes", "badzipfile", "is not a zip file", "has an invalid wheel", "is invalid.")
# The policies whose wheels are taken, the one that most machines have first. pip knows the older ones by the first.
_POLICIES = ("manylinux2014", *(f"manylinux_2_{minor}" for minor in (17, 24, 26, 27, 28, 31, 34)))


def command(verb: str, *arguments: str) -> tuple[str, ...]:
    """pip, for wheels alone, without what they depend on, and without a word to the user or a wait for one."""
    return (
        sys.executable, "-m", "pip", verb, "--no-deps", "--only-binary=:all:", "--no-input",
        "--disable-pip-version-check", "--progress-bar=off", "--retries=1", "--timeout=20", *arguments,
    )  # fmt: skip


def environ(settings: Settings, temporary: Path) -> dict[str, str]:
    """The environment of pip; of a user's variables only those that say how it reaches an index."""
    return environment.child(settings, **settings.pip, TMPDIR=str(temporary), PYTHONDONTWRITEBYTECODE="1")


def options_for(machine: str, python: str | None) -> Iterator[str]:
    """Options for wheels of another machine, or of a certain Python, which need not be those that run."""
    if python:
        yield from (f"--python-version={python}", "--implementation=cp", f"--abi=cp{python.replace('.', '')}")
    yield from (f"--platform={policy}_{machine}" for policy in _POLICIES)


def index_lines(indexes: Iterable[str], settings: Settings) -> Iterator[str]:
    """The lines of a requirements file that name extra indexes.

    They do not stand among the arguments, which everybody on the machine may read: a URL may hold a password.
    """
    yield from (f"--extra-index-url {settings.indexes[environment.index_variable(index)]}" for index in indexes)


def fetch(locked: Locked, making: Path, settings: Settings, processes: Processes, progress: Progress) -> Path:
    """Have pip fetch and unpack the packages below `making`; again without its cache, should that be corrupt.

    Raises:
        UnavailableError: the index cannot be reached, or has not got them.
        ToolchainError: pip fails for a reason that the user can mend.
    """
    site = making / "site"
    requirements = making / "requirements.txt"
    requirements.write_text("".join(f"{line}\n" for line in _requirements(locked, settings)))
    temporary = making / "tmp"
    temporary.mkdir()
    log = making / "log"
    env = environ(settings, temporary)
    python = next((wheel.python for wheel in locked.wheels if wheel.python), None)
    other = options_for(os.uname().machine, python) if python else ()
    argv = command(
        "install", "--require-hashes", "--no-compile", f"--target={site}", *other, f"--requirement={requirements}"
    )
    said = ""
    for more in ((), ("--no-cache-dir",)):
        log.unlink(missing_ok=True)
        shutil.rmtree(site, ignore_errors=True)
        # pip keeps what it fetches in its temporary folder.
        with watched(locked, lambda: temporary.rglob("*.whl"), progress):
            status = processes.run((*argv, *more), cwd=making, env=env, log=log)
        if status == 0:
            return site
        said = log.read_text(encoding="utf-8")
        if not any(sign in said.lower() for sign in _ALTERED):
            break
    raise _failure(locked, said, settings)


def _requirements(locked: Locked, settings: Settings) -> Iterator[str]:
    yield from index_lines(locked.indexes, settings)
    for wheel in locked.wheels:
        yield f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}"


def _failure(locked: Locked, said: str, settings: Settings) -> ToolchainError | UnavailableError:
    lower = said.lower()
    if error := condition(locked, said, settings):
        return error
    if any(sign in lower for sign in _ALTERED):
        return ToolchainError(
            f"{locked.id}: the index gives other content than toolchains/lock.toml names, or a broken download; "
            "try again, or ask who runs the index"
        )
    if "no module named pip" in lower:
        return ToolchainError(f"{locked.id}: this Python environment has no pip; install it with 'python -m ensurepip'")
    again = f"'doit toolchain:{locked.id}' tries again"
    if "no matching distribution" in lower or "could not find a version" in lower:
        instead = f"{locked.instead}, or " if locked.instead else ""
        return UnavailableError(
            f"toolchain {locked.id} cannot be fetched: no package index has it, or none can be reached; "
            f"{instead}{again}"
        )
    return ToolchainError(f"{locked.id}: pip failed ({last_line(said)}); {again}")
