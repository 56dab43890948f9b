"""FlashAttention-2 forward, written in Rust, for the CPU or, with tensor cores, for CUDA devices."""

from typing import Optional, Union

import torch

from ._ops import ops

__all__ = ["flash_attn_func", "fwd", "simd_paths"]

# A variant is for one type of device.
_DEVICE = str(ops.device_type())
# In elements, for the dtypes that the CUDA variant takes: it reads 16 bytes at once.
_ALIGNMENT = 8


def fwd(  # noqa: PLR0913, PLR0917 - the reference kernel's arguments
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    alibi_slopes: Optional[torch.Tensor] = None,
    softmax_scale: Optional[float] = None,
    is_causal: bool = False,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    *,
    num_threads: Optional[int] = None,
    simd: str = "auto",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of ``q`` to ``k`` and ``v``; returns ``(out, lse)``.

    For each query, with ``position = query + seqlen_k - seqlen_q``, so that the last query stands at the last key::

        logit[key] = softcap * tanh(q @ k[key] * softmax_scale / softcap) - alibi_slope * abs(position - key)
        out = softmax(logit) @ v
        lse = log(sum(exp(logit)))

    over the keys in ``position - window_size_left <= key <= position + window_size_right``.

    Args:
        q: ``[batch, seqlen_q, heads, headdim]`` in float16, bfloat16 or, on the CPU, float32; ``headdim`` is a multiple
            of 8 up to 256.
        k, v: ``[batch, seqlen_k, heads_k, headdim]``. ``heads_k`` divides ``heads``: query head ``h`` attends to key
            head ``h // (heads // heads_k)``.
        alibi_slopes: ``[heads]`` or ``[batch, heads]``, in float32.
        softmax_scale: ``headdim ** -0.5`` if None.
        is_causal: the same as ``window_size_right=0``.
        window_size_left, window_size_right: negative is no limit.
        softcap: 0 is none.
        num_threads: on the CPU, ``torch.get_num_threads()`` if None. 0 is what the last call asked for, and at first
            what ``RAYON_NUM_THREADS`` says, else ``OMP_NUM_THREADS``, else the number of CPUs. It does not change
            results.
        simd: on the CPU, the instruction set, one of ``simd_paths()``; ``"auto"`` is the fastest.

    Returns:
        ``out``, like ``q``, and ``lse``, ``[batch, heads, seqlen_q]`` in float32. A query that sees no key gets an
        ``out`` of 0 and an ``lse`` of infinity, as in the reference kernel.

    Tensors may have any strides; one that is not contiguous in its last dimension is copied first, and on a CUDA device
    also one whose rows do not start at multiples of 16 bytes. There is no backward: call it under ``torch.no_grad()``,
    or with tensors that do not require grad.
    """
    for name, tensor in (("q", q), ("k", k), ("v", v), ("alibi_slopes", alibi_slopes)):
        if tensor is None and name == "alibi_slopes":
            continue
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"fwd: {name} must be a torch.Tensor, not {type(tensor).__name__}")
        if tensor.device.type != _DEVICE:
            place = "the CPU" if _DEVICE == "cpu" else "a CUDA device; this build is for the CUDA backend"
            raise ValueError(f"fwd: {name} is on {tensor.device}; must be on {place}")
        if tensor.layout != torch.strided:
            raise ValueError(f"fwd: {name} is {tensor.layout}; must be strided")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(f"fwd: {name} requires grad, but there is no backward; use torch.no_grad()")
    arguments = (
        _readable(q),
        _readable(k),
        _readable(v),
        alibi_slopes,
        softmax_scale,
        is_causal,
        window_size_left,
        window_size_right,
        softcap,
    )
    if _DEVICE == "cpu":
        out, lse = ops.fwd(*arguments, torch.get_num_threads() if num_threads is None else num_threads, simd)
    else:
        out, lse = ops.fwd(*arguments)
    return out, lse


def flash_attn_func(  # noqa: PLR0913, PLR0917 - flash_attn's arguments
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[torch.Tensor] = None,
    return_lse: bool = False,
) -> Union[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """``fwd`` by the names that flash_attn's function of this name uses, for inference; returns ``out``, or both."""
    out, lse = fwd(q, k, v, alibi_slopes, softmax_scale, causal, window_size[0], window_size[1], softcap)
    return (out, lse) if return_lse else out


def simd_paths() -> list[str]:
    """The instruction sets that ``fwd`` can use on this CPU, the fastest last; none where it runs on a CUDA device."""
    return [str(path) for path in ops.simd_paths()] if _DEVICE == "cpu" else []


def _readable(x: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy where the library could not read it."""
    if x.dim() == 0 or (x.stride(-1) == 1 and (_DEVICE == "cpu" or _has_aligned_rows(x))):
        return x
    return x.clone(memory_format=torch.contiguous_format)


def _has_aligned_rows(x: torch.Tensor) -> bool:
    outer = [stride for size, stride in zip(x.shape[:-1], x.stride()) if size > 1]
    expanded = x.dim() > 1 and x.shape[1] > 1 and x.stride(1) == 0
    return not expanded and x.data_ptr() % 16 == 0 and all(stride % _ALIGNMENT == 0 for stride in outer)
