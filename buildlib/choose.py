"""What a variant is built with, of all that this machine has or can have. Pure; a part of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from buildlib.config.model import Component, Dsl, RustCuda
from buildlib.cuda import Cuda
from buildlib.rust.dsl import DeviceCompiler
from buildlib.toolchain import RUNTIME, Host, Library, Toolchain, Torch, runtime
from buildlib.variant import Backend, Compute, TorchStableAbiVariant, TorchVariant, TvmFfiVariant, Variant, Version


class Missing(msgspec.Struct, frozen=True):
    """What every machine that builds must have and this one has not: a failure, and not a variant to skip."""

    what: str


def toolchain(
    variant: Variant,
    compute: Compute,
    components: Sequence[Component],
    host: Host,
    channel: str | None = None,
    *,
    own_sources: bool = True,
) -> Toolchain | Missing | str:
    """What a variant's components are built with, or why they cannot be; `channel` is that of its Rust, if any.

    `own_sources` is whether there are sources in C++ beside those of the components.
    """
    chosen = _toolchain(variant, compute, host, channel)
    if isinstance(chosen, Toolchain) and compute.backend is Backend.CUDA:
        chosen = _with_dsls(chosen, compute, components, host)
    if isinstance(chosen, Toolchain) and not own_sources and all(map(_needs_no_toolkit, components)):
        chosen = _without_toolkit(chosen)
    if isinstance(chosen, Toolchain) and compute.backend is Backend.CUDA:
        chosen = _with_depends(chosen, components, host)
    if isinstance(chosen, Toolchain):
        return next((host.lacking[each.id] for each in chosen.locked if each.id in host.lacking), chosen)
    return chosen


def _toolchain(variant: Variant, compute: Compute, host: Host, channel: str | None) -> Toolchain | Missing | str:
    """The same, less what components depend on."""
    rust = host.rust[channel] if channel is not None else None
    if isinstance(rust, str):
        return rust
    if isinstance(host.compiler, str):
        return Missing(host.compiler)
    toolkit = host.cuda.get(compute.version) if compute.version else None
    if isinstance(toolkit, Cuda) and (refused := toolkit.refuses(host.compiler.family, host.compiler.version)):
        return refused
    locked = [toolkit.locked] if isinstance(toolkit, Cuda) and toolkit.locked else []
    # Only an extension that Python imports may include Python.h, so only its artifact depends on Python's headers.
    others: tuple[Library, ...] = ()
    headers: tuple[str, ...] = ()
    if isinstance(variant, TvmFfiVariant):
        library = _tvm_ffi(variant, host)
    else:
        torch = _torch(variant, compute, host, toolkit)
        if isinstance(torch, Torch) and torch.locked:
            locked.append(torch.locked)
        library = torch.library(with_cuda=toolkit is not None) if isinstance(torch, Torch) else torch
        if isinstance(torch, Torch) and isinstance(variant, TorchVariant):
            headers = torch.cuda_headers
        others = (host.python,)
    if not isinstance(library, Library):
        return library
    return Toolchain(
        compiler=host.compiler,
        libraries=(library, *others, *([runtime(toolkit, headers)] if isinstance(toolkit, Cuda) else [])),
        portability=host.portability,
        rust=rust,
        cmake=host.cmake,
        ninja=host.ninja,
        cuda=toolkit if isinstance(toolkit, Cuda) else None,
        locked=tuple(locked),
    )


def _with_dsls(chosen: Toolchain, compute: Compute, components: Iterable[Component], host: Host) -> Toolchain | str:
    """A toolchain with the compilers of the components' device languages, or why one cannot be had."""
    dsls: dict[Dsl, DeviceCompiler] = {}
    locked = list(chosen.locked)
    for dsl in dict.fromkeys(part.dsl for part in components if isinstance(part, RustCuda)):
        found = host.dsls[dsl]
        if isinstance(found, str):
            return found
        if compute.version is not None and (refused := found.refuses(compute.version)):
            return refused
        dsls[dsl] = found.beside(chosen.cuda) if chosen.cuda else found
        locked += found.locked
    return msgspec.structs.replace(chosen, dsls=dsls, locked=tuple(locked))


