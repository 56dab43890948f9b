"""toolchains/lock.toml from packages.toml: what stays, what is asked for, and how it is written."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buildlib import lock, relock
from buildlib.errors import ToolchainError, UnavailableError
from buildlib.process import Processes
from buildlib.workspace import Workspace

from .factories import write_files

_DATA = Path(__file__).parents[2] / "toolchains"
_PACKAGES = '[tiny]\npackages = ["tiny-a==1.*", "tiny-b"]\n'


class _Pip(Processes):
    """Stands in for pip, with an index of one version of each package, by machine; a downloaded file is its text."""

    def __init__(self, versions: Mapping[str, Mapping[str, str]], says: str = "No matching distribution found") -> None:
        super().__init__()
        self.versions, self.says = versions, says
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], *, log: Path, **_: Any) -> int:
        options = dict(word.partition("=")[::2] for word in argv if word.startswith("--"))
        requirement = Path(options["--requirement"]).read_text().splitlines()[-1]
        machine = options["--platform"].partition("manylinux_2_34_")[2]
        name = re.split("[=<>]", requirement)[0]
        self.asked.append(f"{argv[3]} {requirement} {machine}")
        version = self.versions.get(machine, {}).get(name)
        if version is None:
            log.write_text(self.says)
            return 1
        if argv[3] == "download":
            write_files(Path(options["--dest"]), {f"{name}.whl": f"{name} {version} {machine}"})
            return 0
        found = {"metadata": {"name": name, "version": version}, "download_info": {"archive_info": {"hashes": {}}}}
        Path(options["--report"]).write_text(json.dumps({"install": [found]}))
        return 0


def _update(workspace: Workspace, pip: _Pip, packages: str = _PACKAGES, *, upgrade: bool = False) -> str:
    data = write_files(workspace.root / "toolchains", {"packages.toml": packages})
    if not (data / "lock.toml").exists():
        (data / "lock.toml").write_text("")
    workspace.processes = pip
    return relock.update(workspace, upgrade=upgrade)


def _entries(workspace: Workspace) -> tuple[lock.Entry, ...]:
    return lock.entries(workspace.root / "toolchains" / "lock.toml")


_BOTH = {machine: {"tiny-a": "1.2", "tiny-b": "7"} for machine in ("x86_64", "aarch64")}


def test_the_committed_lock_is_what_is_wanted(workspace: Workspace) -> None:
    # Nothing is asked: each package is pinned, and none besides those that are wanted.
    for name in ("packages.toml", "lock.toml"):
        (workspace.root / "toolchains").mkdir(exist_ok=True)
        shutil.copy(_DATA / name, workspace.root / "toolchains" / name)
    workspace.processes = _Pip({})
    assert relock.update(workspace, upgrade=False) == "nothing to change"
    assert (workspace.root / "toolchains" / "lock.toml").read_text() == (_DATA / "lock.toml").read_text()


def test_what_is_new_is_pinned_for_both_platforms(workspace: Workspace) -> None:
    pip = _Pip(_BOTH)
    assert _update(workspace, pip) == "tiny: tiny-a 1.2 added; tiny: tiny-b 7 added"
    entries = _entries(workspace)
    assert [(entry.name, entry.version) for entry in entries] == [("tiny-a", "1.2"), ("tiny-b", "7")]
    x86, arm = entries[0].x86_64_linux, entries[0].aarch64_linux
    assert x86 is not None
    assert arm is not None
    assert (x86.size, arm.size) == (len("tiny-a 1.2 x86_64"), len("tiny-a 1.2 aarch64"))
    assert x86.sha256 != arm.sha256
    # The second platform must have the version of the first.
    assert pip.asked[:4] == [
        "install tiny-a==1.* x86_64",
        "download tiny-a==1.2 x86_64",
        "install tiny-a==1.2 aarch64",
        "download tiny-a==1.2 aarch64",
    ]


def test_what_is_pinned_stays_unless_told_otherwise(workspace: Workspace) -> None:
    _update(workspace, _Pip(_BOTH))
    newer = {machine: {"tiny-a": "1.3", "tiny-b": "7"} for machine in _BOTH}
    pip = _Pip(newer)
    assert (_update(workspace, pip), pip.asked) == ("nothing to change", [])
    assert _update(workspace, pip, upgrade=True) == "tiny: tiny-a 1.2 → 1.3"


def test_what_does_not_fit_any_more_is_replaced_and_what_is_not_wanted_goes(workspace: Workspace) -> None:
    _update(workspace, _Pip(_BOTH))
    pip = _Pip({machine: {"tiny-a": "2.0"} for machine in _BOTH})
    said = _update(workspace, pip, '[tiny]\npackages = ["tiny-a>=2"]\n')
    assert said == "tiny: tiny-a 1.2 → 2.0; tiny: tiny-b 7 removed"


def test_a_platform_that_has_no_file_is_left_out(workspace: Workspace) -> None:
    _update(workspace, _Pip({"aarch64": {"tiny-a": "1.2"}}), '[tiny]\npackages = ["tiny-a"]\n')
    (entry,) = _entries(workspace)
    assert (entry.x86_64_linux, entry.aarch64_linux is None) == (None, False)


def test_python_and_index_are_written_and_told(workspace: Workspace) -> None:
    workspace.settings = msgspec.structs.replace(workspace.settings, indexes={"KERNELYARD_INDEX_MINE": "here"})
    packages = '[tiny]\npackages = ["tiny-a"]\npython = "3.12"\nindex = "mine"\n'
    _update(workspace, _Pip(_BOTH), packages)
    (entry,) = _entries(workspace)
    assert (entry.python, entry.index) == ("3.12", "mine")
    assert relock.text(_entries(workspace)) == (workspace.root / "toolchains" / "lock.toml").read_text()


@pytest.mark.parametrize(
    ("packages", "says", "kind", "message"),
    [
        (
            '[tiny]\npackages = ["none"]\n',
            "No matching distribution found",
            ToolchainError,
            "toolchains/packages.toml: [tiny] packages: no package index has 'none' for any platform; correct it",
        ),
        (
            '[tiny]\npackages = ["a b"]\n',
            "",
            ToolchainError,
            "toolchains/packages.toml: [tiny] packages: 'a b': ",
        ),
        (
            '[tiny]\npackages = ["none"]\n',
            "Retrying after connection broken by x\nNo matching distribution found",
            UnavailableError,
            "none: a package index cannot be reached (No matching distribution found); try again",
        ),
        (
            '[tiny]\npackages = ["none"]\n',
            "ERROR: else",
            ToolchainError,
            "none: pip failed (ERROR: else); correct toolchains/packages.toml, or try again",
        ),
        (
            '[tiny]\npackages = ["tiny-a"]\nindex = "mine"\n',
            "",
            UnavailableError,
            "index 'mine': nobody has said where it is; set KERNELYARD_INDEX_MINE to its URL",
        ),
    ],
)
def test_failures_change_nothing(
    workspace: Workspace, packages: str, says: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message)) as raised:
        _update(workspace, _Pip({}, says), packages)
    assert "\n" not in str(raised.value)
    assert (workspace.root / "toolchains" / "lock.toml").read_text() == ""
