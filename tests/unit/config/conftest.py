"""Build.toml files to test with: some of our own, with every key in them, and the corpus, where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

_CORPUS = Path(__file__).parents[4] / "shared/corpus/build-toml"

_EDITION_5 = """\
# What the kernel is.
[general]
name = "every-key"  # not its folder
version = 2
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda", "metal", "rocm", "xpu"]
upstream = "https://example.org/upstream.git"
source = "git@example.org:kernels/every-key"
kernel-depends = [
    { repo-id = "example/one", version = 1 },
    { repo-id = "example/two", revision = "0123abc" },
]
python-depends = ["einops"]

[general.cuda]
minver = "12.6"
maxver = "13.0"
kernel-depends = [{ repo-id = "example/three", version = 0 }]
python-depends = ["nvidia-cutlass-dsl"]

[general.neuron]
kernel-depends = []
python-depends = ["nki"]

[general.tpu]
python-depends = []

[general.xpu]
kernel-depends = [{ repo-id = "example/four", revision = "main" }]
python-depends = ["onednn"]

[general.hub]
repo-id = "example/every-key"
branch = "next"

[torch]
src = [
    "torch-ext/torch_binding.cpp",
    "torch-ext/torch_binding.h",
]
include = ["."]
pyext = ["py", "json"]
cxx-flags = ["-O2", "-DA=1"]
minver = "2.9"
maxver = "2.13"
stable-abi = { cuda = "2.11", cpu = "2.10" }

[kernel.on_cpu]
backend = "cpu"  # the slow one
depends = ["torch"]
src = ["cpu/kernel.cpp"]
include = ["cpu"]
cxx-flags = ["-march=x86-64-v3"]

[kernel.on_cuda]
backend = "cuda"
cuda-capabilities = ["8.0", "9.0a"]
cuda-flags = ["-O3", "--ptxas-options=-v,-O3"]
cuda-minver = "12.8"
depends = ["torch", "cutlass_4_0"]
src = ["cuda/kernel.cu"]
include = ["cuda"]
cxx-flags = []

[kernel.on_metal]
backend = "metal"
depends = ["torch", "metal-cpp"]
src = ["metal/kernel.mm"]

[kernel.on_rocm]
backend = "rocm"
rocm-archs = ["gfx942"]
hip-flags = ["-O3"]
depends = ["torch"]
src = ["cuda/kernel.cu"]

[kernel.on_xpu]
backend = "xpu"
sycl-flags = ["-O3"]
depends = ["torch", "sycl_tla"]
src = ["xpu/kernel.cpp"]
"""

_EDITION_4 = """\
[general]
name = "no-edition"
version = 1
license = "MIT"
backends = ["cpu", "cuda"]
upstream = "ssh://git@example.org/upstream"
source = "git+https://example.org/source"
python-depends = ["einops"]

[general.cuda]
minver = "12.6"
python-depends = ["nvidia-cutlass-dsl"]

[general.hub]
repo-id = "example/no-edition"

[torch]
src = ["torch-ext/torch_binding.cpp"]
cxx-flags = ["-O2"]
stable-abi = "2.11"

[kernel.one]
backend = "cuda"
depends = ["torch"]
src = ["one.cu"]
"""

_NOARCH = """\
[general]
name = "noarch"
version = 0
edition = 5
license = "BSD-3-Clause"
backends = ["cuda", "rocm", "cann", "neuron", "tpu"]

[torch-noarch]
pyext = ["py", "json"]
cuda_capabilities = ["9.0"]
rocm_archs = ["gfx942"]

[kernel]
"""

_TVM_FFI = """\
[general]
name = "tvm"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu"]

[tvm-ffi]
src = ["tvm-ffi-ext/binding.cpp"]
include = ["include"]
pyext = ["pyi"]
cxx-flags = ["-O1"]

[kernel."in quotes"]
backend = "cpu"
depends = []
src = ["kernel.cpp"]
"""

_EDITION_3 = """\
[general]
name = "legacy"
license = "MIT"
backends = ["cuda"]

[torch]
src = ["torch-ext/torch_binding.cpp"]
include = ["include"]
minver = "2.9"

[kernel.one]
backend = "cuda"
depends = ["torch"]
src = ["one.cu"]
"""

SAMPLES = {
    "edition-5": _EDITION_5,
    "edition-4": _EDITION_4,
    "noarch": _NOARCH,
    "tvm-ffi": _TVM_FFI,
    "edition-3": _EDITION_3,
}


@pytest.fixture(scope="session")
def samples() -> dict[str, str]:
    """Texts that hold between them every key of the editions up to 5."""
    return SAMPLES


@pytest.fixture(scope="session")
def corpus() -> list[Path]:
    """Real build.toml files."""
    files = sorted(_CORPUS.glob("*/*/build.toml"))
    if not files:
        pytest.skip("there is no corpus beside this checkout")
    return files
