"""Exported symbols: what an artifact exports takes part in the symbol search of the whole process."""

from __future__ import annotations

from collections.abc import Iterator

from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.layout import extension
from buildlib.check.subject import Subject
from buildlib.variant import TvmFfiVariant

_CHECK = "exports"
_SHOWN = 4


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield a finding where the extension exports more or less than its framework calls it by."""
    path = extension(subject.spec, subject.artifact.metadata.id)
    library = next((library for library in subject.libraries if library.path == path), None)
    if library is None:
        yield NotChecked(check=_CHECK, reason="no compiled library" if path is None else f"{path} cannot be read")
        return
    if isinstance(subject.spec.variant, TvmFfiVariant):
        expected, missing = "__tvm_ffi_*", not any(name.startswith("__tvm_ffi_") for name in library.exports)
        surplus = [name for name in library.exports if not name.startswith("__tvm_ffi_")]
    else:
        expected = f"PyInit_{subject.artifact.metadata.id}"
        missing = expected not in library.exports
        surplus = [name for name in library.exports if name != expected]
    if missing:
        message = f"does not export {expected}, by which its framework calls it; export it"
        yield Finding(check=_CHECK, where=path or ".", message=message)
    if surplus:
        more = f" and {len(surplus) - _SHOWN} more" if len(surplus) > _SHOWN else ""
        message = f"exports {', '.join(surplus[:_SHOWN])}{more} beside {expected}; make them static, or hidden"
        yield Finding(check=_CHECK, where=path or ".", message=message)
