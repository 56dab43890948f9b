"""Stage 6: a build spec → an artifact.

Sources are laid out in the spec's work folder, cargo makes a library of the Rust half, and CMake compiles and links.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from buildlib import environment, interface, nvcc_job, package, portable, process, provenance, provision, render
from buildlib.digest import extension_id, spec_digest
from buildlib.errors import StepError, UnavailableError
from buildlib.files import inspect, length, write, write_if_changed
from buildlib.inputs import package_folder
from buildlib.interface import Interface
from buildlib.layout import lay_out, read, sweep
from buildlib.package import Artifact, Metadata
from buildlib.plan import BuildSpec
from buildlib.provenance import Provenance
from buildlib.rust import cargo
from buildlib.rust.crates import SHARED
from buildlib.toolchain import Toolchain
from buildlib.variant import TvmFfiVariant
from buildlib.workspace import Workspace

_LOG_TAIL = 40


# Stands for the extension's name in texts that are rendered once for all contents.
_NAME = "kernelyard_extension_name"


class _Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """What a spec is rendered to, less its content: `project` by path, and in `named` the texts that hold `_NAME`.

    Kept in the work folder under a key of all that it depends on: an edit of a source then needs no Jinja, whose import
    alone would be a good part of the time that the builder adds to the compiler's.
    """

    key: str
    project: dict[str, str]
    named: dict[str, str]


class _Configured(msgspec.Struct, frozen=True, kw_only=True):
    """What a CMake build folder was configured with; on any difference it is made anew."""

    argv: tuple[str, ...]
    toolchain: tuple[str, ...]


def up_to_date(spec: BuildSpec, workspace: Workspace) -> bool:
    """Whether the artifact is there, whole, and made from what the sources and the toolchain are now."""
    return stale(spec, workspace) is None


def stale(spec: BuildSpec, workspace: Workspace) -> str | None:
    """Why the artifact is to be made, or made again, as a sentence; None where it is up to date."""
    folder = workspace.artifact(spec)
    metadata = package.read(folder)
    if metadata is None:
        return f"There is no artifact in {workspace.shown(folder)}."
    if metadata.kernelyard.digest != workspace.digest(spec):
        return "The sources, build.toml, the builder or the toolchain are not those that the artifact was made from."
    if damage := package.damage(folder, metadata, workspace.cache):
        return f"The artifact is not whole: {damage[0]}."
    if _dirt_is_gone(spec, workspace, metadata):
        return "The artifact was made before its sources were committed."
    return None


def build(spec: BuildSpec, workspace: Workspace) -> Artifact:
    """Make a spec's artifact.

    Raises:
        UnavailableError: a toolchain cannot be provisioned now.
        ToolchainError: a toolchain cannot be provisioned for a reason that the user can mend.
        StepError: a source cannot be read, or CMake, the compiler or the linker failed.
    """
    _provision(spec, workspace)
    work = workspace.work(spec)
    log = workspace.log("build", spec)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    workspace.look_again(spec.kernel)
    inputs = workspace.inputs(spec)
    for path in inputs.all:
        # Neither metadata.json nor CMake could name it; Python shows its odd bytes as escapes.
        if not path.isascii() and path != path.encode(errors="replace").decode():
            shown = f"{workspace.shown(spec.kernel.folder)}/{path.encode(errors='backslashreplace').decode()}"
            raise StepError(f"{shown}: the name of this file is not UTF-8; rename it")
    prefix = package_folder(spec.kernel) + "/"
    files = {path.removeprefix(prefix): read(spec.kernel.folder / path, workspace) for path in inputs.package}
    if package.METADATA in files:
        where = f"{workspace.shown(spec.kernel.folder)}/{prefix}{package.METADATA}"
        raise StepError(f"{where}: the artifact has a file of this name already; rename this one")
    if "__init__.py" not in files:
        raise StepError(f"{workspace.shown(spec.kernel.folder)}/{prefix}__init__.py: missing; every kernel needs it")
    hashes = {prefix + path: inspect(content, "").sha256 for path, content in files.items()}
    sweep(work / "src", inputs.sources, workspace)
    hashes |= lay_out(inputs.sources, spec.kernel.folder, work / "src", workspace)
    if spec.crates is not None:
        hashes |= cargo.build(spec, workspace)
    digest = spec_digest(spec, hashes)
    name = extension_id(spec, digest)
    rendered = _render(spec, workspace)
    named = {path: text.replace(_NAME, name) for path, text in rendered.named.items()}
    files["_ops.py"] = named.pop("_ops.py").encode()
    extension = None
    if spec.toolchain is not None:
        extension = _compile(spec, spec.toolchain, workspace, rendered.project, named)
    if spec.crates is not None and extension is not None:
        cargo.check_exports(spec, extension, workspace)
    return package.package(
        spec,
        digest=digest,
        extension_id=name,
        files=files,
        extension=extension,
        interface=_interface(spec, workspace, files, extension),
        provenance=_provenance(spec, workspace),
        work=work,
        target=workspace.artifact(spec),
    )


def remove(spec: BuildSpec, workspace: Workspace, *, dryrun: bool) -> bool:
    """Remove all that was made of a spec; whether there was anything."""
    logs, reports = workspace.log("build", spec).parent, workspace.report("check", spec).parent
    layouts = [] if spec.crates is None else workspace.cargo(spec).layouts(spec.crates)
    made = [path for path in (workspace.work(spec), workspace.artifact(spec), logs, reports, *layouts) if path.exists()]
    for path in made:
        if not dryrun:
            shutil.rmtree(path)
    return bool(made)


def _interface(
    spec: BuildSpec, workspace: Workspace, package_files: Mapping[str, bytes], extension: Path | None
) -> Interface:
    sources = workspace.work(spec) / "src"
    texts = (read(sources / path, workspace) for path in workspace.inputs(spec).sources)
    library = extension.read_bytes() if extension and isinstance(spec.variant, TvmFfiVariant) else None
    return interface.of(package_files, texts, library)


def _provision(spec: BuildSpec, workspace: Workspace) -> None:
    for locked in spec.toolchain.locked if spec.toolchain else ():
        try:
            provision.ensure(locked, workspace.settings, workspace.processes, workspace.notify)
        except UnavailableError as error:
            workspace.unavailable[spec.name] = str(error)
            raise


def _dirt_is_gone(spec: BuildSpec, workspace: Workspace, metadata: Metadata) -> bool:
    """Whether an artifact made from uncommitted sources could now name a commit: the sources were committed since."""
    recorded = metadata.provenance.kernel
    if recorded is not None and not recorded.dirty:
        return False
    changed = workspace.changed_kernels
    parts = {spec.kernel.key, *((SHARED,) if spec.crates and spec.crates.shared else ())}
    if changed is None or changed & parts:
        return False
    return recorded is not None or _provenance(spec, workspace) is not None


def _provenance(spec: BuildSpec, workspace: Workspace) -> Provenance | None:
    beside = spec.crates.shared if spec.crates else ()
    return provenance.of(spec.kernel.folder, environment.child(workspace.settings), beside)


def _render(spec: BuildSpec, workspace: Workspace) -> _Rendered:
    inputs = workspace.inputs(spec)
    key = f"{spec_digest(spec, {})} {sorted(inputs.spell_name)}"
    record = workspace.work(spec) / "rendered.json"
    with contextlib.suppress(OSError, msgspec.DecodeError):
        known = msgspec.json.decode(record.read_bytes(), type=_Rendered)
        if known.key == key:
            return known
    project, named = {}, {"_ops.py": render.ops_module(spec, _NAME)}
    if spec.toolchain is not None:
        project = render.project(spec, inputs)
        named |= render.extension_name(spec, _NAME)
    rendered = _Rendered(key=key, project=project, named=named)
    write(record, msgspec.json.encode(rendered))
    return rendered


def _compile(
    spec: BuildSpec, toolchain: Toolchain, workspace: Workspace, project: dict[str, str], named: dict[str, str]
) -> Path:
    """The extension's library, compiled and linked; `project` decides about configuring, `named` does not."""
    work = workspace.work(spec)
    changed = [write_if_changed(work / path, text.encode()) for path, text in project.items()]
    for path, text in named.items():
        write_if_changed(work / path, text.encode())
    with workspace.jobs.slot():
        _configure(spec, toolchain, workspace, changed=any(changed))
        _step(spec, workspace, "compile", (toolchain.ninja,), workspace.jobs.environ())
    return work / "cmake" / "extension.so"


