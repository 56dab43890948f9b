"""Findings about a build.toml that loads: what the reference parser lets pass and what is most likely a mistake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

import msgspec
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from buildlib.config import editions, text
from buildlib.config.locate import KeyPath, Lines
from buildlib.config.model import BACKENDS, Component, CppCuda, CppRocm, Kernel, RustCuda, Torch, TorchNoarch
from buildlib.config.problems import Problem, Reading, did_you_mean, excerpt, listing
from buildlib.config.values import as_table
from buildlib.errors import Severity
from buildlib.variant import Backend, Version

# What the `kernels` package lets a kernel depend on, `kernels/python_depends.json`; for the backends that are not
# here, nothing.
PYTHON_DEPENDS: Mapping[Backend | None, tuple[str, ...]] = {
    None: ("einops", "helion", "tvm-ffi"),
    Backend.CUDA: ("nvidia-cutlass-dsl",),
    Backend.NEURON: ("nki",),
    Backend.XPU: ("onednn",),
}

_CUDA_CAPABILITY = re.compile(r"[1-9][0-9]*\.[0-9][af]?(\+PTX)?")
_ROCM_ARCH = re.compile(r"gfx[0-9a-f]{3,}(:(xnack|sramecc)[+-]){0,2}|gfx[0-9]+(-[0-9]+)*-generic")

_LAST_WITH_UNDERSCORES = 5


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a build.toml that its author should look at; `key` is the place in words.

    An error is what makes the client refuse a kernel, or what would leave out device code that was asked for without a
    word.
    """

    file: Path
    line: int
    key: str
    message: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.message}"


def findings(kernel: Kernel, file: Path, content: str) -> tuple[Finding, ...]:
    """Look over a kernel that was loaded from a file with this content; the findings are in the file's order. Pure."""
    document = text.parse(file, content)
    edition = cast("int", editions.edition_of(document))
    errors, advice = Reading(edition), Reading(edition)
    _python_depends(kernel, errors)
    _targets(kernel, document, errors)
    for look in (_license, _backends, _stable_abi, _bounds, _noarch):
        look(kernel, advice)
    _spelling(document, advice)
    lines = Lines(content)
    found = [_finding(file, lines, problem, Severity.ERROR) for problem in errors.problems]
    found += [_finding(file, lines, problem, Severity.ADVICE) for problem in advice.problems]
    return tuple(sorted(found, key=lambda finding: finding.line))


def _finding(file: Path, lines: Lines, problem: Problem, severity: Severity) -> Finding:
    message = f"{problem.what}; {problem.todo}"
    return Finding(file=file, line=lines.near(problem.path), key=problem.where, message=message, severity=severity)


def _license(kernel: Kernel, reading: Reading) -> None:
    try:
        canonicalize_license_expression(kernel.general.license)
    except InvalidLicenseExpression:
        what = f"{excerpt(kernel.general.license)} is not an SPDX license expression"
        todo = "use an identifier of https://spdx.org/licenses, or LicenseRef-<name> for a license of your own"
        reading.at_key(("general", "license"), what, todo)


def _python_depends(kernel: Kernel, reading: Reading) -> None:
    for backend, path, depends in _all_python_depends(kernel):
        allowed = PYTHON_DEPENDS.get(backend, ())
        for index, name in enumerate(depends):
            if name not in allowed:
                what = f"{excerpt(name)} is not allowed here"
                todo = f"{did_you_mean(name, allowed)}allowed are {listing(allowed) or 'none'}"
                reading.at_key((*path, index), what, todo)


def _all_python_depends(kernel: Kernel) -> Iterator[tuple[Backend | None, KeyPath, tuple[str, ...]]]:
    yield None, ("general", "python-depends"), kernel.general.python_depends
    for backend, own in kernel.general.by_backend.items():
        yield backend, ("general", backend.value, "python-depends"), own.python_depends


def _backends(kernel: Kernel, reading: Reading) -> None:
    declared = kernel.general.backends
    if not declared:
        reading.at_key(("general", "backends"), "no backend is declared", "name one, as nothing is built without")
    for component in kernel.components:
        if (backend := BACKENDS[type(component)]) not in declared:
            what = f"a component for {backend}, which [general] backends does not declare"
            reading.at_table(("kernel", component.name), what, f"add {backend} there, or drop the component")
    for backend in kernel.general.by_backend:
        if backend not in declared:
            what = f"settings for {backend}, which [general] backends does not declare"
            reading.at_table(("general", backend.value), what, f"add {backend} there, or drop the table")
    if isinstance(kernel.framework, TorchNoarch):
        return
    served = {BACKENDS[type(component)] for component in kernel.components}
    if unserved := [backend.value for backend in declared if backend not in served]:
        what = f"no component is for {listing(unserved)}"
        todo = "add one for each, or expect the Python package alone to be published for it"
        reading.at_key(("general", "backends"), what, todo)


