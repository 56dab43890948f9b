"""What is reported of a build.toml that loads."""

from __future__ import annotations

import pytest

from buildlib import config
from buildlib.check import build_toml
from buildlib.config.model import Kernel
from buildlib.errors import CheckError
from buildlib.workspace import Workspace
from tests.unit.factories import write_files

TOML = """\
[general]
name = "relu"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cuda"]
[torch-noarch]
"""
BAD_LICENSE = TOML.replace("Apache-2.0", "apache two")
BAD_CAPABILITY = TOML + 'cuda_capabilities = ["9.0", "sm_90"]\n'
BAD_DEPENDS = TOML.replace("backends", 'python-depends = ["pandas"]\nbackends')


def load(workspace: Workspace, toml: str) -> Kernel:
    folder = write_files(workspace.root / "kernels" / "relu", {"build.toml": toml})
    workspace.cache.forget(folder)
    return config.load(folder / "build.toml")


def test_nothing_to_say(workspace: Workspace) -> None:
    kernel = load(workspace, TOML)
    assert not build_toml.up_to_date(kernel, workspace)
    assert build_toml.check(kernel, workspace) == ""
    assert build_toml.up_to_date(kernel, workspace)


def test_a_remark_stops_nothing_and_is_made_each_time(workspace: Workspace) -> None:
    kernel = load(workspace, BAD_LICENSE)
    said = build_toml.check(kernel, workspace)
    assert said.startswith("\n  kernels/relu/build.toml:5: [general] key 'license': 'apache two' is not an SPDX")
    assert not build_toml.up_to_date(kernel, workspace)


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (
            BAD_CAPABILITY,
            "kernels/relu/build.toml:8: [torch-noarch] key 'cuda_capabilities' item 2: 'sm_90' is not a",
        ),
        (
            BAD_CAPABILITY.replace("Apache-2.0", "apache two"),
            "kernels/relu/build.toml:8: [torch-noarch] key 'cuda_capabilities' item 2: 'sm_90' is not a",
        ),
        (BAD_DEPENDS, "kernels/relu/build.toml:6: [general] key 'python-depends' item 1: 'pandas' is not allowed here"),
    ],
)
def test_what_a_kernel_cannot_be_used_with_is_an_error(workspace: Workspace, toml: str, said: str) -> None:
    kernel = load(workspace, toml)
    with pytest.raises(CheckError) as caught:
        build_toml.check(kernel, workspace)
    assert str(caught.value).startswith(said)
    assert not build_toml.up_to_date(kernel, workspace)


def test_an_edit_is_looked_at(workspace: Workspace) -> None:
    build_toml.check(load(workspace, TOML), workspace)
    assert not build_toml.up_to_date(load(workspace, TOML + "# More.\n"), workspace)
