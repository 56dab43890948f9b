"""Run by `kernels benchmark`: each benchmark_* is timed, and compared with the result and the time of its verify_*."""

import torch
from kernels.benchmark import Benchmark


class FlashAttention(Benchmark):
    seed = 42

    def prepare(self, queries: int, keys: int, heads: int, dim: int, dtype: torch.dtype, causal: bool) -> None:
        # On a GPU there is no float32.
        dtype = torch.float16 if torch.device(self.device).type == "cuda" and dtype == torch.float32 else dtype
        self.q = torch.randn(1, queries, heads, dim, device=self.device).to(dtype)
        self.k, self.v = (torch.randn(1, keys, heads, dim, device=self.device).to(dtype) for _ in range(2))
        self.causal = causal

    def setup_float32(self) -> None:
        self.prepare(2048, 2048, 8, 64, torch.float32, causal=False)

    def setup_float32_causal(self) -> None:
        self.prepare(2048, 2048, 8, 64, torch.float32, causal=True)

    def setup_bfloat16(self) -> None:
        self.prepare(2048, 2048, 8, 64, torch.bfloat16, causal=False)

    def setup_bfloat16_causal(self) -> None:
        self.prepare(2048, 2048, 8, 64, torch.bfloat16, causal=True)

    def setup_headdim_128_causal(self) -> None:
        self.prepare(512, 512, 8, 128, torch.float32, causal=True)

    def setup_one_query(self) -> None:
        self.prepare(1, 4096, 8, 128, torch.bfloat16, causal=False)

    def benchmark_float32(self) -> None:
        self.out, _ = self.kernel.fwd(self.q, self.k, self.v, is_causal=self.causal)

    def verify_float32(self) -> torch.Tensor:
        q, k, v = (x.transpose(1, 2) for x in (self.q, self.k, self.v))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return out.transpose(1, 2)

    benchmark_float32_causal = benchmark_bfloat16 = benchmark_bfloat16_causal = benchmark_float32
    benchmark_headdim_128_causal = benchmark_one_query = benchmark_float32
    verify_float32_causal = verify_bfloat16 = verify_bfloat16_causal = verify_float32
    verify_headdim_128_causal = verify_one_query = verify_float32
