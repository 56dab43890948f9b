"""CUDA capabilities: which of them a component is compiled for with a version of CUDA. Pure.

A capability is `9.0`; `9.0a` and `10.0f` name the features of one architecture or family, and `+PTX` asks for code in
PTX beside the machine code, which later devices can compile. The rules are those of huggingface/kernels, so that a
build.toml means here what it means there; its `cuda_archs_loose_intersection` is `intersect`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from buildlib.variant import Version

_SHAPE = re.compile(r"(\d+)\.(\d)([af]?)(\+PTX)?")

# What a component is compiled for where it does not say, by the first CUDA that it holds for; newest first.
_DEFAULTS: tuple[tuple[Version, tuple[str, ...]], ...] = (
    (Version(13, 0), ("7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "11.0", "12.0", "12.1+PTX")),
    (
        Version(12, 8),
        ("7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.1", "12.0+PTX"),
    ),
    (Version(0, 0), ("7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0+PTX")),
)

_FIRST, _LAST = Version(0, 0), Version(99, 0)
# The versions of CUDA whose compiler makes code for a capability, from the first up to but not including the second:
# what `nvcc --list-gpu-code` of each release prints.
_COMPILERS: dict[str, tuple[Version, Version]] = {
    **dict.fromkeys(("3.5", "3.7"), (_FIRST, Version(12, 0))),
    **dict.fromkeys(("5.0", "5.2", "5.3", "6.0", "6.1", "6.2", "7.0", "7.2"), (_FIRST, Version(13, 0))),
    **dict.fromkeys(("7.5", "8.0", "8.6", "8.7"), (_FIRST, _LAST)),
    **dict.fromkeys(("8.9", "9.0"), (Version(11, 8), _LAST)),
    "9.0a": (Version(12, 0), _LAST),
    "8.8": (Version(13, 0), _LAST),
    **dict.fromkeys(("10.0", "10.0a", "12.0", "12.0a"), (Version(12, 8), _LAST)),
    **dict.fromkeys(("10.1", "10.1a"), (Version(12, 8), Version(13, 0))),
    "10.1f": (Version(12, 9), Version(13, 0)),
    **dict.fromkeys(("10.0f", "12.0f", "10.3", "10.3a", "10.3f", "12.1", "12.1a", "12.1f"), (Version(12, 9), _LAST)),
    **dict.fromkeys(("11.0", "11.0a", "11.0f"), (Version(13, 0), _LAST)),
}


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities to compile for, and those that were asked for and are left out; both in numeric order."""

    chosen: tuple[str, ...]
    dropped: tuple[str, ...] = ()


def unknown(capabilities: Iterable[str]) -> tuple[str, ...]:
    """The values that no version of CUDA can compile for, in the order given."""
    return tuple(value for value in capabilities if _bare(value) not in _COMPILERS)


def default(cuda: Version) -> tuple[str, ...]:
    """What a component without a list of its own is compiled for."""
    return next(capabilities for first, capabilities in _DEFAULTS if cuda >= first)


def choose(asked: Iterable[str], cuda: Version, narrow: Iterable[str] = ()) -> Choice:
    """The capabilities for a component that asks for some (none: for the default ones) with a version of CUDA.

    All values must be known. Order and duplicates do not matter. `narrow` are the only devices that a developer wants
    code for; what they do not need is neither chosen nor counted as dropped.
    """
    wanted = tuple(dict.fromkeys(asked))
    made = tuple(value for value in wanted if _makes(cuda, value))
    chosen = intersect(made, map(_bare, default(cuda))) if wanted else default(cuda)
    dropped = {_bare(value) for value in wanted} - {_bare(value) for value in chosen}
    if devices := [value for value in map(_bare, narrow) if _makes(cuda, value)]:
        chosen = _for_devices(chosen, devices)
    elif tuple(narrow):
        chosen = ()
    return Choice(chosen=in_order(chosen), dropped=in_order(dropped))


def intersect(asked: Iterable[str], targets: Iterable[str]) -> tuple[str, ...]:
    """For each target, the best of the capabilities asked for that runs on it; in numeric order.

    A value for one architecture or family (`9.0a`, `10.0f`) is taken where its base is a target, and then serves that
    target. Each other target is served by the newest capability of its own major version that is not newer, or of any
    older version that is asked for with PTX. A target that nothing serves is left out.
    """
    asked = tuple(asked)
    with_ptx = {_bare(value) for value in asked if value.endswith("+PTX")}
    bases, left = {_bare(value) for value in asked}, set(targets)
    specific = {value for value in bases if value[-1] in "af" and value[:-1] in left}
    left -= {value[:-1] for value in specific}
    plain = [value for value in bases if value[-1] not in "af"]
    served = set(specific)
    for target in left:
        fitting = [
            value
            for value in plain
            if _key(value) <= _key(target) and (_key(value)[0] == _key(target)[0] or value in with_ptx)
        ]
        if fitting:
            served.add(max(fitting, key=_key))
    return in_order(value + ("+PTX" if value in with_ptx else "") for value in served)


def _for_devices(chosen: Iterable[str], devices: Iterable[str]) -> tuple[str, ...]:
    """What devices need of the chosen capabilities: PTX only for those that no machine code runs on."""
    needed = set()
    for device in devices:
        for value in intersect(chosen, (device,)):
            needed.add(_bare(value) if _key(value)[0] == _key(device)[0] else value)
    return tuple(value for value in needed if f"{value}+PTX" not in needed)


def in_order(capabilities: Iterable[str]) -> tuple[str, ...]:
    """Each value once, in numeric order."""
    return tuple(sorted(set(capabilities), key=_key))


def is_older(capability: str, other: str) -> bool:
    """Whether a capability comes before another, both without `+PTX`; `9.0a` and `9.0` are of one age."""
    return _key(capability)[:2] < _key(other)[:2]


def flags(capability: str) -> tuple[str, ...]:
    """The options of nvcc for one capability: `12.1+PTX` is machine code for 12.1, and PTX of 12.1 beside it."""
    bare = _bare(capability).replace(".", "")
    machine = ("-gencode", f"arch=compute_{bare},code=sm_{bare}")
    ptx = ("-gencode", f"arch=compute_{bare},code=compute_{bare}")
    return (*machine, *ptx) if capability.endswith("+PTX") else machine


def _makes(cuda: Version, capability: str) -> bool:
    first, end = _COMPILERS[_bare(capability)]
    return first <= cuda < end


def _bare(capability: str) -> str:
    return capability.removesuffix("+PTX")


def _key(capability: str) -> tuple[int, int, str]:
    match = _SHAPE.fullmatch(capability)
    if match is None:
        raise ValueError(f"{capability!r} is not a CUDA capability, as in 9.0, 9.0a or 12.1+PTX")
    return int(match[1]), int(match[2]), match[3] + (match[4] or "")
