# SPDX-License-Identifier: Apache-2.0
"""What the library must know of a torch tensor: type, shape, address, memory order."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hvd._core import _lib, api
from hvd._core.handles import Flat
from hvd._core.refusals import refused
from hvd.errors import InvalidArgumentError, UnsupportedError
from hvd.torch import devices

# Newer torch has more types than older; both are served by name.
DTYPES: dict[torch.dtype, int] = {
    getattr(torch, name): number for name, number in _lib.DTYPES.items() if hasattr(torch, name)
}


# The memory of a tensor: holding it keeps that memory where it is, also when the tensor gets other
# memory by ``tensor.data = other``, ``set_()`` or ``module.double()``.
storage_of: Callable[[torch.Tensor], Any] = (
    torch.Tensor.untyped_storage
    if hasattr(torch.Tensor, "untyped_storage")
    else torch.Tensor._storage  # type: ignore[attr-defined]  # before torch 2.0
)


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


def _called(what: str, name: str | None) -> str:
    return what if name is None else f"{what} '{name}'"


def check_tensor(tensor: torch.Tensor, what: str, name: str | None = None) -> int:
    """The number of its type; refuses what is not plain memory, saying what to do."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(
            f"{what}: a torch.Tensor is needed, not {type(tensor).__name__}: use "
            "torch.tensor(value)"
        )
    number = DTYPES.get(tensor.dtype)
    is_here = tensor.is_cpu or tensor.is_cuda
    if number is not None and is_here and tensor.layout is torch.strided:
        return number
    if tensor.layout != torch.strided:
        raise UnsupportedError(
            f"{_called(what, name)}: the tensor is {tensor.layout}; use to_dense(), or "
            "sparse_as_dense=True"
        )
    if number is None:
        raise UnsupportedError(
            f"{_called(what, name)}: {tensor.dtype} is not supported; convert it first"
        )
    raise UnsupportedError(
        f"{_called(what, name)}: the tensor is on {tensor.device}; collectives move memory of the CPU "
        "and of GPUs that torch calls cuda: use .cpu()"
    )


def in_place(tensor: torch.Tensor, what: str, name: str | None = None) -> Flat:
    """A tensor that is replaced by its result."""
    number = check_tensor(tensor, what, name)
    if tensor.is_neg() or tensor.is_conj():
        raise UnsupportedError(
            f"{_called(what, name)}: the tensor is a negated or conjugated view; use resolve_neg() or "
            "resolve_conj() and assign the result"
        )
    shape = tensor.shape
    layout = 0 if tensor.is_contiguous() else layout_of(shape, tensor.stride())
    if layout is None:
        raise UnsupportedError(
            f"{_called(what, name)}: shape {list(shape)} with strides {list(tensor.stride())} is expanded "
            "or a slice with gaps, which cannot be replaced in place; use the version that "
            "returns a new tensor, or contiguous()"
        )
    address = tensor.data_ptr()
    return number, shape, layout, address, address


def still_there(
    tensors: Sequence[torch.Tensor], flat: Sequence[Flat], what: str, name: str | None
) -> None:
    """Refuses tensors that lie elsewhere than when an operation in place began with them."""
    for tensor, (_, _, _, address, _) in zip(tensors, flat):
        if tensor.data_ptr() != address:
            raise InvalidArgumentError(
                f"rank {api.rank()}: {_called(what, name)}: the tensor got other memory (by .data, "
                "set_() or a cast of its module) while the operation was under way, and the result "
                "lies in the old one: call synchronize() before"
            )


def plain(tensor: torch.Tensor, what: str, name: str | None = None) -> torch.Tensor:
    """The tensor, or a copy of it, as row-major memory to read from; see also ``held()``."""
    check_tensor(tensor, what, name)
    if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        return tensor
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def held(tensor: torch.Tensor) -> Any:
    """Keeps the memory of a tensor as it is now, also when the tensor gets another."""
    # A tensor of its own costs more than a small operation; on a GPU its allocator wants one.
    return storage_of(tensor) if tensor.is_cpu else tensor.detach()


# Newer torch warns, once, where nobody says whether the indices are to be checked.
_UNCHECKED: dict[str, bool] = (
    {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}
)


def sparse(indices: torch.Tensor, values: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The COO tensor of values at indices that are known to be right."""
    return torch.sparse_coo_tensor(indices, values, shape, **_UNCHECKED)  # type: ignore[call-overload,no-any-return]


def to_result(source: torch.Tensor, target: torch.Tensor | None) -> Flat:
    """Row-major `source`, whose result goes to row-major `target`."""
    address = 0 if target is None else target.data_ptr()
    return DTYPES[source.dtype], source.shape, 0, source.data_ptr(), address


def rows_of(
    source: torch.Tensor, room: torch.Tensor | None = None, splits: Sequence[int] | None = None
) -> _lib.Tensor:
    """Row-major `source`, whose result goes to `room` if it fits, else to memory of the library."""
    tensor = api.tensor_struct(*to_result(source, room))
    if room is not None:
        tensor.output_bytes = room.numel() * room.element_size()
    if splits is not None:
        tensor.splits = _lib.shape_array(tuple(int(one) for one in splits))
        tensor.split_count = len(splits)
    return tensor


def gathered(handle: int, index: int, room: torch.Tensor) -> torch.Tensor:
    """The result of tensor `index` of an operation: `room` where it fills it."""
    made = api.gathered(handle, index)
    if made.shape == room.shape and made.address == room.data_ptr():
        return room
    output = room.new_empty(made.shape)
    if output.numel() == 0:
        return output
    if devices.gpus.index(output) < 0:
        _lib.copy_bytes(output.data_ptr(), made.address, output.numel() * output.element_size())
    else:
        devices.gpus.copy(output, made.address or 0)
    return output


def needs_gradient(tensors: Sequence[torch.Tensor]) -> bool:
    """True when a result must lead back to the tensors."""
    try:
        if torch.is_grad_enabled():
            for tensor in tensors:
                if tensor.requires_grad:
                    return True
        return False
    except AttributeError:
        kinds = {type(one).__name__ for one in tensors if not isinstance(one, torch.Tensor)}
        raise refused(
            f"a torch.Tensor is needed, not {' or '.join(sorted(kinds))}: use torch.tensor(value)"
        ) from None
