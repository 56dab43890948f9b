import json
from pathlib import Path

import kernels
import pytest
import torch


@pytest.fixture(scope="session")
def kernel():
    return kernels.get_kernel("kernelyard/flash-attn2-rs", version=1)


@pytest.fixture(scope="session")
def device(kernel):
    """The device that the loaded variant was built for; on a machine with a GPU, that may still be the CPU."""
    backend = json.loads(Path(kernel.__file__).with_name("metadata.json").read_text())["backend"]["type"]
    if backend == "cuda" and not torch.cuda.is_available():
        pytest.skip("a CUDA variant needs a GPU, and torch sees none")
    return torch.device(backend)


@pytest.fixture(scope="session")
def on_cpu(device):
    if device.type != "cpu":
        pytest.skip("for the CPU alone")


@pytest.fixture(scope="session")
def on_gpu(device):
    if device.type != "cuda":
        pytest.skip("for a GPU alone")
