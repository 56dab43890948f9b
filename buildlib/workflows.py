"""The CI workflow files of a repository: what `doit ci` writes and verifies."""

from __future__ import annotations

from pathlib import Path

from buildlib.errors import ConfigError
from buildlib.files import named_by_user, write_if_changed

# The actions that workflows use: the commit that a release's tag names, which a moved tag cannot change.
_ACTIONS = {
    "checkout": "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1",
    "cache": "actions/cache@27d5ce7f107fe9357f9df03efb73ab90386fccae # v5.0.5",
    "cache_restore": "actions/cache/restore@27d5ce7f107fe9357f9df03efb73ab90386fccae # v5.0.5",
    "cache_save": "actions/cache/save@27d5ce7f107fe9357f9df03efb73ab90386fccae # v5.0.5",
    "upload": "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0",
    "download": "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1",
    "pypi": "pypa/gh-action-pypi-publish@dc37677b2e1c63e2034f94d8a5b11f265b73ba33 # v1.14.2",
}
_RUNNER = "ubuntu-24.04"
# The newest compiler that is on that runner.
_NEWEST_CXX = "g++-14"
# How many machines build side by side, at most.
_SHARDS = 4

_FILES = {
    ".github/workflows/pull-request.yml": "ci/pull-request.yml.j2",
    ".github/workflows/main.yml": "ci/main.yml.j2",
    ".github/workflows/nightly.yml": "ci/nightly.yml.j2",
    ".gitlab-ci.yml": "ci/gitlab.yml.j2",
}
# Only the builder's own repository has a package to release.
_RELEASE = {".github/workflows/release.yml": "ci/release.yml.j2"}


def files(root: Path) -> dict[str, str]:
    """The text of each workflow file by its path below the root of a repository."""
    from buildlib import render  # noqa: PLC0415 - Jinja takes a third of the time in which `doit list` must answer

    own = (root / "buildlib").is_dir()
    values: dict[str, object] = {
        "uses": _ACTIONS,
        "runner": _RUNNER,
        "newest_cxx": _NEWEST_CXX,
        "shards": _SHARDS,
        "has_unit_tests": (root / "tests" / "unit").is_dir(),
        "releases": own,
    }
    return {
        path: render.workflow(template, values) for path, template in {**_FILES, **(_RELEASE if own else {})}.items()
    }


def write(root: Path) -> list[str]:
    """Write the workflow files; the paths of those that changed."""
    changed = []
    for path, text in files(root).items():
        with named_by_user(path):
            if write_if_changed(root / path, text.encode("utf-8")):
                changed.append(path)
    return changed


def check(root: Path) -> None:
    """See that the workflow files are what `write` writes.

    Raises:
        ConfigError: some are not, or are missing.
    """
    stale = [path for path, text in files(root).items() if not _holds(root / path, text)]
    if stale:
        raise ConfigError(f"{', '.join(stale)}: not what 'doit ci' writes; run 'doit ci', and commit the files")


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode("utf-8")
    except OSError:
        return False
