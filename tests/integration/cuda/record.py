"""What the stand-in for the driver recorded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the driver; `context` is the device of the current context, -1 for none. Most calls have few fields."""

    call: str
    status: int
    context: int
    device: int | None = None
    attribute: int | None = None
    value: int | None = None
    magic: int | None = None
    options: int | None = None
    library: int | None = None
    entry: str | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    shared: int | None = None
    stream: int | None = None
    primary: bool | None = None
    arguments: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Launch:
    """A launch that succeeded; `arguments` are the bytes of each, `library` numbers the loads of the record."""

    entry: str
    library: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int
    device: int
    primary: bool
    arguments: tuple[bytes, ...]


@dataclass(frozen=True)
class Record:
    """All calls, in order."""

    calls: tuple[Call, ...]
    path: Path

    @classmethod
    def read(cls, path: Path) -> Record:
        text = path.read_bytes() if path.exists() else b""
        return cls(tuple(msgspec.json.decode(line, type=Call) for line in text.splitlines()), path)

    def named(self, call: str) -> list[Call]:
        return [each for each in self.calls if each.call == call]

    def names(self) -> list[str]:
        return [each.call for each in self.calls]

    @property
    def launches(self) -> list[Launch]:
        return [_launch(call) for call in self.named("cuLaunchKernel") if call.status == 0]

    @property
    def loads(self) -> list[bytes]:
        """The fatbins that were loaded, by the number of their library."""
        count = sum(call.status == 0 for call in self.named("cuLibraryLoadData"))
        return [Path(f"{self.path}.{number}.fatbin").read_bytes() for number in range(count)]

    @property
    def digests(self) -> list[str]:
        """The SHA-256 of each."""
        return [hashlib.sha256(load).hexdigest() for load in self.loads]


def _launch(call: Call) -> Launch:
    assert call.entry is not None
    assert call.library is not None
    assert call.grid is not None
    assert call.block is not None
    assert call.shared is not None
    assert call.stream is not None
    assert call.primary is not None
    assert call.arguments is not None
    return Launch(
        entry=call.entry,
        library=call.library,
        grid=call.grid,
        block=call.block,
        shared=call.shared,
        stream=call.stream,
        device=call.context,
        primary=call.primary,
        arguments=tuple(map(bytes.fromhex, call.arguments)),
    )
