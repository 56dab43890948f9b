"""CUDA images against what metadata.json declares."""

from __future__ import annotations

import pytest

from buildlib.check import images
from buildlib.check.images import Images

_SAID = """
Fatbin elf code:
================
arch = sm_75
code version = [1,8]

symbols:
FUNC          LOCAL   DEFAULT    ENTRY                                _Z1av
OBJECT        LOCAL   DEFAULT    -                                    _Z4data
FUNC          LOCAL   DEFAULT    -                                    _Z6helper

Fatbin elf code:
================
arch = sm_90a
symbols:
FUNC          GLOBAL  DEFAULT    ENTRY                                _Z1av
FUNC          GLOBAL  DEFAULT    ENTRY                                _Z1bv

Fatbin elf code:
================
arch = sm_121
symbols:
FUNC          GLOBAL  DEFAULT    ENTRY                                _Z1bv

Fatbin ptx code:
================
arch = sm_121
.version 9.0
.target sm_121
.visible .entry _Z1bv(
.func helper(
"""


def _sets(**archs: str) -> Images:
    return {kernel: frozenset(text.split()) for kernel, text in archs.items()}


def test_kernels_and_their_images_are_read() -> None:
    assert images.read(_SAID) == _sets(_Z1av="7.5 9.0a", _Z1bv="9.0a 12.1+PTX")


def test_nothing_is_read_where_there_is_nothing() -> None:
    assert images.read("") == {}


@pytest.mark.parametrize(
    ("found", "declared", "components", "problems"),
    [
        (_sets(a="8.0 9.0"), "8.0 9.0", [("8.0", "9.0")], []),
        (_sets(a="8.0", b="9.0a"), "8.0 9.0a", [("8.0",), ("9.0a",)], []),
        # A template that two components have in common.
        (_sets(a="8.0 9.0a"), "8.0 9.0a", [("8.0",), ("9.0a",)], []),
        # A component without a kernel.
        ({}, "8.0", [("8.0",)], []),
        (_sets(a="8.0"), "8.0 9.0", [("8.0",)], ["declares 9.0, for which there is no image"]),
        (_sets(a="8.0 9.0"), "8.0", [("8.0", "9.0")], ["does not declare 9.0, for which there are images"]),
        (
            _sets(a="8.0 9.0", b="8.0"),
            "8.0 9.0",
            [("8.0", "9.0")],
            ["the kernel b has images for 8.0, which no component is compiled for"],
        ),
        (
            _sets(a="9.0"),
            "9.0+PTX",
            [("9.0+PTX",)],
            [
                "declares 9.0+PTX, for which there is no image",
                "does not declare 9.0, for which there are images",
                "the kernel a has images for 9.0, which no component is compiled for",
            ],
        ),
    ],
)
def test_problems(found: Images, declared: str, components: list[tuple[str, ...]], problems: list[str]) -> None:
    by_component = {str(index): archs for index, archs in enumerate(components)}
    assert list(images.problems(found, declared.split(), by_component)) == problems


_TILE = """
Fatbin elf code:
================
arch = sm_80

symbols:
FUNC          GLOBAL  DEFAULT    ENTRY                                double_f32

Fatbin elf code:
================
arch = sm_100a

symbols:
FUNC          GLOBAL  DEFAULT    ENTRY                                double_f32

Fatbin tile ir code:
====================
arch = sm_100

Fatbin elf code:
================
arch = sm_80

symbols:
FUNC          GLOBAL  DEFAULT    ENTRY                                double_f16
"""


def test_tile_ir_is_of_the_kernels_before_it() -> None:
    assert images.read(_TILE) == _sets(double_f32="8.0 10.0a 10.0+PTX", double_f16="8.0")


def test_what_the_functions_take() -> None:
    said = (
        "arch = sm_80\n\nResource usage:\n Common:\n  GLOBAL:356 CONSTANT[4]:32\n Function a:\n"
        "  REG:40 STACK:48 SHARED:1024 LOCAL:0 CONSTANT[0]:396 TEXTURE:0 SURFACE:0 SAMPLER:0\n"
        "arch = sm_90a\n Function a:\n  REG:168 STACK:0 SHARED:0 LOCAL:0\n"
    )
    first, second = images.usage(said)
    assert (first.function, first.arch, first.registers, first.stack, first.shared) == ("a", "sm_80", 40, 48, 1024)
    assert (second.arch, second.registers) == ("sm_90a", 168)
