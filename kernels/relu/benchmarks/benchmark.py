"""Run by `kernels benchmark`: each benchmark_* is timed, and compared with the result and the time of its verify_*."""

import torch
from kernels.benchmark import Benchmark


class ReluBenchmark(Benchmark):
    seed = 42

    def prepare(self, *shape: int, dtype: torch.dtype = torch.float32) -> None:
        self.x = torch.randn(shape, device=self.device).to(dtype)
        self.out = torch.empty_like(self.x)
        self.reference = torch.empty_like(self.x)

    def setup_small(self) -> None:
        """16 KiB: the cost of a call."""
        self.prepare(64, 64)

    def setup_large(self) -> None:
        """16 MiB: memory bandwidth."""
        self.prepare(2048, 2048)

    def setup_large_bfloat16(self) -> None:
        self.prepare(4096, 2048, dtype=torch.bfloat16)

    def setup_large_transposed(self) -> None:
        """As fast as large, because the result is transposed too."""
        self.prepare(2048, 2048)
        self.x, self.out, self.reference = self.x.t(), self.out.t(), self.reference.t()

    def benchmark_small(self) -> None:
        self.kernel.relu(self.x, out=self.out)

    def verify_small(self) -> torch.Tensor:
        return torch.clamp_min(self.x, 0, out=self.reference)  # torch.relu takes no out=.

    benchmark_large = benchmark_large_bfloat16 = benchmark_large_transposed = benchmark_small
    verify_large = verify_large_bfloat16 = verify_large_transposed = verify_small
