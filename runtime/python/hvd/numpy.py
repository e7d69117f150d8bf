# SPDX-License-Identifier: Apache-2.0
"""Collective operations on NumPy arrays: each waits for its result.

Names, where given, must be equal on all ranks. Arrays that are not contiguous are copied first.
`out`, an array of the same type that does not overlap the input, spares new memory: rows that fit
into it are written there, and the result is the part of it that they fill.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hvd import _lib, api

Average = _lib.AVERAGE
Sum = _lib.SUM
Min = _lib.MIN
Max = _lib.MAX
Product = _lib.PRODUCT
BitAnd = _lib.BIT_AND
BitOr = _lib.BIT_OR
BitXor = _lib.BIT_XOR

_WIRES = {None: _lib.WIRE_SAME, "float16": _lib.WIRE_FLOAT16, "bfloat16": _lib.WIRE_BFLOAT16}


def _described(array: np.ndarray, target: np.ndarray | None = None, splits: Any = None) -> Any:
    number = _lib.DTYPES.get(array.dtype.name)
    if number is None:
        raise TypeError(f"no collective moves arrays of {array.dtype}; use one of {[*_lib.DTYPES]}")
    address = 0 if target is None else target.ctypes.data
    tensor = api.tensor_struct(number, array.shape, 0, array.ctypes.data, address)
    if splits is not None:
        tensor.splits = _lib.shape_array(tuple(int(one) for one in splits))
        tensor.split_count = len(splits)
    return tensor


def _run(kind: int, tensor: Any, name: str | None, **parameters: Any) -> int:
    """Completes an operation; the handle is the caller's to release."""
    handle = api.submit(kind, [tensor], name, waits=True, **parameters)
    try:
        api.wait(handle)
    except BaseException:
        api.release(handle)
        raise
    return handle


def _give(tensor: Any, source: np.ndarray, out: np.ndarray | None) -> Any:
    """The tensor, whose result goes to `out` if it fits."""
    if out is not None:
        if out.dtype != source.dtype or not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError(
                f"out must be a writeable, C-contiguous array of {source.dtype}, as the input is"
            )
        tensor.output = out.ctypes.data
        tensor.output_bytes = out.nbytes
    return tensor


def _rows(
    handle: int, dtype: np.dtype, out: np.ndarray | None = None
) -> tuple[np.ndarray, tuple[int, ...]]:
    """The rows that the library gathered, and how many came from each rank."""
    try:
        gathered = api.gathered(handle)
        if out is not None and gathered.address == out.ctypes.data:
            size = math.prod(gathered.shape)
            return out.reshape(-1)[:size].reshape(gathered.shape), gathered.rows
        result = np.empty(gathered.shape, dtype)
        _lib.copy_bytes(result.ctypes.data, gathered.address, result.nbytes)
        return result, gathered.rows
    finally:
        api.release(handle)


def allreduce(
    array: Any,
    name: str | None = None,
    op: int = Average,
    scales: tuple[float, float] = (1, 1),
    wire: str | None = None,
) -> np.ndarray:
    """The reduction over ranks.

    Parameters
    ----------
    wire
        What an array of float32 or float64 travels as: "float16" or "bfloat16".

    >>> allreduce(np.ones(3)).tolist()  # on any number of ranks
    [1.0, 1.0, 1.0]
    """
    source = np.ascontiguousarray(array).reshape(np.shape(array))
    result = np.empty_like(source)
    tensor = _described(source, result)
    as_type = _WIRES[wire]
    api.release(_run(_lib.ALLREDUCE, tensor, name, op=op, scales=scales, wire=as_type))
    return result


def reduce(
    array: Any,
    root: int,
    name: str | None = None,
    op: int = Average,
    scales: tuple[float, float] = (1, 1),
) -> np.ndarray | None:
    """The reduction over ranks on `root`, None elsewhere."""
    source = np.ascontiguousarray(array).reshape(np.shape(array))
    result = np.empty_like(source) if api.rank() == root else None
    tensor = _described(source, result)
    api.release(_run(_lib.REDUCE, tensor, name, op=op, root=root, scales=scales))
    return result


def reducescatter(
    array: Any, name: str | None = None, op: int = Average, scales: tuple[float, float] = (1, 1)
) -> np.ndarray:
    """This rank's share of the rows of the reduction; the first ranks have one row more."""
    source = np.ascontiguousarray(array)
    handle = _run(_lib.REDUCESCATTER, _described(source), name, op=op, scales=scales)
    return _rows(handle, source.dtype)[0]


def broadcast(array: Any, root: int, name: str | None = None) -> np.ndarray:
    """The array of `root`, which must have one shape and type on all ranks."""
    source = np.ascontiguousarray(array).reshape(np.shape(array))
    result = source.copy()
    api.release(_run(_lib.BROADCAST, _described(source, result), name, root=root))
    return result


def allgather(array: Any, name: str | None = None, out: np.ndarray | None = None) -> np.ndarray:
    """The rows of all ranks, by rank; their number may differ."""
    source = np.ascontiguousarray(array)
    tensor = _give(_described(source), source, out)
    return _rows(_run(_lib.ALLGATHER, tensor, name), source.dtype, out)[0]


def gather(
    array: Any, root: int, name: str | None = None, out: np.ndarray | None = None
) -> np.ndarray:
    """The rows of all ranks on `root`, none elsewhere."""
    source = np.ascontiguousarray(array)
    tensor = _give(_described(source), source, out)
    return _rows(_run(_lib.GATHER, tensor, name, root=root), source.dtype, out)[0]


def scatter(
    array: Any,
    root: int,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """This rank's rows of the array of `root`.

    Parameters
    ----------
    array
        Elsewhere than on `root` only its type and the shape of its rows count.
    splits
        Rows for each rank; shared out evenly unless given. Ignored elsewhere than on `root`.
    """
    source = np.ascontiguousarray(array)
    tensor = _described(source, splits=splits if api.rank() == root else None)
    tensor = _give(tensor, source, out)
    return _rows(_run(_lib.SCATTER, tensor, name, root=root), source.dtype, out)[0]


def alltoall(
    array: Any,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    out: np.ndarray | None = None,
) -> tuple[np.ndarray, tuple[int, ...]]:
    """The rows that the other ranks sent here, and how many came from each.

    Parameters
    ----------
    splits
        How many of the rows go to each rank, in order; equal parts unless given.
    """
    source = np.ascontiguousarray(array)
    tensor = _give(_described(source, splits=splits), source, out)
    return _rows(_run(_lib.ALLTOALL, tensor, name), source.dtype, out)
