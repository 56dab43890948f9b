"""Run by `kernels benchmark`: each benchmark_* is timed, and compared with the result and the time of its verify_*."""

import torch
from kernels.benchmark import Benchmark


class ReluBenchmark(Benchmark):
    seed = 42

    def prepare(self, *shape: int, dtype: torch.dtype = torch.float32) -> None:
        self.x = torch.randn(shape, device=self.device).to(dtype)

    def setup_small(self) -> None:
        """16 KiB: the cost of a call."""
        self.prepare(64, 64)

    def setup_large(self) -> None:
        """16 MiB: memory bandwidth."""
        self.prepare(2048, 2048)

    def setup_large_bfloat16(self) -> None:
        self.prepare(4096, 2048, dtype=torch.bfloat16)

    def benchmark_small(self) -> None:
        self.out = self.kernel.relu(self.x)

    def verify_small(self) -> torch.Tensor:
        return torch.relu(self.x)

    benchmark_large = benchmark_large_bfloat16 = benchmark_small
    verify_large = verify_large_bfloat16 = verify_small
