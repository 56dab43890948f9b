"""Stage 4: kernels × variants → what to build, what is skipped, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from buildlib import capability, choose
from buildlib import variant as variants
from buildlib.config.model import BACKENDS, Component, CppCuda, Kernel, RustCuda, Torch, TorchNoarch, TvmFfi
from buildlib.cuda import Cuda
from buildlib.matrix import Matrix, Row
from buildlib.rust.crates import Crates
from buildlib.toolchain import Host, Toolchain
from buildlib.variant import (
    Backend,
    Compute,
    TorchNoarchVariant,
    TorchStableAbiVariant,
    TorchVariant,
    TvmFfiVariant,
    Variant,
    Version,
)


class BuildSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel × variant: all that a build needs. `toolchain` is None where nothing is compiled.

    `archs` are the CUDA capabilities that each component is compiled for, by its name, with those of the framework's
    own sources under "". `dropped` are those that it asks for in vain. `narrowed` are the only devices that the
    developer wants code for; such an artifact is not for others.
    """

    kernel: Kernel
    variant: Variant
    components: tuple[Component, ...]
    toolchain: Toolchain | None
    archs: dict[str, tuple[str, ...]] = {}
    dropped: dict[str, tuple[str, ...]] = {}
    narrowed: tuple[str, ...] = ()
    # Of the components in Rust; None where there is none.
    crates: Crates | None = None

    @property
    def name(self) -> str:
        """`<kernel>:<variant>`, the second half of the spec's task names."""
        return name(self)

    @property
    def notes(self) -> tuple[str, ...]:
        """What its author should know although it is no fault."""
        dropped = (
            f"[kernel.{component}] is not compiled for {', '.join(values)}: this CUDA cannot, or another serves it"
            for component, values in self.dropped.items()
        )
        cuda = self.toolchain.cuda if self.toolchain else None
        return (*dropped, *([cuda.note] if cuda and cuda.note else []))


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A variant that exists but that this machine does not build, or a backend that has no variant at all."""

    kernel: str
    variant: Variant | Backend
    reason: str


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel, or one of its variants, that cannot be planned; the message is for the user."""

    kernel: str
    variant: Variant | None = None
    message: str


