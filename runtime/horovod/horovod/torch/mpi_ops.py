# SPDX-License-Identifier: Apache-2.0
"""Operations on tensors, and the job, where Horovod has them; those of ``hvd.torch`` themselves."""

from __future__ import annotations

import sys
from typing import Any

import torch

import hvd.torch
from horovod.common.basics import HorovodBasics
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.common.util import get_average_backwards_compatibility_fun
from horovod.torch.compression import Compression
from hvd.torch import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
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
    "Adasum",
    "Average",
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
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
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
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "handle_average_backwards_compatibility",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]

_basics = HorovodBasics(__file__, "mpi_lib_v2")

init = _basics.init
shutdown = _basics.shutdown
is_initialized = _basics.is_initialized
start_timeline = _basics.start_timeline
stop_timeline = _basics.stop_timeline
size = _basics.size
local_size = _basics.local_size
cross_size = _basics.cross_size
rank = _basics.rank
local_rank = _basics.local_rank
cross_rank = _basics.cross_rank
is_homogeneous = _basics.is_homogeneous
mpi_threads_supported = _basics.mpi_threads_supported
mpi_enabled = _basics.mpi_enabled
mpi_built = _basics.mpi_built
gloo_enabled = _basics.gloo_enabled
gloo_built = _basics.gloo_built
nccl_built = _basics.nccl_built
ddl_built = _basics.ddl_built
ccl_built = _basics.ccl_built
cuda_built = _basics.cuda_built
rocm_built = _basics.rocm_built

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
