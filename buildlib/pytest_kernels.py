"""A pytest plugin for the process in which a kernel's tests run."""

from __future__ import annotations

import pytest

# Upstream's kernels use these; an unregistered marker is an error under --strict-markers.
_MARKERS = (
    "kernels_ci: quick enough for every pull request",
    "flaky: may be repeated",
    "jax_only: needs JAX",
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers that kernels use."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