def _configure(spec: BuildSpec, toolchain: Toolchain, workspace: Workspace, *, changed: bool) -> None:
    folder = workspace.work(spec) / "cmake"
    includes = ";".join(path for library in toolchain.libraries for path in library.includes)
    libraries = ";".join(path for library in toolchain.libraries for path in library.libraries)
    stand_ins: tuple[str, ...] = ()
    if limits := toolchain.portability:
        made = portable.stand_ins(toolchain.compiler, limits.symbol_versions, workspace.settings, workspace.processes)
        stand_ins = (f"-DKERNELYARD_STAND_INS={made}",)
    argv = (
        toolchain.cmake, "-G", "Ninja", "-S", "..", "-B", ".", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_MAKE_PROGRAM={toolchain.ninja}", f"-DCMAKE_CXX_COMPILER={toolchain.compiler.path}",
        f"-DKERNELYARD_INCLUDES={includes}", f"-DKERNELYARD_LIBRARIES={libraries}", *stand_ins, *_nvcc(toolchain),
    )  # fmt: skip
    wanted = _Configured(argv=argv, toolchain=toolchain.identity)
    record = folder / "configured.json"
    present = None
    with contextlib.suppress(OSError, msgspec.DecodeError):
        present = msgspec.json.decode(record.read_bytes(), type=_Configured)
    if present == wanted and not changed:
        return
    if present != wanted:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    _step(spec, workspace, "configure", argv, {})
    write(record, msgspec.json.encode(wanted))
    workspace.configured = True


