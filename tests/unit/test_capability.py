"""CUDA capabilities: the reference vectors of huggingface/kernels, and what is said of those that are left out."""

from __future__ import annotations

import itertools

import pytest

from buildlib import capability
from buildlib.variant import Version

_CU126 = ("7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0")
_CU128 = ("7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.1", "12.0")
_CU130 = ("7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "11.0", "12.0", "12.1")


@pytest.mark.parametrize(
    ("targets", "asked", "expected"),
    [
        (_CU126, "9.0 10.0 12.0", "9.0"),
        (_CU126, "9.0 9.0a", "9.0a"),
        (_CU126, "8.0+PTX", "8.0+PTX"),
        (_CU126, "10.0f", ""),
        (_CU126, "5.0 7.5 8.0 9.0", "7.5 8.0 9.0"),
        (_CU128, "10.0f", "10.0f"),
        (_CU128, "9.0a 10.0a 12.0a", "9.0a 10.0a 12.0a"),
        (_CU130, "7.5 8.0 9.0 10.0 10.1 12.0", "7.5 8.0 9.0 10.0 12.0"),
        (_CU130, "12.1", "12.1"),
        (_CU130, "11.8", ""),
        # An older major version serves a target only where it is asked for with PTX.
        (_CU130, "8.0", "8.0"),
        (("9.0",), "8.0", ""),
        (("9.0",), "8.0+PTX", "8.0+PTX"),
        (("9.0",), "7.5+PTX 8.0", "7.5+PTX"),
        # With PTX in one place is with PTX everywhere.
        (_CU130, "8.0 8.0+PTX", "8.0+PTX"),
        # A family's value takes its base's place, and no other's.
        (_CU130, "10.0 10.0f 12.0", "10.0f 12.0"),
        ((), "8.0", ""),
        (_CU130, "", ""),
    ],
)
def test_intersect(targets: tuple[str, ...], asked: str, expected: str) -> None:
    assert capability.intersect(asked.split(), targets) == tuple(expected.split())


def test_order_and_duplicates_change_nothing() -> None:
    asked = ("12.0", "9.0a", "8.0+PTX", "10.0")
    expected = ("8.0+PTX", "9.0a", "10.0", "12.0")
    for order in itertools.permutations((*asked, "9.0a")):
        assert capability.intersect(order, reversed(_CU130)) == expected
        assert capability.choose(order, Version(13, 0)).chosen == expected


@pytest.mark.parametrize(
    ("cuda", "first", "last"),
    [
        ((11, 8), "7.0", "9.0+PTX"),
        ((12, 6), "7.0", "9.0+PTX"),
        ((12, 8), "7.0", "12.0+PTX"),
        ((12, 9), "7.0", "12.0+PTX"),
        ((13, 0), "7.5", "12.1+PTX"),
        ((13, 5), "7.5", "12.1+PTX"),
    ],
)
def test_without_a_list_all_that_are_current(cuda: tuple[int, int], first: str, last: str) -> None:
    chosen = capability.choose((), Version(*cuda)).chosen
    assert (chosen[0], chosen[-1]) == (first, last)
    assert capability.choose((), Version(*cuda)).dropped == ()


@pytest.mark.parametrize("cuda", [Version(12, 6), Version(12, 8), Version(13, 0)])
def test_the_default_is_known_and_can_be_made(cuda: Version) -> None:
    default = capability.default(cuda)
    assert capability.unknown(default) == ()
    assert capability.choose(default, cuda) == capability.Choice(chosen=default)


@pytest.mark.parametrize(
    ("cuda", "asked", "chosen", "dropped"),
    [
        ((13, 0), "7.0 7.5 10.1", "7.5", "7.0 10.1"),
        ((12, 6), "9.0a 10.0a", "9.0a", "10.0a"),
        # 12.8 lists 10.0, but its compiler does not know families yet.
        ((12, 8), "10.0f", "", "10.0f"),
        ((12, 9), "10.0f", "10.0f", ""),
        # Served by its features' own value.
        ((13, 0), "9.0 9.0a", "9.0a", "9.0"),
        # PTX of a version that the compiler cannot read any more.
        ((13, 0), "7.0+PTX", "", "7.0"),
    ],
)
def test_dropped_are_told(cuda: tuple[int, int], asked: str, chosen: str, dropped: str) -> None:
    choice = capability.choose(asked.split(), Version(*cuda))
    assert (choice.chosen, choice.dropped) == (tuple(chosen.split()), tuple(dropped.split()))


@pytest.mark.parametrize(
    ("asked", "devices", "chosen"),
    [
        ("", "9.0", "9.0"),
        ("", "12.1", "12.1"),
        # The newest code that runs on it.
        ("", "10.3", "10.0"),
        ("", "9.0 8.6", "8.6 9.0"),
        ("9.0a", "9.0", "9.0a"),
        ("8.0", "9.0", ""),
        ("8.0+PTX", "8.6", "8.0"),
        ("8.0+PTX", "9.0", "8.0+PTX"),
        ("8.0+PTX", "8.6 9.0", "8.0+PTX"),
        # A device that this CUDA knows nothing of.
        ("", "7.0", ""),
    ],
)
def test_narrowed_to_some_devices(asked: str, devices: str, chosen: str) -> None:
    choice = capability.choose(asked.split(), Version(13, 0), devices.split())
    assert (choice.chosen, choice.dropped) == (tuple(chosen.split()), ())


def test_unknown_are_named_in_the_order_given() -> None:
    assert capability.unknown(["9.0", "11.8", "banana", "8.0+PTX", "99999.0"]) == ("11.8", "banana", "99999.0")


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        ("9.0", "-gencode arch=compute_90,code=sm_90"),
        ("9.0a", "-gencode arch=compute_90a,code=sm_90a"),
        ("10.0f", "-gencode arch=compute_100f,code=sm_100f"),
        (
            "12.1+PTX",
            "-gencode arch=compute_121,code=sm_121 -gencode arch=compute_121,code=compute_121",
        ),
    ],
)
def test_flags(value: str, flags: str) -> None:
    assert capability.flags(value) == tuple(flags.split())
