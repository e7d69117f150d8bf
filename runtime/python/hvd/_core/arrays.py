# SPDX-License-Identifier: Apache-2.0
"""What the library must know of a NumPy array: type, shape, address."""

from __future__ import annotations

import math
import weakref
from typing import Any, NamedTuple

import numpy as np

from hvd._core import _lib, api
from hvd._core.refusals import refused

# Classes of arrays that are nothing but their numbers; a matrix comes back as one.
_PLAIN = (np.ndarray, np.memmap, np.matrix)

_REMEDIES = {
    "O": "hvd.allgather_object() and hvd.broadcast_object() move objects",
    "V": "move its fields one by one",
    "M": "array.view('int64') is its numbers; NaT is the least of them",
    "m": "array.view('int64') is its numbers; NaT is the least of them",
    "S": "hvd.allgather_object() moves texts",
    "U": "hvd.allgather_object() moves texts",
}


class Source(NamedTuple):
    """Input of an operation: its numbers in C order and native bytes, and what the caller gave."""

    memory: np.ndarray
    dtype: np.dtype
    is_matrix: bool

    def restored(self, result: np.ndarray) -> np.ndarray:
        """A result in the byte order and class of the input."""
        if not self.dtype.isnative:
            result = result.astype(self.dtype)
        return np.asmatrix(result) if self.is_matrix else result


def source_of(array: Any, is_copied: bool = False) -> Source:
    """The input that an array, or what NumPy makes one of, is.

    Parameters
    ----------
    array
        Anything that ``numpy.asarray`` takes and that is nothing but its numbers.
    is_copied
        For an operation that outlives the call: nothing that the caller does to the array, or to
        the memory behind it, reaches the operation.
    """
    _check_class(array)
    if isinstance(array, (list, tuple)):
        for one in array:
            _check_class(one)
    plain = np.asarray(array)
    native = plain.dtype if plain.dtype.isnative else plain.dtype.newbyteorder("=")
    memory = np.asarray(plain, native, order="C")
    if is_copied and np.may_share_memory(memory, plain):
        memory = memory.copy()
    return Source(memory, plain.dtype, isinstance(array, np.matrix))


def _check_class(array: Any) -> None:
    if isinstance(array, np.ma.MaskedArray):
        raise refused(
            f"the array is masked (shape {array.shape}, {array.dtype}): its mask would be lost; "
            "give array.filled(value), or reduce the values and the mask apart"
        )
    if isinstance(array, np.ndarray) and type(array) not in _PLAIN:
        raise refused(
            f"the array is a {type(array).__module__}.{type(array).__name__}: what it is beyond "
            "its numbers would be lost; give numpy.asarray(array)"
        )


def pins(*arrays: np.ndarray | None) -> list[Any]:
    """What keeps the memory of arrays where it is, for as long as the result lives.

    NumPy resizes no array that has a weak reference; a buffer that is exported is neither resized
    nor closed.
    """
    held: list[Any] = []
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            held.append((base, weakref.ref(base)))
            base = base.base
        if base is not None:
            try:
                held.append(memoryview(base))
            except TypeError:  # not a buffer; whoever made it keeps the memory
                held.append(base)
    return held


def described(array: np.ndarray, target: np.ndarray | None = None, splits: Any = None) -> Any:
    """An ``hvd_tensor`` of a C-contiguous array; `splits` are rows for each rank."""
    number = _lib.DTYPES.get(array.dtype.name)
    if number is None:
        remedy = _REMEDIES.get(array.dtype.kind, f"use one of {[*_lib.DTYPES]}")
        raise TypeError(f"no collective moves arrays of {array.dtype}; {remedy}")
    address = 0 if target is None else target.ctypes.data
    tensor = api.tensor_struct(number, array.shape, 0, array.ctypes.data, address)
    if splits is not None:
        tensor.splits = _lib.shape_array(tuple(int(one) for one in splits))
        tensor.split_count = len(splits)
    return tensor


def check_out(out: Any, source: Source) -> None:
    """Refuses an `out` that cannot take the rows of a result."""
    if type(out) not in _PLAIN or isinstance(out, np.matrix):
        raise refused(f"out is a {type(out).__name__}; numpy.empty_like(numpy.asarray(input))")
    if out.dtype != source.dtype or not (out.flags.c_contiguous and out.flags.writeable):
        raise refused(
            f"out must be a writeable, C-contiguous array of {source.dtype}, as the input is; "
            "numpy.empty_like(input) makes one"
        )
    if np.may_share_memory(out, source.memory):
        raise refused("out overlaps the input; give memory of its own")


def rows(
    handle: int, index: int, source: Source, out: np.ndarray | None = None
) -> tuple[np.ndarray, tuple[int, ...]]:
    """The rows that came for tensor `index`, and how many from each rank.

    In `out` if they fit: there the engine wrote them, or they are copied to it now.
    """
    gathered = api.gathered(handle, index)
    size = math.prod(gathered.shape)
    if out is not None and size <= out.size:
        part = out.reshape(-1)[:size].reshape(gathered.shape)
        if gathered.address != out.ctypes.data:
            part[...] = _copied(gathered, source)
        return np.asmatrix(part) if source.is_matrix else part, gathered.rows
    return source.restored(_copied(gathered, source)), gathered.rows


def _copied(gathered: api.Gathered, source: Source) -> np.ndarray:
    result = np.empty(gathered.shape, source.memory.dtype)
    _lib.copy_bytes(result.ctypes.data, gathered.address, result.nbytes)
    return result
