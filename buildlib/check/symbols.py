"""Symbol versions: nothing newer than the platform's ceilings, and nothing of the system without a version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from buildlib.check.elf import Library, Version
from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.policy import Policy
from buildlib.check.subject import Subject, symbols_without_version
from buildlib.variant import Platform

_CHECK = "symbols"
_SHOWN = 4
_PLATFORMS = {"EM_X86_64": Platform.X86_64_LINUX, "EM_AARCH64": Platform.AARCH64_LINUX}


def check(subject: Subject, of_the_system: Callable[[str], bool] | None = None) -> Iterator[Outcome]:
    """Yield a finding for each version that is too new, and one for the symbols of the system without a version.

    `of_the_system` tells whether the C or C++ library exports a name. Such a symbol without a version is bound to
    whatever the user's machine has, if it has it at all: nothing would be left of the promise.
    """
    toolchain = subject.spec.toolchain
    if not subject.libraries:
        yield NotChecked(check=_CHECK, reason="no compiled library")
    elif toolchain is not None and toolchain.portability is None:
        yield NotChecked(check=_CHECK, reason="built with --no-portable, for this machine alone")
    else:
        for library in subject.libraries:
            yield from _check(library, subject.policy, of_the_system or of_this_machine())


def _check(library: Library, policy: Policy, of_the_system: Callable[[str], bool]) -> Iterator[Outcome]:
    platform = _PLATFORMS.get(library.machine)
    if platform is None or platform not in policy.platforms:
        yield _finding(library, f"made for {library.machine}, which no platform here is; build it for one that is")
        return
    ceilings = policy.platforms[platform].symbol_versions
    for version in library.versions:
        if problem := _too_new(version, ceilings):
            users = _some([symbol.name for symbol in library.imports if symbol.version == version])
            what = f"needs {version.name} of {version.file}{f' for {users}' if users else ''}, {problem}"
            yield _finding(library, f"{what}; do without it, or have it linked in")
    if unversioned := list(filter(of_the_system, symbols_without_version(library))):
        yield _finding(
            library,
            f"takes {_some(unversioned)} of the C or C++ library without a version, so an older system may lack "
            "it; link against the C and C++ libraries before any other that exports it, or do without it",
        )


def _too_new(version: Version, ceilings: dict[str, str]) -> str | None:
    family, _, number = version.name.rpartition("_")
    if version.name.startswith("GLIBC_ABI_"):
        return "which the loader of an older system refuses"
    if family not in ceilings:
        return None
    try:
        return f"newer than {ceilings[family]}" if _numbers(number) > _numbers(ceilings[family]) else None
    except ValueError:
        return "which no release promises to keep"


def _numbers(version: str) -> tuple[int, ...]:
    """`7.0.0` as (7,), so that zeros at the end make no difference."""
    parts = [int(part) for part in version.split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def of_this_machine() -> Callable[[str], bool]:
    """A function that tells whether the C, C++ or maths library of this machine, so of the linker, exports a name."""
    import ctypes  # noqa: PLC0415 - only where something is checked

    try:
        # A look-up in libstdc++ also looks into the C and maths libraries, which it needs.
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        library = ctypes.CDLL(None)
    return lambda name: hasattr(library, name)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _finding(library: Library, message: str) -> Finding:
    return Finding(check=_CHECK, where=library.path, message=message)
