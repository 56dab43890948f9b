"""What device compilers have in common whose code is PTX: the CUDA of the variant assembles it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Self

import msgspec

from buildlib import capability
from buildlib.config.model import Dsl
from buildlib.cuda import Cuda
from buildlib.lock import Locked
from buildlib.variant import Version


class WithToolkit(msgspec.Struct, frozen=True, kw_only=True):
    """A device compiler with the toolkit of a variant, None before there is one.

    `minimum` is the oldest capability that is asked of it.
    """

    dsl: ClassVar[Dsl]

    minimum: str
    toolkit: Cuda | None = None

    @property
    def locked(self) -> tuple[Locked, ...]:
        """Nothing of it is provisioned from the Python index."""
        return ()

    @property
    def root(self) -> Path:
        """The root of the toolkit, which holds bin/ptxas and bin/fatbinary."""
        assert self.toolkit is not None
        return self.toolkit.root

    @property
    def cuda(self) -> Version:
        """The oldest CUDA whose driver loads what it makes: one accepts all machine code of its major version."""
        assert self.toolkit is not None
        return Version(self.toolkit.version.major, 0)

    def beside(self, toolkit: Cuda) -> Self:
        """It with the toolkit of a variant."""
        return msgspec.structs.replace(self, toolkit=toolkit)

    def refuses(self, _cuda: Version) -> str | None:
        """Why no variant for a version of CUDA can have its code: never, as that CUDA's own ptxas assembles it."""
        return None

    def wrong(self, asked: Iterable[str]) -> str | None:
        """What is wrong with the capabilities that a component asks for, or None."""
        for value in asked:
            if capability.is_older(value.removesuffix("+PTX"), self.minimum):
                return f"{self.dsl} makes code for {self.minimum} and newer, and not for {value!r}; remove it"
            if unknown := self.unknown(value):
                return unknown
        return None

    def unknown(self, _value: str) -> str | None:
        """Why it makes no code for a capability although that is new enough, or None."""
        return None

    def made(self, chosen: Iterable[str]) -> tuple[str, ...]:
        """The capabilities of the images for some chosen ones; those that it cannot compile for are left out."""
        return capability.in_order(value for value in chosen if self.wrong([value]) is None)

    @property
    def assembler(self) -> str:
        """What its identity says of the toolkit."""
        return f" and {self.toolkit.identity}" if self.toolkit else ""
