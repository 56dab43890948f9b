"""What decides whether something changed: digests of content. Pure, but for the templates' content."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import assert_never

import msgspec

from buildlib import variant as variants
from buildlib.config.model import Framework, KernelDepend, Torch, TorchNoarch, TvmFfi
from buildlib.plan import BuildSpec
from buildlib.variant import Backend, TorchNoarchVariant, TorchStableAbiVariant, TorchVariant, TvmFfiVariant

TEMPLATES = Path(__file__).parent / "templates"
# The parts of what a digest covers, in the words in which a change of it is explained.
PARTS = ("build.toml", "sources", "shared crate", "Cargo.lock", "templates", "builder", "toolchain")
# Enough hex digits that two builds of one kernel, which would have to be loaded into one process, do not meet.
_ID_DIGITS = 8


class Builder(msgspec.Struct, frozen=True, kw_only=True):
    """What of a builder decides the content of artifacts: its version, and SHA-256 by path below its templates/."""

    version: str
    templates: dict[str, str]

    def rendered_from(self, *folders: str) -> list[str]:
        """The name and content of each template in some folders of them."""
        paths = sorted(path for path in self.templates if path.partition("/")[0] in folders)
        return [f"{path} {self.templates[path]}" for path in paths]


def spec_digest(spec: BuildSpec, hashes: Mapping[str, str], builder: Builder | None = None) -> str:
    """The digest of all that decides the content of a spec's artifact, in hex.

    It covers build.toml as parsed (less what only matters to publishing and to other backends), the inputs by path and
    content (`hashes`: SHA-256 by path relative to the kernel's folder), the templates and version of the builder (of
    this one, unless another is given), and the toolchain's identity. No absolute path and no time enters.
    """
    return _sha256(_covered(spec, hashes, builder or this_builder()))


def part_digests(spec: BuildSpec, hashes: Mapping[str, str], builder: Builder | None = None) -> dict[str, str]:
    """A short digest for each of `PARTS`, by which two digests of one kernel × variant tell what differs."""
    return {part: _sha256(value)[:16] for part, value in _covered(spec, hashes, builder or this_builder()).items()}


def _covered(spec: BuildSpec, hashes: Mapping[str, str], builder: Builder) -> dict[str, object]:
    general = spec.kernel.general
    outside = [item for item in hashes.items() if item[0].startswith("../")]
    return {
        "build.toml": {
            "general": [general.name, general.version, general.license, general.upstream, general.source],
            "python-depends": python_depends(spec),
            "kernel-depends": kernel_depends(spec),
            "framework": _framework(spec),
            "archs": archs(spec),
            "components": spec.components,
            "capabilities": spec.archs,
            "variant": variants.name(spec.variant),
        },
        "sources": sorted(item for item in hashes.items() if not item[0].startswith("../")),
        # A kernel reads nothing outside of its folder but the crates that kernels share, and what pins their versions.
        "shared crate": sorted(item for item in outside if not item[0].startswith("../../")),
        "Cargo.lock": sorted(item for item in outside if item[0].startswith("../../")),
        "templates": builder.rendered_from(
            *(("common",) if spec.toolchain else ()), family(spec), *(("rust",) if spec.crates else ())
        ),
        "builder": builder.version,
        "toolchain": spec.toolchain.identity if spec.toolchain else None,
    }


def _sha256(value: object) -> str:
    try:
        encoded = msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError:
        # The name of a file is not UTF-8. No artifact can have it, but the plan needs a digest.
        encoded = repr(value).encode(errors="backslashreplace")
    return hashlib.sha256(encoded).hexdigest()


def _framework(spec: BuildSpec) -> Framework:
    """The framework's table less what decides about variants only, or is for other backends.

    The variant's name has the versions, and `archs` the rest.
    """
    match spec.kernel.framework:
        case Torch() as torch:
            return msgspec.structs.replace(torch, minver=None, maxver=None, stable_abi={})
        case TorchNoarch() as noarch:
            return msgspec.structs.replace(noarch, cuda_capabilities=(), rocm_archs=())
        case TvmFfi() as tvm_ffi:
            return tvm_ffi
        case _ as unreachable:
            assert_never(unreachable)


def archs(spec: BuildSpec) -> tuple[str, ...]:
    """The archs that an artifact declares for its backend, sorted as strings as upstream does."""
    declared = {arch for of_component in spec.archs.values() for arch in of_component}
    framework = spec.kernel.framework
    if isinstance(framework, TorchNoarch):
        of_backend = {Backend.CUDA: framework.cuda_capabilities, Backend.ROCM: framework.rocm_archs}
        declared.update(of_backend.get(variants.backend(spec.variant), ()))
    return tuple(sorted(declared))


def extension_id(spec: BuildSpec, digest: str) -> str:
    """The op namespace, which is also the extension's file stem and the module's name in a process.

    Two builds of different content never share it, so they can live in one process; a commit that leaves the content
    alone leaves it alone.
    """
    return f"_{spec.kernel.general.module}_{variants.backend(spec.variant)}_{digest[:_ID_DIGITS]}"


def python_depends(spec: BuildSpec) -> list[str]:
    """The Python packages that the artifact imports: the kernel's, then its backend's."""
    general = spec.kernel.general
    of_backend = general.by_backend.get(variants.backend(spec.variant))
    return list(dict.fromkeys((*general.python_depends, *(of_backend.python_depends if of_backend else ()))))


def kernel_depends(spec: BuildSpec) -> list[KernelDepend]:
    """The Hub kernels that the artifact loads: the kernel's, then its backend's."""
    general = spec.kernel.general
    of_backend = general.by_backend.get(variants.backend(spec.variant))
    return [*general.kernel_depends, *(of_backend.kernel_depends if of_backend else ())]


def family(spec: BuildSpec) -> str:
    """The folder of templates that a spec is rendered from: torch, tvm_ffi or noarch."""
    match spec.variant:
        case TorchNoarchVariant():
            return "noarch"
        case TvmFfiVariant():
            return "tvm_ffi"
        case TorchVariant() | TorchStableAbiVariant():
            return "torch"
        case _ as unreachable:
            assert_never(unreachable)


@cache
def builder_version() -> str:
    return importlib.metadata.version("kernelyard")


@cache
def this_builder() -> Builder:
    """The builder that is running."""
    return Builder(
        version=builder_version(),
        templates={
            f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(TEMPLATES.glob("*/*.j2"))
        },
    )
