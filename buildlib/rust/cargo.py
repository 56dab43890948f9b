"""cargo's part of a build: the Rust half of an extension as a static library."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from buildlib import digest
from buildlib import variant as variants
from buildlib.errors import StepError
from buildlib.files import length, write, write_if_changed
from buildlib.plan import BuildSpec
from buildlib.process import describe
from buildlib.rust import answers, archive, images
from buildlib.rust.command import release_flags, remaps, run, rustflags, said
from buildlib.rust.crates import Crates
from buildlib.rust.toolchain import Rust
from buildlib.rust.workspace import CargoWorkspace, extension_name
from buildlib.toolchain import Toolchain
from buildlib.workspace import Workspace


class _Built(msgspec.Struct, frozen=True):
    """What librust.a was built from, and the functions that its crates export."""

    key: str
    exports: tuple[str, ...]


def build(spec: BuildSpec, workspace: Workspace) -> dict[str, str]:
    """Make `librust.a` in a spec's work folder; SHA-256 by path of what it was made from.

    Cargo runs only where these differ from the last time.

    Raises:
        StepError: a crate cannot be read, resolved or compiled.
    """
    _, _, toolchain = _parts(spec)
    library = workspace.work(spec) / "librust.a"
    record = workspace.work(spec) / "rust.json"
    hashes = _hashes_now(spec, workspace)
    if library.is_file() and _read(record).key == _key(spec, hashes):
        return hashes
    with laid_out(spec, workspace) as (cargo, hashes):
        record.unlink(missing_ok=True)
        exports = _compile(library, spec, cargo, toolchain, workspace)
        write(record, msgspec.json.encode(_Built(_key(spec, hashes), exports)))
    return hashes


@contextlib.contextmanager
def laid_out(spec: BuildSpec, workspace: Workspace) -> Iterator[tuple[CargoWorkspace, dict[str, str]]]:
    """A spec's crates as they are now, with the images of their device code, for as long as cargo's lock is held.

    Gives the Cargo workspace, and SHA-256 by path of what the spec is built from.

    Raises:
        StepError: a crate cannot be read or resolved, or device code does not compile.
    """
    crates, rust, _ = _parts(spec)
    cargo = workspace.cargo(spec)
    covered = {*workspace.inputs(spec).crates}
    # Variants share images, so that one waits here for what another makes.
    with cargo.images if crates.devices else contextlib.nullcontext():
        while True:
            with cargo.lock:
                found = cargo.use(crates, rust)
                hashes = {path: sha256 for path, sha256 in found.items() if path in covered} | workspace.pins(spec)
                outdated = images.outdated(spec, hashes, workspace)
                if not outdated:
                    images.place(spec, cargo, workspace)
                    yield cargo, hashes
                    return
                emitted = [images.emit(spec, each, cargo, workspace) for each in outdated]
            # Cargo is for others meanwhile. They, or the author, may change what is laid out, so it is looked at again.
            for each in emitted:
                images.assemble(spec, each, workspace)


def check_exports(spec: BuildSpec, library: Path, workspace: Workspace) -> None:
    """Check that a linked extension offers every function that its crates export.

    Raises:
        StepError: it lacks one, or there is none.
    """
    wanted = set(_read(workspace.work(spec) / "rust.json").exports)
    source = workspace.shown(spec.kernel.folder)
    if not wanted:
        raise StepError(
            f"{source}: its crates export no function; export one with kernelyard_rs::export! or tvm-ffi's macro"
        )
    if lost := sorted(wanted - archive.dynamic_symbols(library)):
        raise StepError(
            f"{source}: the linked extension lacks {', '.join(lost)}; this is a fault of the build, report it"
        )


def _compile(
    library: Path, spec: BuildSpec, cargo: CargoWorkspace, toolchain: Toolchain, workspace: Workspace
) -> tuple[str, ...]:
    """Build one extension's crate as a static library; the functions that its crates export.

    Each extension is a run of cargo's of its own: in one run for several, the features that one asks of a shared
    crate would reach the others, and their bytes would depend on who was built with them.
    """
    crates, rust, _ = _parts(spec)
    name = extension_name(crates.key, variants.backend(spec.variant))
    log = workspace.log("build", spec)
    before = length(log)
    answer = workspace.work(spec) / "cargo.json"
    answer.parent.mkdir(parents=True, exist_ok=True)
    argv = (
        rust.cargo, "build", "--locked", f"--package={name}", f"--target={rust.host}", f"--target-dir={cargo.target}",
        "--message-format=json-render-diagnostics", *release_flags(),
    )  # fmt: skip
    extra = rustflags(remaps(cargo.folder, workspace), rust, toolchain.compiler.path) | images.variables(
        spec, workspace
    )
    status = run(argv, cargo.root, cargo.folder, rust, log, workspace, extra, answer)
    if status != 0:
        source = workspace.shown(spec.kernel.folder)
        raise StepError(
            f"{source}: cargo for {spec.name.partition(':')[2]} failed ({describe(status)}); "
            f"the whole log is {workspace.shown(log)}\n{said(log, before)}"
        )
    made = cargo.target / rust.host / "release" / f"lib{name.replace('-', '_')}.a"
    answers.check_reads(made.with_suffix(".d"), spec, cargo, workspace)
    # A copy, and by content: cargo may bring back an older file with its older time, and ninja must see it change.
    write_if_changed(library, made.read_bytes())
    manifests = {os.path.normpath(cargo.folder / "kernels" / crates.key / each.manifest) for each in crates.crates}
    libraries = [
        Path(path)
        for message in answers.messages(answer)
        if message.reason == "compiler-artifact" and message.manifest_path in manifests
        for path in message.filenames
        if path.endswith(".rlib")
    ]
    symbols = {symbol for library in libraries for symbol in archive.symbols(library)}
    return tuple(sorted(symbol for symbol in symbols if symbol.startswith("__tvm_ffi_")))


def _hashes_now(spec: BuildSpec, workspace: Workspace) -> dict[str, str]:
    hashes = {}
    for path in workspace.inputs(spec).crates:
        info = workspace.cache.get(f"{spec.kernel.folder}/{path}")
        hashes[path] = info.sha256 if info else "missing"
    return hashes | workspace.pins(spec)


def _key(spec: BuildSpec, hashes: Mapping[str, str]) -> str:
    """A digest of all that decides about librust.a."""
    crates, rust, _ = _parts(spec)
    parts = [(part.crate.name, part.features) for part in crates.extensions[variants.backend(spec.variant)]]
    covered = [
        rust.identity,
        [(spec.toolchain.dsls[device.dsl].identity, spec.archs[device.component]) for device in crates.devices]
        if spec.toolchain
        else [],
        parts,
        tuple(release_flags()),
        digest.this_builder().rendered_from("rust"),
        sorted(hashes.items()),
    ]
    return hashlib.sha256(json.dumps(covered).encode()).hexdigest()


def _read(record: Path) -> _Built:
    try:
        return msgspec.json.decode(record.read_bytes(), type=_Built)
    except (OSError, msgspec.DecodeError):
        return _Built("", ())


def _parts(spec: BuildSpec) -> tuple[Crates, Rust, Toolchain]:
    assert spec.crates is not None
    assert spec.toolchain is not None
    assert spec.toolchain.rust is not None
    return spec.crates, spec.toolchain.rust, spec.toolchain
