"""Run by `kernels benchmark`: each benchmark_* is timed, and compared with the result and the time of its verify_*."""

import torch
from kernels.benchmark import Benchmark


class RmsNormBenchmark(Benchmark):
    seed = 42

    def prepare(self, *shape: int, dtype: torch.dtype = torch.float32) -> None:
        self.x = torch.randn(shape, device=self.device).to(dtype)
        self.weight = torch.randn(shape[-1], device=self.device).to(dtype)

    def setup_small(self) -> None:
        """The cost of a call."""
        self.prepare(8, 512)

    def setup_large(self) -> None:
        """64 MiB: memory bandwidth."""
        self.prepare(4096, 4096)

    def setup_large_bfloat16(self) -> None:
        self.prepare(8192, 4096, dtype=torch.bfloat16)

    def benchmark_small(self) -> None:
        self.out = self.kernel.rms_norm(self.x, self.weight)

    def verify_small(self) -> torch.Tensor:
        return torch.nn.functional.rms_norm(self.x, self.weight.shape, self.weight)

    benchmark_large = benchmark_large_bfloat16 = benchmark_small
    verify_large = verify_large_bfloat16 = verify_small
