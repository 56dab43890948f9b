from typing import Optional

import torch

from ._ops import ops
from ._ops import torch_add_op_namespace_prefix as add_op_namespace_prefix

# A variant has the function of its own backend only.
_run_cpu = getattr(ops, "silu_and_mul_cpu", None)
_run_cuda = getattr(ops, "silu_and_mul_cuda", None)


def silu_and_mul(x: torch.Tensor, out: Optional[torch.Tensor] = None, *, isa: Optional[str] = None) -> torch.Tensor:
    """Return silu(x[..., :d]) * x[..., d:], where x.shape[-1] == 2 * d and silu(v) = v / (1 + exp(-v)).

    dtypes: float32, float16 and bfloat16; computed in float32 and rounded once. There is no backward.

    ``out``, if given, receives the result and is returned. It has the shape of the result, and the dtype and device of
    ``x``; it may be exactly one half of ``x``, but must not overlap it otherwise.

    ``isa`` forces one of ``cpu_isas()``; for tests and measurements on the CPU.
    """
    for name, value in ("x", x), ("out", x if out is None else out):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"silu_and_mul: {name} must be a torch.Tensor, not {type(value).__name__}")
    if x.dim() == 0 or x.shape[-1] % 2 != 0:
        raise ValueError(
            f"silu_and_mul: the last dimension of x must have an even size, but x has shape {list(x.shape)}"
        )
    if torch.is_grad_enabled() and (x.requires_grad or (out is not None and out.requires_grad)):
        raise RuntimeError(
            "silu_and_mul: there is no backward, but x or out requires grad; use torch.no_grad(), or detach it"
        )
    if out is None:
        out = torch.empty((*x.shape[:-1], x.shape[-1] // 2), dtype=x.dtype, device=x.device)
    elif out.device != x.device:
        raise ValueError(f"silu_and_mul: out is on {out.device}, but x is on {x.device}")
    if torch.compiler.is_compiling():
        if isa is not None:
            raise ValueError("silu_and_mul: isa cannot be chosen under torch.compile")
        _silu_and_mul_out(x, out)
    else:
        _run(x, out, isa)
    return out


def cpu_isas() -> tuple[str, ...]:
    """The instruction sets among "avx512", "avx2" and "plain" that this CPU has, best first; () in a CUDA variant."""
    return () if _run_cpu is None else tuple(str(name) for name in ops.cpu_isas())


def _run(x: torch.Tensor, out: torch.Tensor, isa: Optional[str] = None) -> None:
    if not _is_matrix(x):
        x = x.contiguous()
    result = out if _is_matrix(out) else torch.empty_like(out, memory_format=torch.contiguous_format)
    if x.device.type == "cpu" and _run_cpu is not None:
        _run_cpu(x, result, torch.get_num_threads(), isa or "")
    elif x.device.type == "cuda" and _run_cuda is not None:
        if isa is not None:
            raise ValueError("silu_and_mul: isa can be chosen on the CPU only")
        _run_cuda(x, result)
    else:
        backend = "CPU" if _run_cuda is None else "CUDA"
        raise ValueError(f"silu_and_mul: x is on {x.device}, but this is a build for the {backend} backend")
    if result is not out:
        out.copy_(result)


def _is_matrix(tensor: torch.Tensor) -> bool:
    """Whether the kernels can read it: as rows that are contiguous, and at equal distances."""
    if tensor.is_contiguous():
        return True
    return tensor.stride(-1) == 1 and all(
        tensor.stride(d) == tensor.stride(d + 1) * tensor.size(d + 1) for d in range(tensor.dim() - 2)
    )


# torch.compile cannot look into a tvm-ffi function, so there it gets a torch operator. Otherwise the function is called
# without this detour, which costs more than a small tensor.


@torch.library.custom_op(add_op_namespace_prefix("silu_and_mul_out"), mutates_args=("out",))
def _silu_and_mul_out(x: torch.Tensor, out: torch.Tensor) -> None:
    _run(x, out)


@_silu_and_mul_out.register_fake
def _silu_and_mul_out_fake(x: torch.Tensor, out: torch.Tensor) -> None:
    return None
