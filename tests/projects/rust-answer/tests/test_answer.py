from kernels import get_kernel


def test_answer() -> None:
    assert get_kernel("kernelyard-test/rust-answer", version=1).answer() == 111
