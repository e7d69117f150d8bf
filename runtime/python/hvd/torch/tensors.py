# SPDX-License-Identifier: Apache-2.0
"""What the library must know of a torch tensor: type, shape, address, memory order."""

from __future__ import annotations

import zlib

import torch

from hvd import _lib, api
from hvd.errors import InvalidArgumentError, UnsupportedError

# Newer torch has more types than older; both are served by name.
DTYPES: dict[torch.dtype, int] = {
    getattr(torch, name): number for name, number in _lib.DTYPES.items() if hasattr(torch, name)
}


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """0 for row-major, else a number that is equal for equal memory orders.

    None when the elements do not fill their memory exactly once, and cannot be taken flat.

    >>> layout_of((2, 3), (3, 1)), layout_of((2, 3), (0, 1))
    (0, None)
    """
    if 0 in shape:
        return 0
    expected = 1
    row_major = True
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1:
            row_major = row_major and stride == expected
            expected *= extent
    if row_major:
        return 0
    expected = 1
    order = [(stride, extent) for extent, stride in zip(shape, strides) if extent != 1]
    for stride, extent in sorted(order):
        if stride != expected:
            return None
        expected *= extent
    return zlib.crc32(repr(order).encode()) or 1


def check_tensor(tensor: torch.Tensor, what: str) -> None:
    """Refuses what is not plain CPU memory of a known type, saying what to do."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(f"{what}: a torch.Tensor is needed, not {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise UnsupportedError(
            f"{what}: the tensor is {tensor.layout}; use to_dense(), or sparse_as_dense=True"
        )
    if tensor.device.type != "cpu":
        raise UnsupportedError(
            f"{what}: the tensor is on {tensor.device}; this version moves CPU memory: use .cpu()"
        )
    if tensor.dtype not in DTYPES:
        raise UnsupportedError(f"{what}: {tensor.dtype} is not supported; convert it first")


def in_place(tensor: torch.Tensor, what: str) -> _lib.Tensor:
    """The description of a tensor that is replaced by its result."""
    check_tensor(tensor, what)
    if tensor.is_neg():
        raise UnsupportedError(
            f"{what}: the tensor is a negated view; use resolve_neg() and assign the result"
        )
    layout = layout_of(tuple(tensor.shape), tensor.stride())
    if layout is None:
        raise UnsupportedError(
            f"{what}: shape {list(tensor.shape)} with strides {list(tensor.stride())} is expanded "
            "or a slice with gaps, which cannot be replaced in place; use the version that "
            "returns a new tensor, or contiguous()"
        )
    address = tensor.data_ptr()
    return api.tensor_struct(DTYPES[tensor.dtype], tensor.shape, layout, address, address)


def plain(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """The tensor, or a copy of it, as row-major memory to read from."""
    check_tensor(tensor, what)
    return tensor.detach().resolve_neg().contiguous()


def to_result(source: torch.Tensor, target: torch.Tensor) -> _lib.Tensor:
    """The description of row-major `source`, whose result goes to row-major `target`."""
    return api.tensor_struct(
        DTYPES[source.dtype], source.shape, 0, source.data_ptr(), target.data_ptr()
    )
