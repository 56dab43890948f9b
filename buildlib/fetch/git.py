"""Some folders of a git repository at a tag, fetched by git and held to the commit that is locked."""

from __future__ import annotations

import shutil
from pathlib import Path

from buildlib import environment, process
from buildlib.environment import Settings
from buildlib.errors import ToolchainError, UnavailableError
from buildlib.fetch.common import Progress, condition, last_line, watched
from buildlib.lock import Locked, Tag
from buildlib.process import Processes

# No housekeeping of a repository that lives for seconds, no other line ends, and no waiting for a silent server.
_GIT = (
    "git", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.autocrlf=false",
    "-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=20",
)  # fmt: skip


def fetch(locked: Locked, making: Path, settings: Settings, processes: Processes, progress: Progress) -> Path:
    """Fetch a tag into `making`, and nothing of its history; the folder that then holds what is wanted, and no more.

    Raises:
        UnavailableError: there is no git, or the repository cannot be reached.
        ToolchainError: the tag is another commit than the one that is locked, or git fails for a reason that the user
            can mend.
    """
    tag = locked.git
    assert tag is not None
    if shutil.which("git", path=settings.passed.get("PATH")) is None:
        raise UnavailableError(f"toolchain {locked.id} cannot be fetched: git is not on this machine; install it, or "
                               f"{locked.instead}")  # fmt: skip
    clone, log = making / "clone", making / "log"
    # Whoever asks for a password would wait for ever.
    env = environment.child(settings, GIT_TERMINAL_PROMPT="0")

    def git(*arguments: str, cwd: Path) -> None:
        if processes.run((*_GIT, *arguments), cwd=cwd, env=env, log=log) != 0:
            raise _failure(locked, log.read_text(encoding="utf-8"), settings)

    with watched(locked, lambda: (clone / ".git").rglob("*pack*"), progress):
        # Without the contents of files, which follow for the wanted folders alone; a server that cannot sends all.
        clones = ("clone", "--quiet", "--depth=1", "--filter=blob:none", "--no-checkout", f"--branch={tag.tag}")
        git(*clones, "--", tag.url, clone.name, cwd=making)
        _verify(locked, tag, clone, settings)
        git("sparse-checkout", "set", *tag.folders, cwd=clone)
        git("checkout", "--quiet", "--detach", tag.commit, cwd=clone)
    return _kept(locked, tag, clone, making / "kept")


def _verify(locked: Locked, tag: Tag, clone: Path, settings: Settings) -> None:
    found = process.output((*_GIT, "rev-parse", "HEAD^{commit}"), env=environment.child(settings), cwd=clone)
    if (found or "").strip() != tag.commit:
        raise ToolchainError(
            f"{locked.id}: {tag.url}: the tag {tag.tag} is commit {(found or 'unknown').strip()}, and "
            f"toolchains/deps.toml names {tag.commit}; ask who moved it, or {locked.instead}"
        )


def _kept(locked: Locked, tag: Tag, clone: Path, kept: Path) -> Path:
    for folder in tag.folders:
        if not (clone / folder).is_dir():
            raise ToolchainError(
                f"{locked.id}: {tag.url}: {tag.tag} has no folder {folder}; correct toolchains/deps.toml"
            )
        (kept / folder).parent.mkdir(parents=True, exist_ok=True)
        (clone / folder).rename(kept / folder)
    return kept


def _failure(locked: Locked, said: str, settings: Settings) -> ToolchainError | UnavailableError:
    # Behind the error there may be lines of advice.
    fatal = next((line for line in said.splitlines() if line.startswith("fatal: ")), last_line(said))
    return condition(locked, said, settings) or UnavailableError(
        f"toolchain {locked.id} cannot be fetched: git failed ({fatal}); {locked.instead}"
    )
