"""CUDA images: what an artifact holds of them is for exactly the capabilities that its metadata.json declares.

An image is machine code, or PTX or Tile IR, from which a driver makes machine code.

The client accepts or refuses a device by what is declared; a kernel without an image for it fails when it is called.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from buildlib import environment, package, process, provision
from buildlib.check.finding import Finding, NotChecked, Outcome, Usage
from buildlib.check.subject import Subject
from buildlib.cuda import Cuda
from buildlib.errors import ToolchainError
from buildlib.workspace import Workspace

_STEP = re.compile(
    r"^Fatbin (?P<kind>elf|ptx|tile ir) code:"
    r"|^arch = sm_(?P<major>\d+)(?P<minor>\d)(?P<suffix>[af]?)$"
    # A kernel, in the symbols of machine code and in PTX.
    r"|^\S+ +\S+ +\S+ +ENTRY +(?P<symbol>\S+)$"
    r"|^(?:\.\w+ +)*\.entry +(?P<entry>[\w$]+)",
    re.MULTILINE,
)

_USAGE = re.compile(
    r"^arch = sm_(?P<arch>\w+)$"
    r"|^ Function (?P<function>\S+):\n\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:(?P<shared>\d+) ",
    re.MULTILINE,
)

# The capabilities by kernel, each as metadata.json spells it: `9.0a`, and `12.1+PTX` where there is PTX or Tile IR.
Images = dict[str, frozenset[str]]


def check(subject: Subject, workspace: Workspace) -> Iterator[Outcome]:
    """Yield a finding for each difference between the images of the kernels and what is declared, and their usage.

    Raises:
        UnavailableError: cuobjdump cannot be provisioned now.
        ToolchainError: cuobjdump cannot be provisioned, or cannot read a library.
    """
    toolchain = subject.spec.toolchain
    toolkit = toolchain.cuda if toolchain else None
    if toolkit is None:
        yield NotChecked(check="images", reason="nothing is compiled with CUDA")
        return
    images: Images = {}
    for library in subject.libraries:
        said = _dump(str(subject.artifact.folder / library.path), toolkit, workspace)
        images |= read(said)
        yield from usage(said)
    for problem in problems(images, subject.artifact.metadata.backend.archs or (), subject.spec.archs):
        yield Finding(check="images", where=package.METADATA, message=f"{problem}; build the kernel again")


def problems(images: Images, declared: Collection[str], by_component: Mapping[str, Collection[str]]) -> Iterator[str]:
    """What is wrong, in words.

    A kernel must have images for all capabilities of the component that it is from; which one that is does not show, so
    they must be those of one component, or of several that have the kernel in common.
    """
    found = {arch for archs in images.values() for arch in archs}
    # A component may have no kernel, so what is declared need not all be there where nothing is.
    if missing := sorted(set(declared) - found) if found else []:
        yield f"declares {', '.join(missing)}, for which there is no image"
    if surplus := sorted(found - set(declared)):
        yield f"does not declare {', '.join(surplus)}, for which there are images"
    for kernel, archs in sorted(images.items()):
        fitting = [set(component) for component in by_component.values() if set(component) <= archs]
        if set[str]().union(*fitting) != archs:
            yield f"the kernel {kernel} has images for {', '.join(sorted(archs))}, which no component is compiled for"


def read(said: str) -> Images:
    """The kernels in what cuobjdump prints."""
    kinds: dict[str, dict[str, set[str]]] = {}
    kind = arch = ""
    # Those of the machine code that was listed last.
    last: list[str] = []
    for step in _STEP.finditer(said):
        if step["kind"]:
            kind = step["kind"]
            last = [] if kind == "elf" else last
        elif step["major"]:
            arch = f"{step['major']}.{step['minor']}{step['suffix']}"
            # cuobjdump cannot look into Tile IR, which stands behind the machine code of the same kernels.
            for kernel in last if kind == "tile ir" else ():
                kinds[kernel].setdefault(arch, set()).add(kind)
        else:
            kernel = step["symbol"] or step["entry"]
            last += [kernel] if kind == "elf" else []
            kinds.setdefault(kernel, {}).setdefault(arch, set()).add(kind)
    return {
        kernel: frozenset(arch + ("" if kinds_ == {"elf"} else "+PTX") for arch, kinds_ in archs.items())
        for kernel, archs in kinds.items()
    }


def usage(said: str) -> Iterator[Usage]:
    """What the functions take, in what cuobjdump prints."""
    arch = ""
    for step in _USAGE.finditer(said):
        if step["arch"]:
            arch = step["arch"]
        else:
            taken = {name: int(step[name]) for name in ("registers", "stack", "shared")}
            yield Usage(check="images", function=step["function"], arch=f"sm_{arch}", **taken)


def _dump(library: str, toolkit: Cuda, workspace: Workspace) -> str:
    program = toolkit.root / "bin" / "cuobjdump"
    if toolkit.cuobjdump:
        folder = provision.ensure(toolkit.cuobjdump, workspace.settings, workspace.processes, workspace.notify)
        program = folder / "bin" / "cuobjdump"
    argv = (str(program), "--dump-elf-symbols", "--dump-ptx", "--dump-resource-usage", library)
    said = process.output(argv, env=environment.child(workspace.settings))
    if said is None:
        raise ToolchainError(f"{program}: cannot list the CUDA images of {library}; is the toolkit whole?")
    return said
