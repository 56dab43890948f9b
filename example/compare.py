# /// script
# requires-python = ">=3.10"
# dependencies = ["apache-tvm-ffi>=0.1.15,<0.2", "kernels>=0.17", "numpy", "torch>=2.5"]
# ///
"""Compare the Rust FlashAttention-2 kernel with PyTorch: `uv run example/compare.py [--device cuda]`.

The kernel is the one that this repository built (`./ci/doit build:flash-attn2-rs`), else what `get_kernel` finds: by
LOCAL_KERNELS, in the folder of downloaded kernels, or on the Hub.
"""

import argparse
import os
from pathlib import Path

import torch
from kernels import get_kernel

REPO_ID = "kernelyard/flash-attn2-rs"
BUILT = Path(__file__).resolve().parents[1] / "build" / "kernels" / "flash-attn2-rs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    device = parser.parse_args().device
    if device == "cuda" and not torch.cuda.is_available():
        parser.exit(1, "--device cuda: PyTorch sees no GPU; use a machine with one, and a CUDA build of PyTorch\n")

    local = os.environ.get("LOCAL_KERNELS", "")
    if BUILT.is_dir() and f"{REPO_ID}=" not in local:
        os.environ["LOCAL_KERNELS"] = f"{local}:{REPO_ID}={BUILT}".lstrip(":")
    kernel = get_kernel(REPO_ID, version=1, backend=device)

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 128, 8, 64).half().to(device) for _ in range(3))
    for causal in (False, True):
        out, _ = kernel.fwd(q, k, v, is_causal=causal)
        # PyTorch has heads before positions.
        expected = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(1, 2) for x in (q, k, v)), is_causal=causal
        ).transpose(1, 2)
        torch.testing.assert_close(out, expected, atol=2e-3, rtol=2.5e-2)
        print(f"causal={causal}: max|diff| = {(out - expected).abs().max().item():.2e}")  # noqa: T201


if __name__ == "__main__":
    main()
