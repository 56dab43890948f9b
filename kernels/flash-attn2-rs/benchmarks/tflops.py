"""TFLOP/s of the kernel and of PyTorch's scaled_dot_product_attention on a GPU, for each shape, as JSON.

    python tflops.py --device cuda [--dtype float16 bfloat16] [--shape 1 16384 16 128] [--rounds 20]

Without a shape, those that papers on attention use: 16384 tokens in batches, and 2048 numbers in the heads of each.
The kernel is kernelyard/flash-attn2-rs as `get_kernel` finds it, for instance by LOCAL_KERNELS. A causal mask counts as
half of the work. The median round counts; before each one, the GPU's cache is overwritten.
"""

import argparse
import functools
import itertools
import json
import statistics
import sys
from collections.abc import Callable

import kernels
import torch

SHAPES = [
    [16384 // length, length, 2048 // dim, dim]
    for dim in (64, 128, 256)
    for length in (512, 1024, 2048, 4096, 8192, 16384)
]


def milliseconds(run: Callable[[], object], rounds: int, device: torch.device) -> float:
    """Of the median round."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device=device)
    for _ in range(3):
        run()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(rounds)]
    for start, end in events:
        flush.zero_()
        start.record()
        run()
        end.record()
    torch.cuda.synchronize(device)
    return statistics.median(start.elapsed_time(end) for start, end in events)


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    tensors = (x.transpose(1, 2) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda",), default="cuda", help="for the CPU there is gflops.py")
    parser.add_argument("--dtype", choices=("float16", "bfloat16"), nargs="+", default=["float16", "bfloat16"])
    parser.add_argument("--shape", type=int, nargs=4, action="append", metavar=("B", "S", "H", "D"))
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(1, "--device cuda: PyTorch sees no GPU; use a machine with one, and a CUDA build of PyTorch\n")
    device = torch.device(options.device)
    kernel = kernels.get_kernel("kernelyard/flash-attn2-rs", version=1, backend="cuda")
    results = []
    for dtype, shape, causal in itertools.product(options.dtype, options.shape or SHAPES, (False, True)):
        batch, length, heads, dim = shape
        tensors = [torch.randn(shape, device=device).to(getattr(torch, dtype)) for _ in range(3)]
        work = 4 * batch * heads * length * length * dim / (2 if causal else 1)
        rates = {
            name: work / milliseconds(functools.partial(run, *tensors, **{key: causal}), options.rounds, device) / 1e9
            for name, run, key in (("kernel", kernel.fwd, "is_causal"), ("sdpa", sdpa, "causal"))
        }
        results.append({"dtype": dtype, "shape": shape, "causal": causal, "tflops": rates})
        print(results[-1], file=sys.stderr, flush=True)
    name = torch.cuda.get_device_name(device)
    print(json.dumps({"device": name, "torch": torch.__version__, "results": results}))


if __name__ == "__main__":
    main()
