"""Calls of an extension, in a process with the stand-in: what replay.py has it run.

Every memory that tensors are views of, those that the extension allocates too, is kept as long as the process lives, so
that each address is that of one memory alone.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from tests.integration.cuda import tensors
from tests.integration.cuda.tensors import cuda_tensor

# As cudaMalloc aligns.
_ALIGNMENT = 256
_CUDA = 2
_kept: list[Any] = []


class _Managed(ctypes.Structure):
    """DLManagedTensorVersioned; without a deleter, as memory is kept."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", tensors._Tensor),
    )


_Allocator = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(tensors._Tensor),
    ctypes.POINTER(ctypes.POINTER(_Managed)),
    ctypes.c_void_p,
    ctypes.c_void_p,
)


def main() -> None:
    """Do the calls that the file named by the argument holds, and print what came of each, as JSON."""
    library, calls = json.loads(Path(sys.argv[1]).read_text())
    operations = tvm_ffi.load_module(library)
    allocator = _Allocator(_allocate)
    # In the thread's and in the process's own context.
    ctypes.CDLL(None).TVMFFIEnvSetDLPackManagedTensorAllocator(allocator, 1, None)
    print(json.dumps([_call(operations, *call) for call in calls]))


def _call(operations: tvm_ffi.Module, function: str, sizes: list[int], arguments: list[Any]) -> dict[str, Any]:
    memories = [_memory(size) for size in sizes]
    values = [_tensor(each, memories) if isinstance(each, dict) else each for each in arguments]
    results, error = [], None
    try:
        results = _results(getattr(operations, function)(*values))
    except Exception as raised:  # noqa: BLE001 - it is what the test wants to know
        error = f"{type(raised).__name__}: {raised}"
    record = Path("record")
    launches = record.read_text().count('"cuLaunchKernel"') if record.exists() else 0
    addresses = [memory.ctypes.data for memory in memories]
    return {"addresses": addresses, "launches": launches, "results": results, "error": error}


def _memory(size: int) -> np.ndarray[Any, Any]:
    raw = np.zeros(size + _ALIGNMENT, dtype=np.uint8)
    _kept.append(raw)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size]


def _tensor(spec: dict[str, Any], memories: list[np.ndarray[Any, Any]]) -> tvm_ffi.Tensor:
    flat = memories[spec["memory"]][spec["offset"] :]
    held = np.dtype(spec["held"])
    flat = flat[: flat.size // held.itemsize * held.itemsize].view(held)
    array = np.lib.stride_tricks.as_strided(flat, spec["shape"], spec["strides"])
    return cuda_tensor(array, bfloat16=spec["bfloat16"])


def _results(returned: Any) -> list[dict[str, Any]]:
    """The tensors that a function returned: one, or an array of them."""
    if returned is None:
        return []
    found = [returned] if isinstance(returned, tvm_ffi.Tensor) else list(returned)
    _kept.extend(found)
    return [{"address": each.data_ptr(), "shape": list(each.shape), "dtype": str(each.dtype)} for each in found]


def _allocate(prototype: Any, out: Any, _context: Any, _set_error: Any) -> int:
    """DLPackManagedTensorAllocator: a contiguous tensor of the prototype's shape, on its CUDA device."""
    wanted = prototype.contents
    assert wanted.device.type == _CUDA
    rank = wanted.ndim
    shape, strides = (ctypes.c_int64 * rank)(*wanted.shape[:rank]), (ctypes.c_int64 * rank)()
    count = 1
    for axis in reversed(range(rank)):
        strides[axis] = count
        count *= shape[axis]
    memory = _memory(count * wanted.dtype.bits // 8)
    tensor = tensors._Tensor(memory.ctypes.data, wanted.device, rank, wanted.dtype, shape, strides, 0)
    managed = _Managed(1, 0, None, None, 0, tensor)
    _kept.extend((shape, strides, managed))
    out[0] = ctypes.pointer(managed)
    return 0
