"""A kernel's tests, run as its users run it: in a child process that loads the artifact with the `kernels` client."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec

from buildlib import environment, package, process
from buildlib import variant as variants
from buildlib.check import load
from buildlib.config.model import Kernel
from buildlib.errors import StepError
from buildlib.files import listing
from buildlib.plan import BuildSpec
from buildlib.rust import testing as rust
from buildlib.variant import Backend
from buildlib.workspace import Workspace

# pytest's exit status for a run that selected no test.
_NOTHING_COLLECTED = 5


# What a driver makes when there is a device for it; a backend that is not here needs none.
_DEVICE_NODES = {
    Backend.CUDA: ("/dev/nvidiactl", "/dev/dxg"),
    Backend.ROCM: ("/dev/kfd",),
    Backend.XPU: ("/dev/dri",),
    Backend.NEURON: ("/dev/neuron0",),
    Backend.TPU: ("/dev/accel0", "/dev/vfio/0"),
    Backend.CANN: ("/dev/davinci_manager",),
}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What pytest, and cargo, report of the tests that they ran."""

    passed: int
    skipped: int
    reason: str = ""

    @property
    def summary(self) -> str:
        """`12 passed, 3 skipped`, or `not tested: …` where not one test ran to its end."""
        if self.passed == 0:
            return f"not tested: {self.reason}"
        return f"{self.passed} passed" + (f", {self.skipped} skipped" if self.skipped else "")


def uses(kernel: Kernel, kernels: Iterable[Kernel]) -> Iterator[Kernel]:
    """The other kernels whose repositories a kernel's tests name: they must be built before it is tested."""
    tests = kernel.folder / "tests"
    others = {other.general.hub.repo_id: other for other in kernels if other != kernel and other.general.hub.repo_id}
    if not others or not tests.is_dir():
        return
    text = b""
    for path in listing(tests):
        # What cannot be read is for pytest to report; a dangling link must not stop every command.
        with contextlib.suppress(OSError):
            text += (tests / path).read_bytes() if path.endswith(".py") else b""
    for repo_id, other in others.items():
        # As a whole: the name of one repository may begin with that of another.
        if repo_id and re.search(rb"(?<![\w./-])%s(?![\w.-])" % re.escape(repo_id.encode()), text):
            yield other


def run_kernel(spec: BuildSpec, specs: Iterable[BuildSpec], workspace: Workspace) -> Outcome:
    """Run a kernel's tests on one variant's artifact, and those of its crates.

    The client is pointed at the variant's folder itself, so it cannot choose another. The artifacts of other kernels in
    `specs` can be loaded too, for tests that combine kernels: those for the same backend.

    Raises:
        StepError: a test failed, or the process crashed.
    """
    outcome = _run_python(spec, specs, workspace)
    if spec.crates is None:
        return outcome
    own = [crate for crate in spec.crates.crates if not crate.is_shared]
    passed, ignored = rust.test(spec, own, workspace.log("cargo-test", spec), workspace)
    if reason := _no_device(spec):
        # What runs without the device says nothing about what runs on it.
        return Outcome(passed=0, skipped=outcome.skipped, reason=f"{reason}; {passed} tests of its crates passed")
    return Outcome(passed=outcome.passed + passed, skipped=outcome.skipped + ignored, reason=outcome.reason)


def run_shared_crates(specs: Sequence[BuildSpec], workspace: Workspace) -> Outcome:
    """Run the tests of the crates that kernels share.

    Raises:
        StepError: a test failed or was not compiled.
    """
    log = workspace.build / "logs" / "test-crates.log"
    log.unlink(missing_ok=True)
    passed = ignored = 0
    tested = set[str]()
    for spec in specs:
        shared = [crate for crate in spec.crates.crates if crate.is_shared] if spec.crates else []
        if untested := [crate for crate in shared if crate.name not in tested]:
            counts = rust.test(spec, untested, log, workspace)
            passed, ignored = passed + counts[0], ignored + counts[1]
            tested |= {crate.name for crate in untested}
    return Outcome(passed=passed, skipped=ignored, reason="they have no tests")


