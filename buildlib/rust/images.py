"""The images of device code: from device crates to what a host crate embeds.

A device language writes code for each capability, quickly; an assembler then makes machine code of it, which takes
long, in parallel, and only of what changed. What is launched together is in one fatbin, a *unit*: one entry of
cutile's, or all of nvptx's. (The driver takes one image of a fatbin, and what tileiras makes cannot be linked; and on a
GPU that is newer than the images, only what is called is compiled then.) The fatbins of a component stand one after the
other in one file; beside it is a table of the entries, in Rust.

A folder of images serves all variants of a kernel with the same device compilers and capabilities.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from buildlib import digest, environment, provision, render
from buildlib.config.model import Dsl
from buildlib.errors import StepError
from buildlib.files import write, write_if_changed
from buildlib.plan import BuildSpec
from buildlib.process import describe
from buildlib.rust import cubins, cutile, nvptx, oxide
from buildlib.rust.crates import Crates, Device
from buildlib.rust.device_code import Code, Unit
from buildlib.rust.dsl import Cutile, DeviceCompiler
from buildlib.rust.nvptx_toolchain import Nvptx
from buildlib.rust.oxide_toolchain import CudaOxide
from buildlib.rust.workspace import CargoWorkspace
from buildlib.workspace import Workspace

# Names, for host crates, the folder of `<host crate>.fatbin` and `<host crate>.rs`.
VARIABLE = "KERNELYARD_IMAGES"
_ALIGNMENT = 16
_TAIL = 40

_T = TypeVar("_T")
_R = TypeVar("_R")


class _Made(msgspec.Struct, frozen=True):
    """From what the images in a folder were made."""

    key: str


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """The code of one component, to be assembled in a folder."""

    device: Device
    compiler: DeviceCompiler
    folder: Path
    key: str
    units: tuple[Unit, ...] = ()


def outdated(spec: BuildSpec, hashes: Mapping[str, str], workspace: Workspace) -> list[Pending]:
    """The components of a spec whose images are not those of its sources, which have these hashes."""
    assert spec.crates is not None
    assert spec.toolchain is not None
    found = []
    for device in spec.crates.devices:
        compiler = spec.toolchain.dsls[device.dsl]
        key = _key(spec, spec.crates, device, compiler, hashes)
        folder = _folder(spec, device, compiler, workspace)
        record = None
        with contextlib.suppress(OSError, msgspec.DecodeError):
            record = msgspec.json.decode((folder / "made.json").read_bytes(), type=_Made)
        if record is None or record.key != key:
            found.append(Pending(device=device, compiler=compiler, folder=folder, key=key))
    return found


def emit(spec: BuildSpec, pending: Pending, cargo: CargoWorkspace, workspace: Workspace) -> Pending:
    """Have a device language write its code; the caller holds `cargo.lock`.

    Raises:
        StepError: the device code does not compile.
        UnavailableError: what it is compiled with cannot be provisioned now.
    """
    assert spec.toolchain is not None
    # A test of crates may come before any build.
    for locked in spec.toolchain.locked:
        provision.ensure(locked, workspace.settings, workspace.processes, workspace.notify)
    (pending.folder / "made.json").unlink(missing_ok=True)
    code = pending.folder / "code"
    code.mkdir(parents=True, exist_ok=True)
    match pending.compiler:
        case Cutile() as compiler:
            units = cutile.emit(spec, pending.device, compiler, code, cargo, workspace)
        case Nvptx() as compiler:
            units = nvptx.emit(spec, pending.device, compiler, code, cargo, workspace)
        case CudaOxide() as compiler:
            units = oxide.emit(spec, pending.device, compiler, code, cargo, workspace)
    if not any(unit.entries for unit in units):
        raise StepError(
            f"{workspace.shown(spec.kernel.folder)}: device code of [kernel.{pending.device.component}]: "
            "there is nothing that can be launched; write an entry, and with cutile an instance of it"
        )
    return msgspec.structs.replace(pending, units=units)


def assemble(spec: BuildSpec, pending: Pending, workspace: Workspace) -> None:
    """Make machine code of what was emitted, and the files that the host crate embeds.

    Raises:
        StepError: something cannot be assembled.
    """
    assembly = _Assembly(spec, pending, workspace)
    codes = [code for unit in pending.units for code in unit.codes]
    with ThreadPoolExecutor(max_workers=workspace.jobs.total) as pool:
        assembled = dict(zip((code.file for code in codes), _all(pool, assembly.machine_code, codes), strict=True))
        fatbins = _all(pool, lambda unit: assembly.fatbin(unit, assembled), pending.units)
    for cubin in set((pending.folder / "cubins").iterdir()) - set(assembled.values()):
        cubin.unlink()
    blob, rows = b"", []
    for unit, fatbin in zip(pending.units, fatbins, strict=True):
        blob += b"\0" * (-len(blob) % _ALIGNMENT)
        rows += [(entry, len(blob), len(fatbin)) for entry in unit.entries]
        blob += fatbin
    name = pending.device.host.name
    write_if_changed(pending.folder / f"{name}.fatbin", blob)
    table = render.text("rust/entries.rs.j2", {"rows": rows, "driver": pending.compiler.cuda})
    write_if_changed(pending.folder / f"{name}.rs", table.encode())
    write(pending.folder / "made.json", msgspec.json.encode(_Made(pending.key)))


def place(spec: BuildSpec, cargo: CargoWorkspace, workspace: Workspace) -> None:
    """Put beside the host crates what those in a layout of their own device language expect there."""
    assert spec.crates is not None
    assert spec.toolchain is not None
    for device in spec.crates.devices:
        if device.dsl is Dsl.CUDA_OXIDE:
            folder = _folder(spec, device, spec.toolchain.dsls[device.dsl], workspace)
            oxide.place(spec, device, folder / "code", cargo)


def variables(spec: BuildSpec, workspace: Workspace) -> dict[str, str]:
    """The variables by which cargo's host crates find their images, which are brought into the spec's work folder."""
    if spec.crates is None or not spec.crates.devices:
        return {}
    assert spec.toolchain is not None
    target = workspace.work(spec) / "images"
    for device in spec.crates.devices:
        folder = _folder(spec, device, spec.toolchain.dsls[device.dsl], workspace)
        for suffix in ("fatbin", "rs"):
            name = f"{device.host.name}.{suffix}"
            write_if_changed(target / name, (folder / name).read_bytes())
    return {VARIABLE: str(target)}


class _Assembly:
    """Runs the programs that make one component's images."""

    def __init__(self, spec: BuildSpec, pending: Pending, workspace: Workspace) -> None:
        self._spec = spec
        self._pending = pending
        self._workspace = workspace
        self._env = environment.child(workspace.settings)
        (pending.folder / "cubins").mkdir(exist_ok=True)

    def machine_code(self, code: Code) -> Path:
        """The cubin of some code; there already, where code of this content was assembled before."""
        made_from = f"{self._pending.compiler.identity} sm_{code.arch} ".encode() + code.file.read_bytes()
        key = hashlib.sha256(made_from).hexdigest()[:32]
        cubin = self._pending.folder / "cubins" / f"{key}.sm_{code.arch}.cubin"
        if cubin.is_file():
            return cubin
        cache = self._workspace.settings.cache
        if kept := cubins.take(cache, key):
            write(cubin, kept)
            return cubin
        making = cubin.with_suffix(".making")
        self._run(self._assembler(code, making), making.with_suffix(".log"), code.file.name)
        cubins.keep(cache, key, making.read_bytes())
        making.rename(cubin)
        return cubin

    def _assembler(self, code: Code, target: Path) -> tuple[str, ...]:
        match self._pending.compiler:
            case Cutile() as compiler:
                return cutile.assemble(compiler, code, target)
            case Nvptx() | CudaOxide() as compiler:
                return nvptx.assemble(compiler, code, target)

    def fatbin(self, unit: Unit, assembled: Mapping[Path, Path]) -> bytes:
        """A fatbin of all code of a unit: machine code first, then what drivers can compile."""
        images = [f"--image3=kind=elf,sm={code.arch},file={assembled[code.file]}" for code in unit.codes]
        images += [
            f"--image3=kind={unit.kind},sm={code.capability.replace('.', '')},file={code.file}"
            for code in unit.codes
            if code.portable
        ]
        target = self._pending.folder / f"{unit.name}.fatbin"
        # --compress-all, since the machine code of what is never called should not be paid for when loading.
        program = str(self._pending.compiler.root / "bin/fatbinary")
        argv = (program, "-64", "--compress-all", f"--create={target}", *images)
        self._run(argv, target.with_suffix(".log"), unit.name)
        content = target.read_bytes()
        target.unlink()
        return content

    def _run(self, argv: tuple[str, ...], log: Path, what: str) -> None:
        """Run a program within the budget; each has a log of its own while it runs, as several do at once."""
        log.unlink(missing_ok=True)
        workspace, spec = self._workspace, self._spec
        with workspace.jobs.slot():
            status = workspace.processes.run(argv, cwd=self._pending.folder, env=self._env, log=log)
        said = log.read_text(encoding="utf-8")
        log.unlink()
        if status != 0:
            last = "\n".join(said.splitlines()[-_TAIL:])
            raise StepError(
                f"{workspace.shown(spec.kernel.folder)}: device code of [kernel.{self._pending.device.component}]: "
                f"{Path(argv[0]).name} cannot assemble {what} ({describe(status)})\n{last}"
            )


