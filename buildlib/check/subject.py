"""What the checks look at: an artifact, read once for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from buildlib import package
from buildlib.check.elf import Library, read_library
from buildlib.check.finding import Finding
from buildlib.check.policy import Policy
from buildlib.check.source import Module, parse
from buildlib.files import FileCache
from buildlib.package import Artifact
from buildlib.plan import BuildSpec


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact with its shared libraries and its Python modules; what cannot be read is among the `problems`."""

    spec: BuildSpec
    artifact: Artifact
    policy: Policy
    libraries: tuple[Library, ...] = ()
    modules: tuple[Module, ...] = ()
    damage: tuple[str, ...] = ()
    problems: tuple[Finding, ...] = ()


def read(spec: BuildSpec, artifact: Artifact, policy: Policy, cache: FileCache) -> Subject:
    """Read an artifact's files, less those that are not as they were built: about these there is a finding already."""
    damage = package.damage(artifact.folder, artifact.metadata, cache)
    damaged = {problem.partition(": ")[0] for problem in damage}
    libraries: list[Library] = []
    modules: list[Module] = []
    problems: list[Finding] = []
    for path in sorted(artifact.metadata.digest.files.keys() - damaged):
        if path.endswith(".py"):
            module = parse(path, (artifact.folder / path).read_bytes())
            modules += [module] if isinstance(module, Module) else []
            problems += [module] if isinstance(module, Finding) else []
        elif path.endswith(".so") or ".so." in path:
            library = read_library(path, (artifact.folder / path).read_bytes())
            if isinstance(library, str):
                problems.append(Finding(check="symbols", where=path, message=f"{library}; build the kernel again"))
            else:
                libraries.append(library)
    return Subject(
        spec=spec,
        artifact=artifact,
        policy=policy,
        libraries=tuple(libraries),
        modules=tuple(modules),
        damage=tuple(damage),
        problems=tuple(problems),
    )


def symbols_without_version(library: Library) -> Iterator[str]:
    """The names that a library needs and that any library in the process may give."""
    return (symbol.name for symbol in library.imports if symbol.version is None and not symbol.weak)
