import pytest
from kernels import get_kernel


@pytest.mark.kernels_ci
def test_answer() -> None:
    kernel = get_kernel("kernelyard-test/answer", version=1)
    assert kernel.answer() == 111
    assert kernel.DATA == {"unit": "none"}