def _all(pool: ThreadPoolExecutor, function: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """Each item's result; none is started any more once one has failed."""
    futures = [pool.submit(function, item) for item in items]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _folder(spec: BuildSpec, device: Device, compiler: DeviceCompiler, workspace: Workspace) -> Path:
    covered = json.dumps([compiler.identity, spec.archs[device.component]])
    name = f"{device.component}-{hashlib.sha256(covered.encode()).hexdigest()[:12]}"
    return workspace.build / "work" / spec.kernel.key / "images" / name


def _key(spec: BuildSpec, crates: Crates, device: Device, compiler: DeviceCompiler, hashes: Mapping[str, str]) -> str:
    """A digest of all that decides about a component's images."""
    assert spec.toolchain is not None
    assert spec.toolchain.rust is not None
    covered = [
        compiler.identity,
        spec.toolchain.rust.identity,
        spec.archs[device.component],
        digest.this_builder().rendered_from("rust"),
        digest.builder_version(),
        sorted(_of_device(crates, device, hashes)),
    ]
    return hashlib.sha256(json.dumps(covered).encode()).hexdigest()


def _of_device(crates: Crates, device: Device, hashes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The files of a device crate and of what it depends on, and what pins their versions."""
    if device.root is not None:
        below = f"{device.root}/" if device.root else ""
        return ((path, sha256) for path, sha256 in hashes.items() if path.startswith(below))
    inside = tuple(f"{crate.folder}/" for crate in crates.reach(device.crate.folder))
    roots = {
        posixpath.join(root, name) for root in (crates.own or "", "../..") for name in ("Cargo.lock", "Cargo.toml")
    }
    return ((path, sha256) for path, sha256 in hashes.items() if path in roots or path.startswith(inside))
