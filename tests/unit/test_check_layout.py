"""The layout of an artifact, and when a check has to be made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from buildlib import check, package
from buildlib.check import client, digest, layout, load, metadata, subject, suite
from buildlib.check.finding import Finding
from buildlib.check.suite import CheckReport
from buildlib.config.model import Kernel
from buildlib.errors import CheckError, Severity
from buildlib.files import FileCache, listing
from buildlib.package import Artifact
from buildlib.plan import BuildSpec
from buildlib.variant import Backend
from buildlib.workspace import Workspace

from .check.subjects import LIMITS, ROOT, messages
from .factories import kernel, noarch, spec, tvm_ffi, write_files

_ID = "_relu_cpu_01234567"


def _artifact(made: BuildSpec, workspace: Workspace, *names: str) -> Artifact:
    extension = None
    if made.toolchain is not None:
        # What its format is says another test.
        extension = write_files(workspace.work(made), {"extension.so": ""}) / "extension.so"
    return package.package(
        made,
        digest="d" * 64,
        extension_id=_ID,
        files=dict.fromkeys(names or ("__init__.py", "_ops.py"), b""),
        extension=extension,
        provenance=None,
        work=workspace.work(made),
        target=workspace.artifact(made),
    )


def _found(made: BuildSpec, artifact: Artifact) -> dict[str, str]:
    read = subject.read(made, artifact, LIMITS, FileCache(Path("/nowhere")))
    said = [message for check in (digest.check, metadata.check, layout.check) for message in messages(check(read))]
    return {where: message for where, _, message in (line.partition(": ") for line in said)}


@pytest.mark.parametrize("made", [spec(kernel()), spec(tvm_ffi()), spec(noarch())], ids=["torch", "tvm-ffi", "noarch"])
def test_a_whole_artifact_has_no_findings(workspace: Workspace, made: BuildSpec) -> None:
    assert _found(made, _artifact(made, workspace)) == {}


_MISSING = "missing, and the client cannot load the kernel without it; build the kernel again"


@pytest.mark.parametrize(("kept", "lost"), [("_ops.py", "__init__.py"), ("__init__.py", "_ops.py")])
def test_a_module_that_the_client_needs(workspace: Workspace, kept: str, lost: str) -> None:
    made = spec(noarch())
    assert _found(made, _artifact(made, workspace, kept)) == {lost: _MISSING}


@pytest.mark.parametrize(
    ("made", "extension"),
    [(spec(kernel()), f"{_ID}.abi3.so"), (spec(tvm_ffi()), f"{_ID}.so")],
    ids=["torch", "tvm-ffi"],
)
def test_the_extension_that_the_client_needs(workspace: Workspace, made: BuildSpec, extension: str) -> None:
    bare = _artifact(spec(noarch()), workspace)
    assert _found(made, bare)[extension] == _MISSING


def test_a_file_that_the_digest_does_not_know(workspace: Workspace) -> None:
    made = spec(noarch())
    artifact = _artifact(made, workspace)
    write_files(artifact.folder, {"more.py": ""})
    assert _found(made, artifact) == {"more.py": "not in the digest; build the kernel again"}


def test_metadata_that_the_client_cannot_read(workspace: Workspace) -> None:
    made = spec(noarch())
    artifact = _artifact(made, workspace)
    path = artifact.folder / "metadata.json"
    path.write_text(path.read_text().replace('"relu"', '"Not a name"'))
    said = _found(made, artifact)["metadata.json"]
    assert said.startswith("the client cannot read it (")


def test_the_client_has_the_last_word_on_the_digest(workspace: Workspace) -> None:
    made = spec(noarch())
    artifact = _artifact(made, workspace)
    path = artifact.folder / "metadata.json"
    # Base64 without its padding is the same number to one reader and another text to the other.
    path.write_text(path.read_text().replace('="', '"'))
    assert "the client does not accept the digest" in _found(made, artifact)["metadata.json"]


def test_a_package_of_the_kernels_own_name_inside_of_it(workspace: Workspace) -> None:
    made = spec(noarch())
    artifact = _artifact(made, workspace, "__init__.py", "_ops.py", "relu/__init__.py")
    assert list(_found(made, artifact)) == ["relu"]


@pytest.mark.parametrize(
    ("other", "wrong"),
    [
        (noarch(name="gelu"), "name is gelu, and not relu; build the kernel again"),
        (noarch(version=2), "version is 2, and not 1; build the kernel again"),
        (noarch(backends=(Backend.CUDA,)), "backend.type is cuda, and not cpu; build the kernel again"),
    ],
    ids=["name", "version", "backend"],
)
def test_metadata_of_something_else(workspace: Workspace, other: Kernel, wrong: str) -> None:
    made = spec(noarch())
    foreign = _artifact(spec(other), workspace)
    (said,) = _found(made, foreign).items()
    assert said == ("metadata.json", wrong)


# --- the report ---


@pytest.fixture
def checked(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> BuildSpec:
    """A spec whose artifact has passed its checks; the real load is left out."""
    monkeypatch.setattr(suite, "CHECKS", {**suite.CHECKS, "load": lambda *_: iter(())})
    shutil.copytree(ROOT / "toolchains", workspace.root / "toolchains")
    made = spec(noarch(folder=workspace.root / "kernels" / "relu"))
    _artifact(made, workspace)
    check.check(made, workspace)
    return made


def test_a_report_is_written(workspace: Workspace, checked: BuildSpec) -> None:
    report = msgspec.json.decode(workspace.report("check", checked).read_bytes(), type=CheckReport)
    assert (report.kernel, report.variant, report.findings) == ("relu", "torch-cpu", ())
    assert report.passed == ("digest", "metadata", "layout", "syntax", "imports", "ops", "load")
    assert {left_out.check for left_out in report.not_checked} == set(suite.CHECKS) - set(report.passed)
    assert all(left_out.reason for left_out in report.not_checked)


def test_every_check_is_made() -> None:
    # A module that yields findings and is not in the list would be a check that nobody makes.
    folder = Path(check.__file__).parent
    checks = {path for path in listing(folder) if "-> Iterator[Outcome]:" in (folder / path).read_text()}
    assert {path.removesuffix(".py").replace("_", "-") for path in checks} - {"suite"} == set(suite.CHECKS)


def test_what_has_passed_need_not_be_checked_again(workspace: Workspace, checked: BuildSpec) -> None:
    assert check.up_to_date(checked, workspace)


_CHANGES: dict[str, Callable[[Workspace, BuildSpec], object]] = {
    "no report": lambda workspace, made: workspace.report("check", made).unlink(),
    "half a report": lambda workspace, made: workspace.report("check", made).write_text("{"),
    "another artifact": lambda workspace, made: _artifact(made, workspace, "__init__.py", "_ops.py", "more.py"),
    "a file more": lambda workspace, made: write_files(workspace.artifact(made), {"more.py": ""}),
    "an altered file": lambda workspace, made: write_files(workspace.artifact(made), {"_ops.py": "altered"}),
    "other rules": lambda workspace, _: write_files(workspace.root / "toolchains", {"checks.toml": "other"}),
    "no metadata": lambda workspace, made: (workspace.artifact(made) / "metadata.json").unlink(),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_what_has_changed_since_is_checked_again(workspace: Workspace, checked: BuildSpec, change: str) -> None:
    _CHANGES[change](workspace, checked)
    workspace.cache.forget(workspace.root)
    assert not check.up_to_date(checked, workspace)


def test_findings_are_an_error_that_names_all_of_them_and_a_report(
    workspace: Workspace, checked: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(workspace.artifact(checked), {"more.py": ""})
    finding = Finding(check="load", where="", message="cannot be loaded")
    monkeypatch.setattr(suite, "CHECKS", {**suite.CHECKS, "load": lambda *_: iter((finding,))})
    with pytest.raises(CheckError) as caught:
        check.check(checked, workspace)
    shown = "build/kernels/relu/build/torch-cpu"
    assert str(caught.value).splitlines() == [
        f"{shown}/more.py: not in the digest; build the kernel again",
        f"{shown}: cannot be loaded",
    ]
    assert len(msgspec.json.decode(workspace.report("check", checked).read_bytes(), type=CheckReport).findings) == 2


def test_advice_is_reported_and_stops_nothing(
    workspace: Workspace, checked: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    advice = Finding(check="load", where="a.py", message="slow; be quick", severity=Severity.ADVICE)
    monkeypatch.setattr(suite, "CHECKS", {**suite.CHECKS, "load": lambda *_: iter((advice,))})
    assert check.check(checked, workspace) == "7 checks passed, 10 left out, advice: load"
    assert check.up_to_date(checked, workspace)
    error = Finding(check="load", where="b.py", message="wrong")
    monkeypatch.setattr(suite, "CHECKS", {**suite.CHECKS, "load": lambda *_: iter((advice, error))})
    with pytest.raises(CheckError) as caught:
        check.check(checked, workspace)
    shown = "build/kernels/relu/build/torch-cpu"
    # What stops it comes first, for the table at the end shows one line.
    assert str(caught.value).splitlines() == [f"{shown}/b.py: wrong", f"{shown}/a.py: advice: slow; be quick"]


def test_a_load_that_was_left_out_for_want_of_a_package_is_made_once_it_is_there(
    workspace: Workspace, checked: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    needy = spec(noarch(folder=checked.kernel.folder, python_depends=("some-package",)))
    _artifact(needy, workspace)
    module = {"no_such_module": "some-package-of-pip"}
    monkeypatch.setattr(client, "_python_depends", lambda: {"some-package": module})
    monkeypatch.setattr(suite, "CHECKS", {**suite.CHECKS, "load": load.check})
    reason = "the kernel needs some-package-of-pip, which this environment lacks; pip install some-package-of-pip"
    assert check.check(needy, workspace) == "6 checks passed, 11 left out"
    report = msgspec.json.decode(workspace.report("check", needy).read_bytes(), type=CheckReport)
    assert [each.reason for each in report.not_checked if each.check == "load"] == [reason]
    assert check.up_to_date(needy, workspace)
    monkeypatch.setattr(client, "is_here", lambda _: True)
    assert not check.up_to_date(needy, workspace)


def test_what_has_findings_is_checked_again(
    workspace: Workspace, checked: BuildSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = Finding(check="load", where="", message="cannot be loaded")
    monkeypatch.setattr(suite, "CHECKS", {**suite.CHECKS, "load": lambda *_: iter((finding,))})
    with pytest.raises(CheckError):
        check.check(checked, workspace)
    assert not check.up_to_date(checked, workspace)


def test_without_an_artifact_it_is_said_how_to_get_one(workspace: Workspace) -> None:
    made = spec(noarch(folder=workspace.root / "kernels" / "relu"))
    with pytest.raises(CheckError) as caught:
        check.check(made, workspace)
    assert str(caught.value) == (
        "build/kernels/relu/build/torch-cpu: no artifact that can be read; build it first, 'doit build:relu:torch-cpu'"
    )
