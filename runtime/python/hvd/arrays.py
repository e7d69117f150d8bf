# SPDX-License-Identifier: Apache-2.0
"""What the library must know of a NumPy array: type, shape, address."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hvd import _lib, api
from hvd.refusals import refused


def flat(array: Any) -> np.ndarray:
    """The array, or a copy, in C order; of a scalar too."""
    return np.ascontiguousarray(array).reshape(np.shape(array))


def described(array: np.ndarray, target: np.ndarray | None = None, splits: Any = None) -> Any:
    """An ``hvd_tensor`` of a C-contiguous array; `splits` are rows for each rank."""
    number = _lib.DTYPES.get(array.dtype.name)
    if number is None:
        raise TypeError(f"no collective moves arrays of {array.dtype}; use one of {[*_lib.DTYPES]}")
    address = 0 if target is None else target.ctypes.data
    tensor = api.tensor_struct(number, array.shape, 0, array.ctypes.data, address)
    if splits is not None:
        tensor.splits = _lib.shape_array(tuple(int(one) for one in splits))
        tensor.split_count = len(splits)
    return tensor


def given(tensor: Any, source: np.ndarray, out: np.ndarray | None) -> Any:
    """The tensor, whose result goes to `out` if it fits."""
    if out is not None:
        if out.dtype != source.dtype or not (out.flags.c_contiguous and out.flags.writeable):
            raise refused(
                f"out must be a writeable, C-contiguous array of {source.dtype}, as the input is; "
                "numpy.empty_like(input) makes one"
            )
        tensor.output = out.ctypes.data
        tensor.output_bytes = out.nbytes
    return tensor


def rows(
    handle: int, index: int, dtype: np.dtype, out: np.ndarray | None = None
) -> tuple[np.ndarray, tuple[int, ...]]:
    """The rows that came for tensor `index`, and how many from each rank."""
    gathered = api.gathered(handle, index)
    if out is not None and gathered.address == out.ctypes.data:
        size = math.prod(gathered.shape)
        return out.reshape(-1)[:size].reshape(gathered.shape), gathered.rows
    result = np.empty(gathered.shape, dtype)
    _lib.copy_bytes(result.ctypes.data, gathered.address, result.nbytes)
    return result, gathered.rows
