# SPDX-License-Identifier: Apache-2.0
"""Tensors of a caller as the row-major memory that an operation reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from hvd._core import api
from hvd._core.handles import Flat
from hvd.errors import MismatchError, UnsupportedError
from hvd.torch import tensors as _tensors


def check_host(tensor: torch.Tensor, what: str) -> None:
    """Refuses tensors on GPUs: works and futures here are over when the host has the result."""
    _tensors.check_tensor(tensor, what)
    if not tensor.is_cpu:
        raise UnsupportedError(
            f"{what}: the tensor is on {tensor.device}; the backend 'hvd' of torch.distributed moves "
            "CPU memory: use init_process_group('cpu:hvd,cuda:nccl'), or the functions of hvd.torch, "
            "which take tensors on GPUs"
        )


def plain(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """The tensor, or a copy of it, as row-major memory to read from."""
    check_host(tensor, what)
    # The caller may exchange the storage of its tensor meanwhile; a detached one keeps it.
    return _tensors.plain(tensor.detach(), what)


class Target:
    """A tensor that gets a result: itself where it is row-major, else a copy that is put back."""

    __slots__ = ("_tensor", "room")

    def __init__(self, tensor: torch.Tensor, what: str, keeps: bool = False) -> None:
        check_host(tensor, what)
        tensor = tensor.detach()  # keeps the storage, which the caller may exchange meanwhile
        self._tensor = tensor
        if tensor.is_contiguous() and not (tensor.is_neg() or tensor.is_conj()):
            self.room = tensor
        elif keeps:
            self.room = plain(tensor, what)
        else:
            self.room = torch.empty(tensor.shape, dtype=tensor.dtype)

    @property
    def is_given(self) -> bool:
        """True where the result goes straight to the caller's tensor."""
        return self.room is self._tensor

    def put_back(self) -> None:
        """After the result has come."""
        if self.room is not self._tensor:
            self._tensor.copy_(self.room)

    def in_place(self) -> Flat:
        """For an operation that replaces the tensor."""
        return _tensors.to_result(self.room, self.room)


class Parts:
    """Tensors one after another in one piece of memory."""

    def __init__(self, tensors: Sequence[torch.Tensor], what: str) -> None:
        for tensor in tensors:
            check_host(tensor, what)
        self._tensors = [tensor.detach() for tensor in tensors]
        self.counts = [tensor.numel() for tensor in tensors]

    def joined(self) -> torch.Tensor:
        """A copy of their values."""
        flat = [plain(tensor, "list").reshape(-1) for tensor in self._tensors]
        return torch.cat(flat) if flat else torch.empty(0)

    def room(self) -> torch.Tensor:
        """Memory for their values."""
        return self._tensors[0].new_empty(sum(self.counts), requires_grad=False)

    def take(self, room: torch.Tensor) -> None:
        """Spreads what came over the tensors."""
        with torch.no_grad():
            for tensor, part in zip(self._tensors, room.split(self.counts)):
                tensor.copy_(part.view(tensor.shape))


def received(handle: int, index: int, room: torch.Tensor, counts: Sequence[int], what: str) -> None:
    """Checks that as many elements came from each rank as there is room for."""
    rows = api.gathered(handle, index).rows
    unit = room[0].numel() if room.dim() > 1 and len(room) else 1
    if list(rows) != list(counts):
        raise MismatchError(
            f"rank {api.rank()}: {what}: the ranks sent {[n * unit for n in rows]} elements, the "
            f"output has room for {[n * unit for n in counts]}"
        )


def putting_back(targets: Sequence[Target]) -> Callable[[int], None] | None:
    """What puts the results back; None where they are there already."""
    if all(target.is_given for target in targets):
        return None

    def put_back(handle: int) -> None:
        for target in targets:
            target.put_back()

    return put_back


def apart(source: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    """The source, or a copy where it lies in the memory of the result."""
    begin = room.data_ptr()
    end = begin + room.numel() * room.element_size()
    return source.clone() if begin <= source.data_ptr() < end else source


def check_share(what: str, whole: torch.Tensor, share: torch.Tensor, ranks: int) -> None:
    """Raises unless `whole` has as many elements as `share` on each of `ranks`."""
    if whole.numel() != share.numel() * ranks:
        raise UnsupportedError(
            f"{what}: {share.numel()} elements for each of {ranks} ranks are not "
            f"{whole.numel()} elements"
        )
