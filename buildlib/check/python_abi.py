"""CPython's stable ABI: an extension that uses nothing else loads in every Python from 3.9 on."""

from __future__ import annotations

from collections.abc import Iterator

from buildlib.check.finding import Finding, NotChecked, Outcome
from buildlib.check.subject import Subject

_CHECK = "python-abi"
_OLDEST = (3, 9)


def check(subject: Subject) -> Iterator[Outcome]:
    """Yield a finding for each symbol of CPython that is not in the stable ABI of the oldest Python (PEP 384)."""
    if not subject.libraries:
        yield NotChecked(check=_CHECK, reason="no compiled library")
        return
    since = stable_abi()
    for library in subject.libraries:
        for symbol in library.imports:
            if not symbol.name.startswith(("Py", "_Py")):
                continue
            added = since.get(symbol.name)
            if added is None:
                message = "is not in CPython's stable ABI; use a function that is"
            elif added > _OLDEST:
                message = f"is in CPython's stable ABI from {added[0]}.{added[1]} on; use one that Python 3.9 has"
            else:
                continue
            yield Finding(check=_CHECK, where=library.path, message=f"{symbol.name} {message}")


def stable_abi() -> dict[str, tuple[int, int]]:
    """Each symbol of the stable ABI, with the Python that brought it."""
    from abi3info import DATAS, FUNCTIONS  # noqa: PLC0415 - only where something is checked

    entries = [*FUNCTIONS.values(), *DATAS.values()]
    return {entry.symbol.name: (entry.added.major, entry.added.minor) for entry in entries}
