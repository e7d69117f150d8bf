# SPDX-License-Identifier: Apache-2.0
"""Where tensors are, and which stream of a GPU works now: what asks torch about GPUs is here.

Nothing of it touches a GPU for tensors in CPU memory. ROCm builds of torch call their GPUs "cuda".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from hvd._core import _lib, api
from hvd._core.handles import Place
from hvd._core.local_device import local_device
from hvd._core.refusals import refused


def device() -> torch.device:
    """The GPU of this rank, from now on torch's current one; the CPU where torch sees no GPU.

    Call it after ``init()`` and before the first tensor. The GPU is the one that hvdrun chose, else
    that of the local rank.

    Returns
    -------
    torch.device
        For ``model.to(device)``.

    Raises
    ------
    InvalidArgumentError
        The node has fewer GPUs than ranks.
    NotInitializedError
        ``init()`` comes first.

    >>> device().type in ("cuda", "cpu")
    True
    """
    api.local_rank()  # the same without a GPU: init() comes first
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        return torch.device("cpu")
    own = torch.device("cuda", local_device(count, "device"))
    torch.cuda.set_device(own)
    return own


class TorchGpus:
    """What the library must know of the GPUs of torch."""

    def __init__(self) -> None:
        self.kind = _lib.ROCM if torch.version.hip else _lib.CUDA
        # The number of the stream alone: an object for it costs as much as a submission.
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        if raw is not None:
            self.stream = raw  # type: ignore[method-assign,assignment]

    def index(self, tensor: torch.Tensor) -> int:
        """The number of the GPU that a tensor is on; below 0: in CPU memory."""
        return tensor.get_device() if tensor.is_cuda else -1

    def stream(self, index: int) -> int:
        """The stream of a GPU that takes what this thread does now."""
        return torch.cuda.current_stream(index).cuda_stream

    def keep(self, tensor: torch.Tensor) -> None:
        """Lets the memory of a tensor be used again only after what its stream now holds."""
        if tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))

    def copy(self, target: torch.Tensor, address: int) -> None:
        """Fills a tensor from memory of the library, which may be gone afterwards."""
        count = target.numel() * target.element_size()
        flat = target.view(-1).view(torch.uint8)
        flat.copy_(_bytes_at(address, count, target.device))
        torch.cuda.current_stream(target.device).synchronize()


def _bytes_at(address: int, count: int, device: torch.device) -> torch.Tensor:
    """A view of memory that is not torch's."""
    make: Any = getattr(torch._C, "_construct_storage_from_data_pointer", None)
    if make is None:
        return torch.as_tensor(_Foreign(address, count), device=device)
    empty = torch.empty(0, dtype=torch.uint8, device=device)
    return empty.set_(make(address, device, count), 0, (count,), (1,))


class _Foreign:
    """Device memory as torch before 2.0 takes it, by way of NumPy."""

    def __init__(self, address: int, count: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 2,
        }


# The tests put another one here, for which CPU memory is that of a GPU.
gpus: TorchGpus = TorchGpus()


def place_of(tensors: Sequence[torch.Tensor], what: str) -> Place | None:
    """The GPU of all tensors, and its stream of now; None in CPU memory."""
    place: int | None = None
    for tensor in tensors:
        index = gpus.index(tensor)
        if index != place:
            if place is not None:
                raise refused(
                    f"{what}: tensors of one group are on {_named(place)} and on {_named(index)}: "
                    "move them to one device, or make two groups"
                )
            place = index
    if place is None or place < 0:
        return None
    return GpuPlace(gpus.kind, place, gpus.stream(place))


def _named(index: int) -> str:
    return f"GPU {index}" if index >= 0 else "the CPU"


class GpuPlace(Place):
    """A GPU of torch, and the stream that holds what makes the tensors."""

    __slots__ = ()

    def arrive(self, memory: Any) -> int:
        """The stream that takes the results now; memory used there stays as long as needed."""
        now = gpus.stream(self.device)
        if now != self.stream:
            for tensor in tensors_in(memory):
                gpus.keep(tensor)
        return now


def tensors_in(memory: Any) -> Iterator[torch.Tensor]:
    """All tensors of nested lists and tuples."""
    if isinstance(memory, torch.Tensor):
        yield memory
    elif isinstance(memory, (list, tuple)):
        for entry in memory:
            yield from tensors_in(entry)
