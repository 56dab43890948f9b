"""Provisioning: whole or not at all, and in words that help."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import filelock
import msgspec
import pytest

from buildlib import process, provision
from buildlib.environment import Settings
from buildlib.errors import ToolchainError, UnavailableError
from buildlib.lock import Locked, Wheel
from buildlib.process import Processes

_LOCKED = Locked(
    id="cuda-13.0", wheels=(Wheel(name="nvidia-cuda-nvcc", version="13.0.88", sha256="ab", size=3_000_000),)
)
_FILES = {"nvidia/cu13/bin/nvcc": "nvcc", "nvidia/cu13/lib/libcudart.so.13": "cudart"}


class _Pip(Processes):
    """Stands in for pip: unpacks some files, or says something and fails."""

    def __init__(self, files: Mapping[str, str] = _FILES, says: str = "") -> None:
        super().__init__()
        self.files, self.says = files, says
        self.runs: list[Sequence[str]] = []
        self.env: Mapping[str, str] = {}

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], log: Path, **_: Any) -> int:
        self.runs.append(argv)
        self.env = env
        log.write_text(self.says)
        if self.says:
            return 1
        (site,) = (Path(word.removeprefix("--target=")) for word in argv if word.startswith("--target="))
        for path, content in self.files.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(content)
        return 0


Ensure = Callable[[_Pip], Path]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache=tmp_path / "cache", pip={"PIP_INDEX_URL": "mine"})


@pytest.fixture
def ensure(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Ensure:
    monkeypatch.setattr(process, "output", lambda *_, **__: "release 13.0, V13.0.88")
    return lambda pip: provision.ensure(_LOCKED, settings, pip, lambda _what, _text: None)


def _left(settings: Settings) -> list[str]:
    """What is in the cache beside locks."""
    folder = settings.cache / "toolchains"
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_a_cuda_root(ensure: Ensure, settings: Settings) -> None:
    pip = _Pip()
    root = ensure(pip)
    assert (root / "bin/nvcc").read_text() == "nvcc"
    assert (root / "lib64/libcudart.so").read_text() == "cudart"
    assert not (root / "bin").is_symlink()
    assert root == _LOCKED.folder(settings.cache)
    assert _left(settings) == [root.name]


def test_what_other_packages_bring_stands_beside_the_toolkit(ensure: Ensure) -> None:
    more = {"clang/native/libclang.so": "clang", "libclang-1.dist-info/METADATA": "", "bin/other": "other"}
    root = ensure(_Pip({**_FILES, **more}))
    assert (root / "clang/native/libclang.so").read_text() == "clang"
    assert sorted(path.name for path in root.iterdir()) == ["bin", "clang", "lib", "lib64", "toolchain.json"]
    assert [path.name for path in (root / "bin").iterdir()] == ["nvcc"]


def test_pip_is_held_to_the_hashes_and_finds_the_users_index(ensure: Ensure) -> None:
    pip = _Pip()
    ensure(pip)
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(pip.runs[0])
    assert pip.env["PIP_INDEX_URL"] == "mine"


_INDEXED = Locked(
    id="torch-2.13-cu126",
    wheels=(Wheel(name="torch", version="2.13.0+cu126", sha256="ab", size=1, index="torch-wheels"),),
)
_VARIABLE = "KERNELYARD_INDEX_TORCH_WHEELS"


def test_an_extra_index_is_told_to_pip_and_to_nobody_else(settings: Settings) -> None:
    told: list[str] = []

    class Pip(_Pip):
        def run(self, argv: Sequence[str], **more: Any) -> int:
            (path,) = (word.partition("=")[2] for word in argv if word.startswith("--requirement="))
            told.extend(Path(path).read_text().splitlines())
            return super().run(argv, **more)

    pip = Pip({"torch/version.py": ""})
    there = msgspec.structs.replace(settings, indexes={_VARIABLE: "mine://me:secret@host/"})
    provision.ensure(_INDEXED, there, pip, lambda _what, _text: None)
    assert told == ["--extra-index-url mine://me:secret@host/", "torch==2.13.0+cu126 --hash=sha256:ab"]
    assert "secret" not in repr((pip.runs, pip.env))


def test_an_extra_index_that_nobody_named(settings: Settings) -> None:
    reason = f"torch 2.13.0+cu126 is in the package index 'torch-wheels' only; set {_VARIABLE} to the URL of that index"
    assert provision.lacks(_INDEXED, settings) == reason
    assert provision.lacks(_LOCKED, settings) is None
    pip = _Pip()
    with pytest.raises(UnavailableError, match=re.escape(reason)):
        provision.ensure(_INDEXED, settings, pip, lambda _what, _text: None)
    assert pip.runs == []
    # What is provisioned already needs no index.
    _INDEXED.folder(settings.cache).mkdir(parents=True)
    assert provision.lacks(_INDEXED, settings) is None


def test_once(ensure: Ensure) -> None:
    pip = _Pip()
    assert ensure(pip) == ensure(pip)
    assert len(pip.runs) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda root: (root / "bin/nvcc").unlink(),
        lambda root: (root / "bin/nvcc").write_text("truncat"),
        lambda root: (root / "toolchain.json").write_text("{"),
        lambda root: (root / "toolchain.json").unlink(),
    ],
    ids=["a missing file", "another size", "a broken record", "no record"],
)
def test_a_damaged_toolchain_is_provisioned_again(ensure: Ensure, damage: Callable[[Path], object]) -> None:
    pip = _Pip()
    damage(ensure(pip))
    assert (ensure(pip) / "bin/nvcc").read_text() == "nvcc"
    assert len(pip.runs) == 2


def test_what_a_killed_provisioning_left_is_of_no_consequence(ensure: Ensure, settings: Settings) -> None:
    folder = _LOCKED.folder(settings.cache)
    left = folder.with_name(f".making-{folder.name}")
    (left / "site").mkdir(parents=True)
    (left / "site/half").write_text("")
    ensure(_Pip())
    assert _left(settings) == [folder.name]


def test_the_second_process_waits_and_takes_what_the_first_made(
    ensure: Ensure, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ensure(_Pip())
    aside = made.rename(made.with_name("aside"))
    real = filelock.FileLock.acquire
    said: list[str] = []

    def acquire(self: filelock.FileLock, **options: Any) -> object:
        if options.get("blocking") is False:
            raise filelock.Timeout(self.lock_file)
        aside.rename(made)
        return real(self)

    monkeypatch.setattr(filelock.FileLock, "acquire", acquire)
    pip = _Pip()
    assert provision.ensure(_LOCKED, settings, pip, lambda _, text: said.append(text)) == made
    assert (pip.runs, said) == ([], ["waiting for another process that provisions it"])


@pytest.mark.parametrize(
    ("says", "kind", "message"),
    [
        ("ERROR: No matching distribution found for x", UnavailableError, "no package index has it, or none can be"),
        ("ProxyError('Cannot connect to proxy.')\nNo matching distribution", UnavailableError, "mend HTTPS_PROXY"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES", ToolchainError, "other content than toolchains/lock.toml names"),
        ("OSError: [Errno 28] No space left on device", ToolchainError, "set KERNELYARD_CACHE to a folder on another"),
        ("/bin/python: No module named pip", ToolchainError, "install it with 'python -m ensurepip'"),
        (
            "ERROR: something else\n\n",
            ToolchainError,
            r"pip failed \(ERROR: something else\); 'doit toolchain:cuda-13.0'",
        ),
    ],
)
def test_failures_name_the_remedy_and_leave_nothing(
    ensure: Ensure, settings: Settings, says: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message) as raised:
        ensure(_Pip(says=says))
    assert type(raised.value) is kind
    assert "\n" not in str(raised.value)
    assert _left(settings) == []


def test_a_wrong_hash_is_tried_once_more_without_pips_cache(ensure: Ensure) -> None:
    pip = _Pip(says="DO NOT MATCH THE HASHES")
    with pytest.raises(ToolchainError):
        ensure(pip)
    assert ["--no-cache-dir" in argv for argv in pip.runs] == [False, True]


def test_no_room(ensure: Ensure, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 1))
    pip = _Pip()
    with pytest.raises(ToolchainError, match=re.escape(f"{settings.cache}: no room to provision cuda-13.0")):
        ensure(pip)
    assert (pip.runs, _left(settings)) == ([], [])


@pytest.mark.parametrize(
    ("reply", "said"),
    [("release 12.4, V12.4.99", "reports version 12.4.99"), (None, "does not run")],
)
def test_a_compiler_of_another_version_is_not_kept(
    ensure: Ensure, settings: Settings, monkeypatch: pytest.MonkeyPatch, reply: str | None, said: str
) -> None:
    monkeypatch.setattr(process, "output", lambda *_, **__: reply)
    with pytest.raises(ToolchainError, match=f"the nvcc of the package for 13.0.88 {said}; .*CUDA_HOME"):
        ensure(_Pip())
    assert _left(settings) == []


def test_of_torch_only_what_is_compiled_against_is_kept(settings: Settings) -> None:
    torch = Locked(
        id="torch-2.12-cu130", wheels=(Wheel(name="torch", version="2.12.1", sha256="0", size=1, python="3.12"),)
    )
    files = {
        "torch/include/torch/all.h": "h",
        "torch/lib/libc10.so": "c",
        "torch/lib/libother.so": "",
        "torch/_C.py": "",
    }
    pip = _Pip(files)
    root = provision.ensure(torch, settings, pip, lambda _what, _text: None)
    kept = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    assert kept == ["toolchain.json", "torch/include/torch/all.h", "torch/lib/libc10.so"]
    assert "--python-version=3.12" in pip.runs[0]
