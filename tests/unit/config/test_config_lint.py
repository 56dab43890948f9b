"""Findings: what the reference parser lets pass, and what is most likely a mistake."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from buildlib import config
from buildlib.config.lint import PYTHON_DEPENDS, Finding, findings
from buildlib.variant import Backend

GENERAL = """\
[general]
name = "relu"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cuda", "rocm"]
"""
KERNELS = """\
[kernel.on_cuda]
backend = "cuda"
cuda-capabilities = ["9.0"]
depends = []
src = []
[kernel.on_rocm]
backend = "rocm"
rocm-archs = ["gfx942"]
depends = []
src = []
"""
TEXT = GENERAL + "[torch]\n" + KERNELS
NOARCH = GENERAL + "[torch-noarch]\n"
UNKNOWN_LICENSE = (
    "is not an SPDX license expression; use an identifier of https://spdx.org/licenses, "
    "or LicenseRef-<name> for a license of your own"
)

CASES = {
    "nothing": (TEXT, []),
    "nothing without a component": (NOARCH, []),
    "an unknown license": (
        TEXT.replace("Apache-2.0", "other"),
        [f"5: [general] key 'license': 'other' {UNKNOWN_LICENSE}"],
    ),
    "no license": (TEXT.replace("Apache-2.0", ""), [f"5: [general] key 'license': '' {UNKNOWN_LICENSE}"]),
    "a license expression": (TEXT.replace("Apache-2.0", "mit OR LicenseRef-own"), []),
    "an unknown Python package": (
        TEXT.replace("[torch]", 'python-depends = ["einops", "einopps"]\n[torch]'),
        [
            (
                "7: [general] key 'python-depends' item 2: 'einopps' is not allowed here; "
                "did you mean 'einops'? allowed are einops, helion, tvm-ffi"
            )
        ],
    ),
    "a Python package of another backend": (
        NOARCH.replace("[torch", '[general.cuda]\npython-depends = ["nki"]\n[torch'),
        [("8: [general.cuda] key 'python-depends' item 1: 'nki' is not allowed here; allowed are nvidia-cutlass-dsl")],
    ),
    "a Python package where there are none": (
        NOARCH.replace('"rocm"', '"tpu"').replace("[torch", '[general.tpu]\npython-depends = ["einops"]\n[torch'),
        [("8: [general.tpu] key 'python-depends' item 1: 'einops' is not allowed here; allowed are none")],
    ),
    "no backend": (
        NOARCH.replace('["cuda", "rocm"]', "[]"),
        ["6: [general] key 'backends': no backend is declared; name one, as nothing is built without"],
    ),
    "a component whose backend is not declared": (
        TEXT.replace('"cuda", "rocm"', '"cuda"'),
        [
            (
                "13: [kernel.on_rocm]: a component for rocm, which [general] backends does not declare; "
                "add rocm there, or drop the component"
            )
        ],
    ),
    "settings for a backend that is not declared": (
        TEXT.replace("[torch]", "[general.xpu]\n[torch]"),
        [
            (
                "7: [general.xpu]: settings for xpu, which [general] backends does not declare; "
                "add xpu there, or drop the table"
            )
        ],
    ),
    "backends without a component": (
        TEXT.replace('"rocm"]', '"rocm", "cpu", "xpu"]'),
        [
            (
                "6: [general] key 'backends': no component is for cpu, xpu; "
                "add one for each, or expect the Python package alone to be published for it"
            )
        ],
    ),
    "a stable ABI for a backend that is not declared": (
        TEXT.replace("[torch]", '[torch.stable-abi]\ncuda = "2.10"\ncpu = "2.10"'),
        ["9: [torch.stable-abi] key 'cpu': cpu is not among [general] backends; add it there, or drop this key"],
    ),
    "torch bounds without a version": (
        TEXT.replace("[torch]", '[torch]\nmaxver = "2.9"\nminver = "2.10"'),
        ["9: [torch] key 'minver': 2.10 is above maxver, 2.9; correct one of the two, as no version is within them"],
    ),
    "CUDA bounds without a version": (
        TEXT.replace("[torch]", '[general.cuda]\nmaxver = "12.9"\nminver = "13.0"\n[torch]'),
        [
            (
                "9: [general.cuda] key 'minver': 13.0 is above maxver, 12.9; "
                "correct one of the two, as no version is within them"
            )
        ],
    ),
    "a component that is never built": (
        TEXT.replace("[torch]", '[general.cuda]\nmaxver = "12.8"\n[torch]').replace(
            "cuda-cap", 'cuda-minver = "12.9"\ncuda-cap'
        ),
        [
            (
                "12: [kernel.on_cuda] key 'cuda-minver': 12.9 is above [general.cuda] maxver, 12.8; "
                "correct one of the two, as the component is never built"
            )
        ],
    ),
    "a component of a kernel that compiles nothing": (
        NOARCH + KERNELS[: KERNELS.index("[kernel.on_rocm]")],
        [
            (
                "8: [kernel.on_cuda]: a component of a [torch-noarch] kernel, of which nothing is compiled; "
                "drop it, or write [torch] for [torch-noarch]"
            )
        ],
    ),
    "a capability that is none": (
        TEXT.replace('["9.0"]', '["9.0", "9.0", "sm_90"]'),
        [
            (
                "10: [kernel.on_cuda] key 'cuda-capabilities' item 3: 'sm_90' is not a CUDA capability; "
                "write <major>.<minor>, with an a or f, or +PTX, where wanted, as in 9.0a or 12.0+PTX"
            )
        ],
    ),
    "an arch that is none": (
        TEXT.replace('"gfx942"', '"MI300"'),
        [
            (
                "15: [kernel.on_rocm] key 'rocm-archs' item 1: 'MI300' is not a ROCm arch; "
                "write it as in gfx942 or gfx90a:xnack-"
            )
        ],
    ),
    "targets that are none, of a kernel that compiles nothing": (
        NOARCH + 'cuda_capabilities = ["banana"]\nrocm_archs = ["90a"]\n',
        [
            (
                "8: [torch-noarch] key 'cuda_capabilities' item 1: 'banana' is not a CUDA capability; "
                "write <major>.<minor>, with an a or f, or +PTX, where wanted, as in 9.0a or 12.0+PTX"
            ),
            (
                "9: [torch-noarch] key 'rocm_archs' item 1: '90a' is not a ROCm arch; "
                "write it as in gfx942 or gfx90a:xnack-"
            ),
        ],
    ),
    "a spelling that is read here alone": (
        NOARCH + 'cuda-capabilities = ["9.0"]\n',
        [
            (
                "8: [torch-noarch] key 'cuda-capabilities': the kernels package reads this key as 'cuda_capabilities' "
                "alone; write cuda_capabilities, for the file to be read everywhere"
            )
        ],
    ),
    "the same spelling in edition 6": (
        NOARCH.replace("edition = 5", "edition = 6") + 'cuda-capabilities = ["9.0"]\n',
        [],
    ),
}


def _findings(folder: Path, text: str) -> tuple[Finding, ...]:
    file = folder / "build.toml"
    file.write_text(text, encoding="utf-8")
    return findings(config.parse(file), file, text)


@pytest.mark.parametrize(("text", "expected"), [*CASES.values()], ids=[*CASES])
def test_findings(tmp_path: Path, text: str, expected: list[str]) -> None:
    found = _findings(tmp_path, text)
    assert [str(finding).removeprefix(f"{tmp_path / 'build.toml'}:") for finding in found] == expected


@pytest.mark.parametrize("name", ["5.0", "9.0a", "10.0f", "12.1+PTX", "9.0a+PTX", "11.8", "99999.0"])
def test_capabilities(tmp_path: Path, name: str) -> None:
    assert _findings(tmp_path, TEXT.replace("9.0", name)) == ()


@pytest.mark.parametrize("name", ["9", "90", "9.0b", "9.0A", "9.0+ptx", "09.0", "9.00", "9.0 ", "", "+PTX"])
def test_what_is_no_capability(tmp_path: Path, name: str) -> None:
    assert len(_findings(tmp_path, TEXT.replace("9.0", name))) == 1


@pytest.mark.parametrize("name", ["gfx90a", "gfx1100", "gfx90a:xnack+", "gfx908:sramecc+:xnack-", "gfx9-4-generic"])
def test_archs(tmp_path: Path, name: str) -> None:
    assert _findings(tmp_path, TEXT.replace("gfx942", name)) == ()


def test_python_depends_are_those_of_the_reference() -> None:
    theirs = json.loads(files("kernels").joinpath("python_depends.json").read_text(encoding="utf-8"))
    depends: dict[Backend | None, tuple[str, ...]] = {None: tuple(theirs["general"])}
    depends |= {Backend(backend): tuple(names) for backend, names in theirs["backends"].items() if names}
    assert depends == PYTHON_DEPENDS


def test_corpus(corpus: list[Path]) -> None:
    counts = {}
    for file in corpus:
        if found := findings(config.parse(file), file, file.read_text(encoding="utf-8")):
            counts[file.parent.name] = [finding.key for finding in found]
    assert counts == {
        "flash-attn2": ["[torch.stable-abi] key 'rocm'"],
        "msa": ["[general] key 'license'"],
        "relu-invalid-capability": ["[general] key 'backends'"],
        "relu-torch-stable-abi": ["[general] key 'backends'"],
    }