def _stable_abi(kernel: Kernel, reading: Reading) -> None:
    if isinstance(kernel.framework, Torch):
        for backend in kernel.framework.stable_abi:
            if backend not in kernel.general.backends:
                what = f"{backend} is not among [general] backends"
                reading.at_key(("torch", "stable-abi", backend.value), what, "add it there, or drop this key")


def _bounds(kernel: Kernel, reading: Reading) -> None:
    if isinstance(kernel.framework, Torch):
        _ordered(("torch",), kernel.framework.minver, kernel.framework.maxver, reading)
    for backend, own in kernel.general.by_backend.items():
        _ordered(("general", backend.value), own.minver, own.maxver, reading)
    cuda = kernel.general.by_backend.get(Backend.CUDA)
    for component in kernel.components:
        if cuda is None or not isinstance(component, CppCuda) or component.cuda_minver is None:
            continue
        if cuda.maxver is not None and component.cuda_minver > cuda.maxver:
            what = f"{component.cuda_minver} is above [general.cuda] maxver, {cuda.maxver}"
            todo = "correct one of the two, as the component is never built"
            reading.at_key(("kernel", component.name, "cuda-minver"), what, todo)


def _ordered(table: KeyPath, minver: Version | None, maxver: Version | None, reading: Reading) -> None:
    if minver is not None and maxver is not None and minver > maxver:
        what = f"{minver} is above maxver, {maxver}"
        reading.at_key((*table, "minver"), what, "correct one of the two, as no version is within them")


def _noarch(kernel: Kernel, reading: Reading) -> None:
    if isinstance(kernel.framework, TorchNoarch):
        for component in kernel.components:
            what = "a component of a [torch-noarch] kernel, of which nothing is compiled"
            reading.at_table(("kernel", component.name), what, "drop it, or write [torch] for [torch-noarch]")


def _targets(kernel: Kernel, document: Mapping[str, object], reading: Reading) -> None:
    """CUDA capabilities and ROCm archs: their syntax, not whether some toolchain knows them."""
    for component in kernel.components:
        table = as_table((as_table(document["kernel"]) or {})[component.name]) or {}
        for key, check in _target_keys(component):
            _list(table, ("kernel", component.name, key), check, reading)
    noarch = as_table(document.get("torch-noarch")) or {}
    for key in noarch:
        if key.startswith("cuda"):
            _list(noarch, ("torch-noarch", key), _capability, reading)
        if key.startswith("rocm"):
            _list(noarch, ("torch-noarch", key), _arch, reading)


def _target_keys(component: Component) -> Iterator[tuple[str, Callable[[str, KeyPath, Reading], None]]]:
    match component:
        case CppCuda() | RustCuda():
            yield "cuda-capabilities", _capability
        case CppRocm():
            yield "rocm-archs", _arch
        case _:
            return


def _list(
    table: Mapping[str, object], path: KeyPath, check: Callable[[str, KeyPath, Reading], None], reading: Reading
) -> None:
    given = table.get(str(path[-1]), [])
    for index, item in enumerate(given if isinstance(given, list) else []):
        check(str(item), (*path, index), reading)


def _capability(name: str, path: KeyPath, reading: Reading) -> None:
    if not _CUDA_CAPABILITY.fullmatch(name):
        todo = "write <major>.<minor>, with an a or f, or +PTX, where wanted, as in 9.0a or 12.0+PTX"
        reading.at_key(path, f"{excerpt(name)} is not a CUDA capability", todo)


def _arch(name: str, path: KeyPath, reading: Reading) -> None:
    if not _ROCM_ARCH.fullmatch(name):
        reading.at_key(path, f"{excerpt(name)} is not a ROCm arch", "write it as in gfx942 or gfx90a:xnack-")


def _spelling(document: Mapping[str, object], reading: Reading) -> None:
    for name in as_table(document.get("torch-noarch")) or {}:
        if reading.edition <= _LAST_WITH_UNDERSCORES and "-" in name:
            other = name.replace("-", "_")
            what = f"the kernels package reads this key as {other!r} alone"
            reading.at_key(("torch-noarch", name), what, f"write {other}, for the file to be read everywhere")