def _run_python(spec: BuildSpec, specs: Iterable[BuildSpec], workspace: Workspace) -> Outcome:
    tests = spec.kernel.folder / "tests"
    if without := load.unloadable(spec):
        return Outcome(passed=0, skipped=0, reason=without.reason)
    if reason := _no_device(spec):
        return Outcome(passed=0, skipped=0, reason=reason)
    if not any(tests.glob("**/*.py")):
        return Outcome(passed=0, skipped=0, reason=f"{workspace.shown(spec.kernel.folder)} has no tests folder")
    shims = _shims(spec, workspace)
    local: dict[str, Path] = {}
    # The kernel under test comes first, for another version of it may have the same repository.
    for each in (spec, *specs):
        repo_id = each.kernel.general.hub.repo_id
        same = variants.backend(each.variant) is variants.backend(spec.variant)
        if repo_id and same and (each is spec or package.read(workspace.artifact(each))):
            local.setdefault(repo_id, workspace.artifact(each))
    extra = {
        "LOCAL_KERNELS": ":".join(f"{repo_id}={folder}" for repo_id, folder in local.items()),
        "PYTHONPATH": str(shims),
        "HF_HUB_OFFLINE": "1",
    }
    if variants.backend(spec.variant) is Backend.CPU:
        extra["CUDA_VISIBLE_DEVICES"] = ""
    log = workspace.log("test", spec)
    return _pytest(
        (str(tests), f"--rootdir={spec.kernel.folder}", "-c", os.devnull, "-p", "buildlib.pytest_kernels"),
        what=f"{workspace.shown(tests)} on {variants.name(spec.variant)}",
        cwd=spec.kernel.folder,
        extra=extra,
        log=log,
        workspace=workspace,
    )


def run_own(folder: Path, log: Path, workspace: Workspace) -> Outcome:
    """Run the builder's own tests in a folder of the checkout.

    Raises:
        StepError: a test failed, or the process crashed.
    """
    return _pytest(
        (str(folder),), what=workspace.shown(folder), cwd=workspace.root, extra={}, log=log, workspace=workspace
    )


def _pytest(
    arguments: tuple[str, ...], *, what: str, cwd: Path, extra: dict[str, str], log: Path, workspace: Workspace
) -> Outcome:
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    junit = log.with_suffix(".xml")
    junit.unlink(missing_ok=True)
    env = environment.child(
        workspace.settings,
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONFAULTHANDLER="1",
        PYTHONUNBUFFERED="1",
        **extra,
    )
    argv = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={junit}", "-v", *arguments)
    with workspace.jobs.slot():
        status = workspace.processes.run(argv, cwd=cwd, env=env, log=log)
    text = log.read_text(encoding="utf-8")
    shown = workspace.shown(log)
    if status == _NOTHING_COLLECTED:
        return Outcome(passed=0, skipped=0, reason="pytest found no test")
    if status != 0:
        raise StepError(f"{what}: {_verdict(status, text)}; the whole log is {shown}\n{_tail(text)}")
    return _outcome(junit, what, shown)


def _outcome(junit: Path, what: str, log: str) -> Outcome:
    try:
        suites = ET.parse(junit).getroot().iter("testsuite")  # noqa: S314 - pytest wrote it a moment ago
    except (OSError, ET.ParseError):
        # A test that calls os._exit(0) ends pytest before it reports, and would pass for success.
        raise StepError(
            f"{what}: pytest ended without a report, as if a test had left the process; see {log}"
        ) from None
    total = skipped = 0
    for suite in suites:
        total += int(suite.get("tests", "0"))
        skipped += int(suite.get("skipped", "0"))
    reason = f"all {skipped} tests were skipped" if skipped == total else ""
    return Outcome(passed=total - skipped, skipped=skipped, reason=reason)


def _verdict(status: int, text: str) -> str:
    """`2 failed, 10 passed`, or how the process died and in which test."""
    closing = re.findall(r"^=+ (.*(?:failed|error).*) in [\d.]+s.*=+$", text, re.MULTILINE)
    if status > 0 and closing:
        return str(closing[-1])
    started = re.findall(r"^(\S+\.py::\S.*?) *(?:PASSED|FAILED|SKIPPED|ERROR|Fatal|$)", text, re.MULTILINE)
    return process.describe(status) + (f" in {started[-1]}" if started else "")


def _tail(text: str, lines: int = 60) -> str:
    """The part of a log that matters: from pytest's failures on, else its end."""
    for heading in ("= FAILURES =", "= ERRORS =", "Fatal Python error"):
        if heading in text:
            text = heading + text.rpartition(heading)[2]
            break
    return "\n".join(text.splitlines()[-lines:])


def _shims(spec: BuildSpec, workspace: Workspace) -> Path:
    """A folder from which `import <module>` gives the artifact; many tests import the package instead of loading it."""
    folder = workspace.work(spec) / "pythonpath"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / spec.kernel.general.module
    with contextlib.suppress(FileNotFoundError):
        link.unlink()
    link.symlink_to(workspace.artifact(spec), target_is_directory=True)
    return folder


def _no_device(spec: BuildSpec) -> str | None:
    """Why a variant's tests cannot run here: a test that fails for want of a device says nothing about the kernel."""
    backend = variants.backend(spec.variant)
    if backend is Backend.METAL:
        return None if sys.platform == "darwin" else "no metal device on this machine"
    nodes = _DEVICE_NODES.get(backend, ())
    return f"no {backend} device on this machine" if nodes and not any(map(os.path.exists, nodes)) else None
