import kernels
import pytest


@pytest.fixture(scope="session")
def kernel():
    return kernels.get_kernel("kernelyard/relu-rs", version=1, backend="cpu")
