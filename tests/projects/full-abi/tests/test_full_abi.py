import kernels
import pytest
import torch

full_abi = kernels.get_kernel("kernelyard-test/full-abi", version=1)


def test_each_component_has_its_own_flags() -> None:
    x = torch.arange(5.0)
    torch.testing.assert_close(full_abi.plain(x), 2 * x)
    torch.testing.assert_close(full_abi.fast(x), 3 * x)


def test_errors_become_exceptions() -> None:
    with pytest.raises(ValueError, match="plain: x is empty"):
        full_abi.plain(torch.empty(0))
    with pytest.raises(RuntimeError, match="fast: x must be floating point"):
        full_abi.fast(torch.arange(3))
