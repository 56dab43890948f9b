"""CUDA's runtime library by a fixed name: what loads libcudart.so.12 by itself fails beside a torch that brought 13."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from buildlib import variant as variants
from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.subject import Subject
from buildlib.variant import Backend

_NAME = re.compile(rb"libcudart\.so(?:\.\d+)+|cudart64_\d+\.dll")
# Not where the loader's own names are: a library that is linked stands there, which is as it should be.
_DATA = (".rodata", ".data")


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield a finding for each file in whose text or data the name stands."""
    if variants.backend(subject.spec.variant) is not Backend.CUDA:
        yield NotChecked(check="runtime-name", reason="not a CUDA variant")
        return
    artifact = subject.artifact
    for path in artifact.metadata.digest.files:
        if path.endswith((".py", ".so")):
            content = (artifact.folder / path).read_bytes()
            texts = _sections(content) if path.endswith(".so") else iter((content,))
            if match := next((match for text in texts if (match := _NAME.search(text))), None):
                message = f"spells {match[0].decode()}; link it, or use the runtime that the framework has loaded"
                yield Finding(check="runtime-name", where=path, message=message)


def _sections(content: bytes) -> Iterator[bytes]:
    """The data of a library."""
    # Imported here because only a run that checks something reads libraries.
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415

    for section in ELFFile(io.BytesIO(content)).iter_sections():
        if section.name.startswith(_DATA):
            yield section.data()