Entry = BuildSpec | Skipped | Failed


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for every kernel × variant of the matrix, in the order of kernels and variants."""

    specs: tuple[BuildSpec, ...]
    skipped: tuple[Skipped, ...]
    failed: tuple[Failed, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (*self.specs, *self.skipped, *self.failed)


def plan(
    kernels: Sequence[Kernel],
    broken: Iterable[Failed],
    matrix: Matrix,
    host: Host,
    crates: Mapping[str, Crates] | None = None,
    *,
    narrow: tuple[str, ...] = (),
) -> Plan:
    """Decide about every variant of every kernel.

    `broken` are the kernels that could not be loaded, `crates` those of the kernels with components in Rust, by key,
    and `narrow` the only CUDA devices to compile for, all where there are none.
    """
    clashes = tuple(_clashes(kernels))
    refused = {clash.kernel for clash in clashes}
    specs, skipped, failed = [], [], [*broken, *clashes]
    for kernel in kernels:
        if kernel.key in refused:
            continue
        for outcome in _variants(kernel, matrix, host, (crates or {}).get(kernel.key), narrow):
            match outcome:
                case BuildSpec():
                    specs.append(outcome)
                case Skipped():
                    skipped.append(outcome)
                case Failed():
                    failed.append(outcome)
    return Plan(specs=tuple(specs), skipped=tuple(skipped), failed=tuple(failed))


def name(entry: Entry) -> str:
    """`<kernel>:<variant>`, or `<kernel>` for one that could not be planned at all."""
    kernel = entry.kernel.key if isinstance(entry, BuildSpec) else entry.kernel
    match entry.variant:
        case None:
            return kernel
        case Backend() as backend:
            return f"{kernel}:{backend}"
        case variant:
            return f"{kernel}:{variants.name(variant)}"


def hub_target(kernel: Kernel) -> tuple[str, str] | None:
    """The repository and the branch that a kernel is published to, or None where it names no repository."""
    hub = kernel.general.hub
    return (hub.repo_id, hub.branch or f"v{kernel.general.version}") if hub.repo_id else None


def _clashes(kernels: Sequence[Kernel]) -> Iterator[Failed]:
    """Kernels that would overwrite each other on the Hub."""
    by_target: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in kernels:
        if target := hub_target(kernel):
            by_target.setdefault(target, []).append(kernel)
    for (repo_id, branch), group in by_target.items():
        if len(group) == 1:
            continue
        for kernel in group:
            others = ", ".join(f"kernels/{other.key}" for other in group if other is not kernel)
            yield Failed(
                kernel=kernel.key,
                message=f"kernels/{kernel.key}/build.toml: [general.hub] repo-id and [general] version: published to "
                f"{repo_id}, branch {branch}, as is {others}; change the repo-id, the version or the branch of one",
            )


def _variants(
    kernel: Kernel, matrix: Matrix, host: Host, crates: Crates | None, narrow: tuple[str, ...]
) -> Iterator[Entry]:
    compiled = {BACKENDS[type(component)] for component in kernel.components}
    found: list[tuple[Variant, Row]] = []
    match kernel.framework:
        case TorchNoarch():
            compiled = set()
        case Torch(stable_abi=stable_abi):
            found = [
                (variant, row)
                for variant, row in _torch_variants(kernel, stable_abi, matrix.torch)
                if row.compute.backend in compiled
            ]
        case TvmFfi():
            compiled = set(Backend)
            found = [
                (TvmFfiVariant(tvm_ffi=row.version, compute=row.compute, platform=row.platform), row)
                for row in _declared(kernel, matrix.tvm_ffi)
            ]
    yield from (_compiled(kernel, variant, row, host, crates, narrow) for variant, row in found)
    planned = {row.compute.backend for _, row in found}
    # A backend for which a [torch] kernel has no component is served by its Python package alone, as upstream does.
    for backend in dict.fromkeys(kernel.general.backends):
        if backend in planned:
            continue
        if backend in compiled:
            yield Skipped(kernel=kernel.key, variant=backend, reason=_no_row(kernel, backend))
        else:
            yield BuildSpec(kernel=kernel, variant=TorchNoarchVariant(backend=backend), components=(), toolchain=None)


def _no_row(kernel: Kernel, backend: Backend) -> str:
    framework = kernel.framework
    abi = framework.stable_abi.get(backend) if isinstance(framework, Torch) else None
    newer = f" for the stable ABI of torch {abi}" if abi else ""
    return f"toolchains/variants.toml has no {backend} variant{newer}"


def _declared(kernel: Kernel, rows: Iterable[Row]) -> Iterator[Row]:
    return (row for row in rows if row.compute.backend in kernel.general.backends)


def _torch_variants(
    kernel: Kernel, stable_abi: dict[Backend, Version], rows: Iterable[Row]
) -> Iterator[tuple[Variant, Row]]:
    """The variants of a [torch] kernel, each with the newest row that can make it.

    A stable-ABI variant is the same for all torch releases from its ABI version on, so it appears once.
    """
    newest: dict[Variant, Row] = {}
    for row in _declared(kernel, rows):
        abi = stable_abi.get(row.compute.backend)
        if abi is None:
            newest[TorchVariant(torch=row.version, compute=row.compute, platform=row.platform)] = row
        elif row.version >= abi:
            variant = TorchStableAbiVariant(abi=abi, compute=row.compute, platform=row.platform)
            # The newest release, but one that build.toml's own bounds allow comes first.
            best = newest.get(variant)
            if best is None or _rank(kernel, best) < _rank(kernel, row):
                newest[variant] = row
    yield from newest.items()


def _rank(kernel: Kernel, row: Row) -> tuple[bool, Version]:
    return _out_of_bounds(kernel, row) is None, row.version


def _compiled(
    kernel: Kernel, variant: Variant, row: Row, host: Host, crates: Crates | None, narrow: tuple[str, ...]
) -> Entry:
    """The outcome for a variant with an extension."""
    if reason := _out_of_bounds(kernel, row) or _unavailable(row, host):
        return Skipped(kernel=kernel.key, variant=variant, reason=reason)
    components = _components(kernel, row.compute)
    crates = crates.of(row.compute.backend) if crates and row.compute.backend in crates.extensions else None
    framework = kernel.framework
    own_sources = not isinstance(framework, TorchNoarch) and bool(framework.src)
    channel = crates.channel if crates else None
    chosen = choose.toolchain(variant, row.compute, components, host, channel, own_sources=own_sources)
    if isinstance(chosen, choose.Missing):
        return Failed(kernel=kernel.key, variant=variant, message=f"kernels/{kernel.key}: {chosen.what}")
    if isinstance(chosen, str):
        return Skipped(kernel=kernel.key, variant=variant, reason=chosen)
    spec = BuildSpec(kernel=kernel, variant=variant, components=components, toolchain=chosen, crates=crates)
    if chosen.cuda is None:
        return spec
    spec = msgspec.structs.replace(spec, narrowed=narrow)
    choices = _archs(spec, chosen.cuda)
    if isinstance(choices, str):
        return Failed(kernel=kernel.key, variant=variant, message=f"kernels/{kernel.key}/build.toml: {choices}")
    return msgspec.structs.replace(
        spec,
        archs={name: choice.chosen for name, choice in choices.items()},
        dropped={name: choice.dropped for name, choice in choices.items() if choice.dropped},
    )


def _archs(spec: BuildSpec, toolkit: Cuda) -> dict[str, capability.Choice] | str:
    """The CUDA capabilities of each part that has any, or what is wrong with one."""
    asked = {part.name: part.cuda_capabilities for part in spec.components if isinstance(part, CppCuda | RustCuda)}
    framework = spec.kernel.framework
    if isinstance(framework, Torch | TvmFfi) and any(path.endswith(".cu") for path in framework.src):
        asked[""] = ()
    dsls = spec.toolchain.dsls if spec.toolchain else {}
    compilers = {part.name: dsls[part.dsl] for part in spec.components if isinstance(part, RustCuda)}
    choices = {}
    for name, values in asked.items():
        where = f"[kernel.{name}] cuda-capabilities"
        if strange := capability.unknown(values):
            return f"{where}: no version of CUDA compiles for {', '.join(map(repr, strange))}; remove or correct it"
        compiler = compilers.get(name)
        if compiler and (wrong := compiler.wrong(values)):
            return f"{where}: {wrong}"
        choice = capability.choose(values, toolkit.version, spec.narrowed)
        if compiler:
            choice = msgspec.structs.replace(choice, chosen=compiler.made(choice.chosen))
        choices[name] = choice
        if not choice.chosen:
            narrowed = f" for {', '.join(spec.narrowed)}" if spec.narrowed else ""
            return (
                f"{where}: CUDA {toolkit.version} can compile none of {', '.join(values) or 'the default ones'}"
                f"{narrowed}; add one that it can, or set cuda-minver"
            )
    return choices


def _components(kernel: Kernel, compute: Compute) -> tuple[Component, ...]:
    """The components that take part: those of the backend, less those that ask for a newer CUDA."""
    return tuple(
        component
        for component in kernel.components
        if BACKENDS[type(component)] is compute.backend
        and not (
            isinstance(component, CppCuda)
            and component.cuda_minver is not None
            and compute.version is not None
            and compute.version < component.cuda_minver
        )
    )


def _out_of_bounds(kernel: Kernel, row: Row) -> str | None:
    """Why build.toml itself excludes a row."""
    framework = kernel.framework
    if isinstance(framework, Torch) and (reason := _bounds("torch", row.version, framework.minver, framework.maxver)):
        return reason
    general = kernel.general.by_backend.get(row.compute.backend)
    if general is None or row.compute.version is None:
        return None
    return _bounds(f"general.{row.compute.backend}", row.compute.version, general.minver, general.maxver)


def _bounds(table: str, version: Version, minver: Version | None, maxver: Version | None) -> str | None:
    if minver is not None and version < minver:
        return f"build.toml asks for [{table}] minver {minver}"
    if maxver is not None and version > maxver:
        return f"build.toml asks for [{table}] maxver {maxver}"
    return None


def _unavailable(row: Row, host: Host) -> str | None:
    """Why this machine cannot make what a row stands for, whatever the Python environment has."""
    if row.platform is not host.platform:
        return f"for {row.platform} machines; this one is {host.platform or 'of an unknown platform'}"
    if row.compute.backend is Backend.CUDA:
        toolkit = host.cuda.get(row.compute.version) if row.compute.version else None
        if not isinstance(toolkit, Cuda):
            return toolkit or f"no toolchain for {row.compute} on this machine"
    elif row.compute.backend is not Backend.CPU:
        return f"no toolchain for {row.compute} on this machine"
    return None
