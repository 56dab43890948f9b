"""Run by `kernels benchmark`: each benchmark_* is timed, and compared with the result and the time of its verify_*."""

import torch
import torch.nn.functional as F
from kernels.benchmark import Benchmark


class SiluAndMulBenchmark(Benchmark):
    seed = 42

    def prepare(self, rows: int, d: int, dtype: torch.dtype) -> None:
        # In [-1, 1), because results are compared with an absolute tolerance, and PyTorch's are rounded twice.
        self.x = (2 * torch.rand(rows, 2 * d, device=self.device) - 1).to(dtype)
        self.out = torch.empty(rows, d, device=self.device, dtype=dtype)
        self.reference = torch.empty_like(self.out)

    def setup_one_token(self) -> None:
        """The cost of a call."""
        self.prepare(1, 4096, torch.bfloat16)

    def setup_large(self) -> None:
        self.prepare(1024, 4096, torch.float32)

    def setup_large_bfloat16(self) -> None:
        self.prepare(1024, 4096, torch.bfloat16)

    def benchmark_one_token(self) -> None:
        self.kernel.silu_and_mul(self.x, out=self.out)

    def verify_one_token(self) -> torch.Tensor:
        gate, up = self.x.chunk(2, dim=-1)
        return torch.mul(F.silu(gate), up, out=self.reference)

    benchmark_large = benchmark_large_bfloat16 = benchmark_one_token
    verify_large = verify_large_bfloat16 = verify_one_token
