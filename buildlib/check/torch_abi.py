"""torch's stable ABI: a variant for it uses the C functions that its release of torch has, and no more of torch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.subject import Subject, symbols_without_version
from buildlib.variant import TorchStableAbiVariant, Version

_CHECK = "torch-abi"

# Where torch declares its C functions, relative to its include folder.
_HEADERS = (
    "torch/csrc/stable/c/*.h",
    "torch/csrc/inductor/aoti_torch/c/*.h",
    "torch/csrc/inductor/aoti_torch/generated/*.h",
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STEP = re.compile(
    r"^[ \t]*\#[ \t]*(?P<directive>if|ifdef|ifndef|elif|else|endif)\b(?P<condition>[^\n]*)"
    r"|\bAOTI_TORCH_EXPORT\b[^;{}()\#]*?\b(?P<function>\w+)\s*\(",
    re.MULTILINE,
)
_GUARD = re.compile(r"TORCH_FEATURE_VERSION\s*>=\s*TORCH_VERSION_(\d+)_(\d+)_\d+")
# A mangled name in which something of torch's C++ namespaces stands: in a name of its own, or as a type.
_CXX = re.compile(r"_Z.*N[VKrRO]*(?:2at|3c10|5torch)")
_C = ("torch_", "aoti_torch_")
# What is declared without a guard is as old as the stable ABI.
_ALWAYS = Version(0, 0)


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield a finding for each symbol of torch that is too new for the variant, or not of the stable ABI."""
    variant, toolchain = subject.spec.variant, subject.spec.toolchain
    if not isinstance(variant, TorchStableAbiVariant) or toolchain is None:
        yield NotChecked(check=_CHECK, reason="not a torch-stable-abi variant")
        return
    since: dict[str, Version] = {}
    for folder in toolchain.libraries[0].includes:
        since |= functions(Path(folder))
    for library in subject.libraries:
        for name in symbols_without_version(library):
            if name in since:
                if since[name] <= variant.abi:
                    continue
                message = f"is in torch from {since[name]} on; raise [torch] stable-abi from {variant.abi}, or avoid it"
            elif _CXX.match(name) or name.startswith(_C):
                message = "is not of torch's stable ABI; include only torch/csrc/stable and torch/headeronly"
            else:
                continue
            yield Finding(check=_CHECK, where=library.path, message=f"{name} {message}")


@cache
def functions(include: Path) -> dict[str, Version]:
    """The functions of torch's C interface with the release that brought each, as its headers' own guards have it."""
    since: dict[str, Version] = {}
    for header in sorted(path for pattern in _HEADERS for path in include.glob(pattern)):
        for name, version in declared(header.read_text(encoding="utf-8")):
            since[name] = min(version, since.get(name, version))
    return since


def declared(header: str) -> Iterator[tuple[str, Version]]:
    """The functions that a header declares, each with the release that the guards around it name."""
    guards: list[Version] = []
    for step in _STEP.finditer(_COMMENT.sub("", header)):
        match step["directive"]:
            case None:
                yield step["function"], max(guards, default=_ALWAYS)
            case "if" | "ifdef" | "ifndef":
                guards.append(_guard(step["condition"]))
            case "elif" | "else":
                guards[-1:] = [_guard(step["condition"])]
            case _:
                guards.pop()


def _guard(condition: str) -> Version:
    match = _GUARD.search(condition)
    return Version(int(match[1]), int(match[2])) if match else _ALWAYS
