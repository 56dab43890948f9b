"""What a device language makes of a device crate: entries that a host can launch, with code for each capability."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on a launch that the tile compiler left to the host.

    `grid` · (x, y, z) + `constant` must be `zero`, `nonzero`, `positive` or `divisible` by `modulus`; `cause` says what
    goes wrong otherwise.
    """

    grid: tuple[int, int, int]
    constant: int
    relation: str
    modulus: int | None = None
    cause: str


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it was compiled for one capability, such as `9.0`.

    Its machine code is `exact` where it runs on that capability alone; it is `portable` where there is code beside it
    that drivers can compile for later ones. `tuned` are the tile sizes chosen for the capability, by name.
    """

    capability: str
    exact: bool
    portable: bool
    tuned: dict[str, int] = {}
    checks: tuple[Check, ...] = ()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that the host can launch.

    `keys` are what the host chooses it by; `parameters` the kinds of its parameters, in order: `pointer`, `i32`, `i64`,
    `f32`, `f64`, or `b8` to `b64` where only the size is known.
    """

    function: str
    symbol: str
    keys: dict[str, int | str] = {}
    parameters: tuple[str, ...]
    variants: tuple[Variant, ...]


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """Code for one capability, not yet assembled. `arch` is the one of its machine code, as in `90a`."""

    capability: str
    arch: str
    file: Path
    portable: bool


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Entries that are in one fatbin; `kind` is `tileir` or `ptx`."""

    name: str
    kind: str
    entries: tuple[Entry, ...]
    codes: tuple[Code, ...]