def _nvcc(toolchain: Toolchain) -> tuple[str, ...]:
    """What tells a project of CUDA's compiler, and of what runs it within the budget of jobs."""
    if toolchain.cuda is None:
        return ()
    job = (sys.executable, "-I", "-S", str(Path(nvcc_job.__file__)))
    return f"-DKERNELYARD_NVCC={toolchain.cuda.root / 'bin/nvcc'}", f"-DKERNELYARD_NVCC_JOB={';'.join(job)}"


def _step(spec: BuildSpec, workspace: Workspace, step: str, argv: tuple[str, ...], extra: Mapping[str, str]) -> None:
    """Run one program of a build in the CMake folder.

    Raises:
        StepError: it failed; the message holds what the program said about the author's files.
    """
    work = workspace.work(spec)
    log = workspace.log("build", spec)
    source = workspace.shown(spec.kernel.folder)
    before = length(log)
    status = workspace.processes.run(
        argv,
        cwd=work / "cmake",
        env=environment.child(workspace.settings, **extra),
        log=log,
        pass_fds=workspace.held,
        # nvcc is given paths that are relative to the build folder.
        rename={f"{work}/src": source, "../src/": f"{source}/"},
    )
    if status != 0:
        said = _message(log.read_bytes()[before:].decode("utf-8"))
        raise StepError(
            f"{source}: {step} for {spec.name.partition(':')[2]} failed ({process.describe(status)}); "
            f"the whole log is {workspace.shown(log)}\n{said}"
        )


def _message(said: str) -> str:
    """The end of what a program said, less ninja's own lines: its progress, and the command it ran."""
    kept = []
    after_failed = False
    for line in said.splitlines():
        if line.startswith("FAILED: "):
            after_failed = True
        elif after_failed:
            after_failed = False
        elif not line.startswith(("[", "ninja: ")):
            kept.append(line)
    return "\n".join(kept[-_LOG_TAIL:])
