"""Tensors that say that they are on a CUDA device, over the memory of this process; for processes with the stand-in."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import tvm_ffi

_CUDA = 2
# DLPack's codes for the kinds of numbers.
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Shared:
    """What DLPack asks of an array; without a deleter, as the arrays here live as long as the process."""

    def __init__(self, array: np.ndarray[Any, Any], device: int, *, bfloat16: bool) -> None:
        extents = ctypes.c_int64 * array.ndim
        shape, strides = extents(*array.shape), extents(*(stride // array.itemsize for stride in array.strides))
        code = _BFLOAT if bfloat16 else _KINDS[array.dtype.kind]
        self._device = device
        self._managed = _Managed()
        self._managed.tensor = _Tensor(
            array.ctypes.data, _Device(_CUDA, device), array.ndim, _Type(code, 8 * array.itemsize, 1), shape, strides, 0
        )
        _KEPT.append((array, shape, strides, self._managed))

    def __dlpack__(self, **_: object) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._managed), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self._device


_KEPT: list[object] = []


def cuda_tensor(array: np.ndarray[Any, Any], device: int = 0, *, bfloat16: bool = False) -> tvm_ffi.Tensor:
    """A tensor "on" a CUDA device whose address is that of the array; `bfloat16` says what its 16-bit numbers are."""
    return tvm_ffi.from_dlpack(_Shared(array, device, bfloat16=bfloat16))
