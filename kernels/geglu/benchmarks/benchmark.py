"""Run by `kernels benchmark`: each benchmark_* is timed, and compared with the result and the time of its verify_*."""

import torch
import torch.nn.functional as F
from kernels.benchmark import Benchmark


class GegluBenchmark(Benchmark):
    seed = 42

    def setup(self) -> None:
        self.x = torch.randn(1024, 8192, device=self.device)

    def benchmark_base(self) -> None:
        self.out = self.kernel.geglu(self.x)

    def verify_base(self) -> torch.Tensor:
        gate, up = self.x.chunk(2, dim=-1)
        return F.gelu(gate) * up

    def benchmark_tanh(self) -> None:
        self.out = self.kernel.geglu(self.x, approximate="tanh")

    def verify_tanh(self) -> torch.Tensor:
        gate, up = self.x.chunk(2, dim=-1)
        return F.gelu(gate, approximate="tanh") * up