def _needs_no_toolkit(component: Component) -> bool:
    # cutile has an assembler of its own, and its host crates find the driver by themselves.
    return isinstance(component, RustCuda) and component.dsl is Dsl.CUTILE


def _without_toolkit(chosen: Toolchain) -> Toolchain:
    """The same where nothing is compiled with CUDA's compiler or against its headers: it need not even be there."""
    toolkit = chosen.cuda.locked if chosen.cuda else None
    return msgspec.structs.replace(
        chosen,
        libraries=tuple(library for library in chosen.libraries if library.name != RUNTIME),
        locked=tuple(each for each in chosen.locked if each != toolkit),
    )


def _with_depends(chosen: Toolchain, components: Iterable[Component], host: Host) -> Toolchain | str:
    """A toolchain with what components depend on beside their framework, or why that cannot be had."""
    names = dict.fromkeys(name for part in components for name in part.depends if name != "torch")
    libraries, locked = list(chosen.libraries), list(chosen.locked)
    for name in names:
        found = host.depends.get(name, f"{name} is not in toolchains/deps.toml")
        if isinstance(found, str):
            return found
        libraries.append(Library(name=found.name, version=found.version, includes=found.includes))
        locked += [found.locked] if found.locked else []
    return msgspec.structs.replace(chosen, libraries=tuple(libraries), locked=tuple(locked))


def _tvm_ffi(variant: TvmFfiVariant, host: Host) -> Library | Missing | str:
    if isinstance(host.tvm_ffi, str):
        return Missing(host.tvm_ffi)
    if Version.parse(host.tvm_ffi.version) != variant.tvm_ffi:
        return f"needs tvm-ffi {variant.tvm_ffi}; this environment has {host.tvm_ffi.version}"
    return host.tvm_ffi


def _torch(variant: Variant, compute: Compute, host: Host, toolkit: Cuda | str | None) -> Torch | Missing | str:
    """The torch that a variant is built against: this environment's, or one that can be provisioned."""
    present = host.torch
    if isinstance(present, str):
        return Missing(present)
    found = f"this environment has {present.version}"
    if isinstance(variant, TorchStableAbiVariant):
        if Version.parse(present.version) < variant.abi:
            return f"needs torch {variant.abi} or newer; {found}"
        # Any will do: the C functions that such an extension calls are the same in all of them.
        if compute.backend is Backend.CUDA and present.cuda is None:
            return f"needs a torch with CUDA; {found}"
        return present
    assert isinstance(variant, TorchVariant)
    if compute.backend is Backend.CUDA:
        complete = isinstance(toolkit, Cuda) and toolkit.has_libraries
        return _torch_with_cuda(variant, compute, (present, *host.torches), complete=complete) or (
            f"needs torch {variant.torch} for CUDA {compute.version}; {found}"
        )
    return present if Version.parse(present.version) == variant.torch else f"needs torch {variant.torch}; {found}"


def _torch_with_cuda(
    variant: TorchVariant, compute: Compute, torches: Iterable[Torch], *, complete: bool
) -> Torch | str | None:
    """The first torch that is of a variant's release and of its CUDA: its headers and libraries follow both.

    `complete` says that the toolkit has the headers of CUDA's libraries itself.
    """
    for torch in torches:
        if Version.parse(torch.version) == variant.torch and torch.cuda == str(compute.version):
            if torch.cuda_headers or complete:
                return torch
            packages = f"cuda-toolkit[cublas,cusparse,cusolver,curand]=={compute.version}.*"
            return f"torch's headers need those of CUDA's libraries; install them with 'pip install \"{packages}\"'"
    return None
