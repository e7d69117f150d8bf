# SPDX-License-Identifier: Apache-2.0
"""Operations on tensors, and the job, where Horovod has them; those of ``hvd.torch`` themselves."""

from __future__ import annotations

import sys
from typing import Any

import torch

import hvd.torch
from horovod import _job
from horovod._job import *  # noqa: F403 (the same names)
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import get_average_backwards_compatibility_fun
from horovod.torch.compression import Compression
from hvd.torch import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    join,
    poll,
    reducescatter,
    reducescatter_async,
    synchronize,
)

__all__ = [
    "Compression",
    "HorovodAllgather",
    "HorovodAllreduce",
    "HorovodAlltoall",
    "HorovodBroadcast",
    "HorovodGroupedAllgather",
    "HorovodGroupedAllreduce",
    "HorovodGroupedReducescatter",
    "HorovodInternalError",
    "HorovodReducescatter",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "handle_average_backwards_compatibility",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "sparse_allreduce_async",
    "synchronize",
]
__all__ += _job.__all__

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(
    sys.modules[__name__]
)


class _SparseHandle(int):
    """A handle that may be called for its result, as Horovod has it, or given to synchronize()."""

    def __call__(self) -> torch.Tensor:
        return synchronize(self)


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str, op: int, process_set: ProcessSet = global_process_set
) -> Any:
    """Starts the sum or average of a sparse tensor; call what it returns for the result.

    >>> init()
    >>> sparse_allreduce_async(torch.eye(2).to_sparse(), "example", Average)().to_dense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _SparseHandle(hvd.torch.sparse_allreduce_async(tensor, name, op, process_set))


# The classes behind Horovod's differentiable functions: some scripts call apply() themselves.


class HorovodAllreduce(torch.autograd.Function):
    """``apply()`` is ``allreduce`` of all arguments."""

    @staticmethod
    def apply(
        tensor: torch.Tensor,
        average: bool | None,
        name: str | None,
        op: int | None,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
    ) -> torch.Tensor:
        """The reduction, with a gradient."""
        return allreduce(
            *(tensor, average, name, Compression.none, op),
            *(prescale_factor, postscale_factor, process_set),
        )


class HorovodGroupedAllreduce(torch.autograd.Function):
    """``apply()`` is ``grouped_allreduce``, tensors last."""

    @staticmethod
    def apply(
        average: bool | None,
        name: str | None,
        op: int | None,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """The reductions, with gradients."""
        scales = (prescale_factor, postscale_factor)
        return tuple(
            grouped_allreduce(tensors, average, name, Compression.none, op, *scales, process_set)
        )


class HorovodAllgather(torch.autograd.Function):
    """``apply()`` is ``allgather``."""

    apply = staticmethod(allgather)


class HorovodGroupedAllgather(torch.autograd.Function):
    """``apply()`` is ``grouped_allgather``, tensors last."""

    @staticmethod
    def apply(
        name: str | None, process_set: ProcessSet, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """The rows of all ranks, with gradients."""
        return tuple(grouped_allgather(tensors, name, process_set))


class HorovodBroadcast(torch.autograd.Function):
    """``apply()`` is ``broadcast``."""

    apply = staticmethod(broadcast)


class HorovodAlltoall(torch.autograd.Function):
    """``apply()`` is ``alltoall``."""

    apply = staticmethod(alltoall)


class HorovodReducescatter(torch.autograd.Function):
    """``apply()`` is ``reducescatter`` without compression."""

    @staticmethod
    def apply(
        tensor: torch.Tensor,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
    ) -> torch.Tensor:
        """This rank's share, with a gradient."""
        scales = (prescale_factor, postscale_factor)
        return reducescatter(tensor, name, Compression.none, op, process_set, *scales)


class HorovodGroupedReducescatter(torch.autograd.Function):
    """``apply()`` is ``grouped_reducescatter``, tensors last."""

    @staticmethod
    def apply(
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """This rank's shares, with gradients."""
        scales = (prescale_factor, postscale_factor)
        return tuple(
            grouped_reducescatter(tensors, name, Compression.none, op, process_set, *scales)
        )
