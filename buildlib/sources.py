"""What the sources of kernels are, and what digest they make: of a checkout, or of a commit of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from buildlib.config.model import Kernel
from buildlib.digest import Builder, part_digests, spec_digest
from buildlib.files import Files
from buildlib.inputs import Inputs, find
from buildlib.plan import BuildSpec
from buildlib.rust.lock import Lock


class Sources:
    """The inputs of build specs, each looked for once.

    `lock_file` reads the repository's Cargo.lock, when it is first needed; `builder` is None for the running one.
    """

    def __init__(self, files: Files, lock_file: Callable[[], bytes | None], builder: Builder | None = None) -> None:
        self._files = files
        self._lock_file = lock_file
        self._builder = builder
        self._inputs: dict[tuple[str, ...], Inputs] = {}

    def inputs(self, spec: BuildSpec) -> Inputs:
        """The inputs of a spec; variants with the same components share the search."""
        kind = "compiled" if spec.toolchain else "noarch"
        key = (spec.kernel.key, kind, *(component.name for component in spec.components))
        if key not in self._inputs:
            self._inputs[key] = find(spec, self._files)
        return self._inputs[key]

    def digest(self, spec: BuildSpec) -> str:
        """The digest of a spec with the files as they are."""
        return spec_digest(spec, self._hashes(spec), self._builder)

    def parts(self, spec: BuildSpec) -> dict[str, str]:
        """What the digest is made of, part by part."""
        return part_digests(spec, self._hashes(spec), self._builder)

    def pins(self, spec: BuildSpec) -> dict[str, str]:
        """By path, as inputs are: a digest of what the repository's Cargo.lock pins for a spec."""
        if spec.crates is None or spec.crates.own is not None:
            return {}
        return {"../../Cargo.lock": self._pinned.digest(name for each in spec.crates.crates for name in each.requires)}

    def forget(self, kernel: Kernel) -> None:
        """Look for a kernel's inputs again."""
        for key in [key for key in self._inputs if key[0] == kernel.key]:
            self._inputs.pop(key, None)

    def _hashes(self, spec: BuildSpec) -> dict[str, str]:
        hashes = {}
        for path in self.inputs(spec).all:
            info = self._files.get(f"{spec.kernel.folder}/{path}")
            hashes[path] = info.sha256 if info else "missing"
        return hashes | self.pins(spec)

    @cached_property
    def _pinned(self) -> Lock:
        return Lock.parse(self._lock_file() or b"", "Cargo.lock")
