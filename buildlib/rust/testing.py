"""The tests of crates, with `cargo test`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from buildlib import provision
from buildlib.config.model import Dsl
from buildlib.errors import StepError
from buildlib.files import length
from buildlib.plan import BuildSpec
from buildlib.process import describe
from buildlib.rust import cutile, images
from buildlib.rust.cargo import laid_out
from buildlib.rust.command import run, rustflags, said
from buildlib.rust.crates import is_in_tiles
from buildlib.rust.dsl import Cutile
from buildlib.rust.manifest import Crate
from buildlib.rust.workspace import CargoWorkspace
from buildlib.workspace import Workspace

# The last line about the tests of one program.
_RESULT = re.compile(r"^test result: ok\. (\d+) passed; .* (\d+) ignored;", re.MULTILINE)


def test(spec: BuildSpec, tested: Sequence[Crate], log: Path, workspace: Workspace) -> tuple[int, int]:
    """Run the tests of some of a spec's crates; how many passed, and how many were ignored.

    Raises:
        StepError: a test failed or was not compiled.
        UnavailableError: what device code is compiled with cannot be provisioned now.
    """
    assert spec.crates is not None
    in_tiles = [crate for crate in tested if is_in_tiles(crate, spec.crates)]
    others = [crate for crate in tested if crate not in in_tiles]
    since = length(log)
    with laid_out(spec, workspace) as (cargo, _):
        if others:
            _test_hosts(spec, others, cargo, log, workspace)
        if in_tiles:
            _test_tiles(spec, in_tiles, cargo, log, workspace)
    counts = _RESULT.findall(said(log, since, lines=None)) if log.exists() else []
    return sum(int(passed) for passed, _ in counts), sum(int(ignored) for _, ignored in counts)


def _test_hosts(
    spec: BuildSpec, tested: Sequence[Crate], cargo: CargoWorkspace, log: Path, workspace: Workspace
) -> None:
    assert spec.crates is not None
    assert spec.toolchain is not None
    assert spec.toolchain.rust is not None
    toolchain, rust, names = spec.toolchain, spec.toolchain.rust, [crate.name for crate in tested]
    parts = [part for parts in spec.crates.extensions.values() for part in parts if part.crate.name in names]
    features = [f"{part.crate.name}/{feature}" for part in parts for feature in part.features]
    # Tests are programs of their own, which nobody loads libtvm_ffi for.
    found = [f"-Clink-arg=-Wl,-rpath,{Path(path).parent}" for each in toolchain.libraries for path in each.libraries]
    extra = {
        **rustflags(found, rust, toolchain.compiler.path),
        "CARGO_ENCODED_RUSTDOCFLAGS": "\x1f".join(found),
        **images.variables(spec, workspace),
    }
    more = (f"--target-dir={cargo.target}", *((f"--features={','.join(features)}",) if features else ()))
    _run(spec, names, more, extra, cargo, log, workspace)


def _test_tiles(
    spec: BuildSpec, tested: Sequence[Crate], cargo: CargoWorkspace, log: Path, workspace: Workspace
) -> None:
    """Crates over those of cutile, which are compiled as for emitters, once for both."""
    assert spec.toolchain is not None
    compiler = spec.toolchain.dsls[Dsl.CUTILE]
    assert isinstance(compiler, Cutile)
    for locked in compiler.locked:
        provision.ensure(locked, workspace.settings, workspace.processes, workspace.notify)
    with cutile.shared_target(spec, compiler, workspace) as (target, extra):
        _run(spec, [crate.name for crate in tested], (*target, *cutile.profile()), extra, cargo, log, workspace)


def _run(
    spec: BuildSpec,
    names: Sequence[str],
    more: Sequence[str],
    extra: Mapping[str, str],
    cargo: CargoWorkspace,
    log: Path,
    workspace: Workspace,
) -> None:
    assert spec.toolchain is not None
    assert spec.toolchain.rust is not None
    rust = spec.toolchain.rust
    since = length(log)
    argv = (rust.cargo, "test", "--locked", *(f"--package={name}" for name in names), *more)
    status = run(argv, cargo.root, cargo.folder, rust, log, workspace, extra)
    if status != 0:
        shown = workspace.shown(log)
        raise StepError(
            f"cargo test of {', '.join(names)}: {describe(status)}; the whole log is {shown}\n{said(log, since)}"
        )
