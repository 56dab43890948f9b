"""clang as the compiler of C++, and as the one that CUDA's compiler works with."""

from __future__ import annotations

import shutil

import pytest

from tests.integration.conftest import Yard

# Not newer ones: CUDA 13.0 refuses them.
_NAMES = ("clang++-20", "clang++-19", "clang++-18", "clang++-17", "clang++-16", "clang++-15")
_CLANG = next((name for name in _NAMES if shutil.which(name)), None)
pytestmark = pytest.mark.skipif(_CLANG is None, reason="needs clang 15 to 20")


@pytest.mark.parametrize("project", ["answer", "stable", "cuda"])
def test_an_artifact_passes_its_checks(yard: Yard, project: str) -> None:
    assert _CLANG is not None
    yard.add(project)
    variant = "*cu130-x86_64*" if project == "cuda" else "*cpu-x86_64*"
    result = yard.doit(f"check:{project}:{variant}", CXX=_CLANG)
    if project == "cuda" and "cannot be fetched" in result.out:
        pytest.skip(result.out)
    assert result.status == 0, result.out
    assert yard.metadata(project)["kernelyard"]["toolchain"][0].startswith("clang ")
