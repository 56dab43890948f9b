"""Artifacts that were never built, so that a test of a check says only what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from buildlib.check import policy
from buildlib.check.elf import Import, Library, Version
from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.source import Module, parse
from buildlib.check.subject import Subject
from buildlib.package import Artifact, BackendInfo, Builder, Digest, Metadata, Origin, ProvenanceInfo
from buildlib.plan import BuildSpec
from buildlib.variant import Platform
from tests.unit.factories import HOST, kernel, spec

ROOT = Path(__file__).parents[3]
ID = "_relu_cpu_01234567"
EXTENSION = f"{ID}.abi3.so"
LIMITS = policy.load(ROOT / "toolchains")
PORTABLE = msgspec.structs.replace(HOST, portability=LIMITS.platforms[Platform.X86_64_LINUX])


def metadata(**changes: Any) -> Metadata:
    fields: dict[str, Any] = {
        "name": "relu",
        "id": ID,
        "version": 1,
        "license": "MIT",
        "python_depends": [],
        "kernel_depends": [],
        "kernels_minver": "0.14.0",
        "backend": BackendInfo(type="cpu"),
        "kernelyard": Origin(digest="d" * 64),
        "provenance": ProvenanceInfo(kernel_builder=Builder(version="kernelyard 0")),
        "digest": Digest(algorithm="sha256", files={}),
    }
    return Metadata(**(fields | changes))


def subject(
    made: BuildSpec | None = None,
    *libraries: Library,
    modules: Mapping[str, str] | None = None,
    described: Metadata | None = None,
) -> Subject:
    """An artifact of a portable [torch] kernel for the CPU, unless told otherwise."""
    parsed = [parse(path, text.encode()) for path, text in (modules or {}).items()]
    return Subject(
        spec=made or spec(kernel(), on=PORTABLE),
        artifact=Artifact(folder=Path("/artifact"), metadata=described or metadata()),
        policy=LIMITS,
        libraries=libraries,
        modules=tuple(module for module in parsed if isinstance(module, Module)),
        problems=tuple(module for module in parsed if isinstance(module, Finding)),
    )


def library(*wanted: str, exports: Iterable[str] = (f"PyInit_{ID}",), path: str = EXTENSION, **more: Any) -> Library:
    """A library that needs symbols, each `name`, `name@VERSION` of libc, or `?name` for a weak one."""
    imports = []
    for symbol in wanted:
        name, _, version = symbol.removeprefix("?").partition("@")
        needed = Version(version, "libc.so.6") if version else None
        imports.append(Import(name=name, version=needed, weak=symbol.startswith("?")))
    versions = tuple(dict.fromkeys(each.version for each in imports if each.version))
    return Library(path=path, imports=tuple(imports), exports=tuple(exports), **{"versions": versions, **more})


def messages(outcomes: Iterable[Outcome]) -> list[str]:
    """The message of each finding, `where: message`; nothing may have been left out."""
    found = list(outcomes)
    assert [outcome for outcome in found if isinstance(outcome, NotChecked)] == []
    return [f"{finding.where}: {finding.message}" for finding in found if isinstance(finding, Finding)]


def reasons(outcomes: Iterable[Outcome]) -> list[str]:
    """Why a check was not made; it may have found nothing."""
    found = list(outcomes)
    assert [outcome for outcome in found if isinstance(outcome, Finding)] == []
    return [left_out.reason for left_out in found if isinstance(left_out, NotChecked)]
