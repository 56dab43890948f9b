"""GFLOP/s of the kernel and of PyTorch's scaled_dot_product_attention, and how many times faster the kernel is.

    python gflops.py [--threads 1 8] [--rounds 9] [--shape 1 2048 8 64] [--simd auto avx2]

The kernel is kernelyard/flash-attn2-rs as `get_kernel` finds it, for instance by LOCAL_KERNELS. Candidates take turns,
so that what else the machine does meets them alike, and the best round counts. With one thread, the CPU's time is
measured and not the clock's, for other processes hardly change it.
"""

import argparse
import functools
import itertools
import time
from collections.abc import Callable

import kernels
import torch


def best_times(
    candidates: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Seconds of each candidate's best round."""
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds + 1):
        for name, run in candidates.items():
            start = clock()
            run()
            best[name] = min(best[name], clock() - start)
    return best


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    tensors = (x.transpose(1, 2) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, torch.get_num_threads()}))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--shape", type=int, nargs=4, default=[1, 2048, 8, 64], metavar=("B", "S", "H", "D"))
    parser.add_argument("--simd", nargs="+", default=["auto"])
    options = parser.parse_args()
    kernel = kernels.get_kernel("kernelyard/flash-attn2-rs", version=1, backend="cpu")
    batch, length, heads, dim = options.shape
    print(f"{'threads':>7} {'dtype':>9} {'causal':>6} {'SDPA':>6}", *(f"{path:>16}" for path in options.simd))
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    for threads, dtype, causal in itertools.product(options.threads, dtypes, (False, True)):
        torch.set_num_threads(threads)
        tensors = [torch.randn(batch, length, heads, dim).to(dtype) for _ in range(3)]
        candidates = {"SDPA": functools.partial(sdpa, *tensors, causal)}
        for path in options.simd:
            candidates[path] = functools.partial(kernel.fwd, *tensors, is_causal=causal, simd=path)
        clock = time.process_time if threads == 1 else time.perf_counter
        seconds = best_times(candidates, options.rounds, clock)
        work = 4 * batch * heads * length * length * dim / (2 if causal else 1) / 1e9
        rates = [f"{work / seconds[path]:8.0f} ({seconds['SDPA'] / seconds[path]:.2f}x)" for path in options.simd]
        print(f"{threads:7} {str(dtype)[6:]:>9} {causal!s:>6} {work / seconds['SDPA']:6.0f}", *rates, flush=True)


if __name__ == "__main__":
    main()
