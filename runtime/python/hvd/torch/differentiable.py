# SPDX-License-Identifier: Apache-2.0
"""Operations that wait for their result; gradients flow through those that return new tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hvd import api
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import operations
from hvd.torch.compression import Compression
from hvd.torch.operations import Average, synchronize


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, name: str | None, op: int, scales: Any, process_set: ProcessSet, *tensors: Any
    ) -> Any:
        ctx.op, ctx.scales, ctx.process_set = op, scales, process_set
        handle = operations.grouped_start(tensors, None, name, op, scales, False, True, process_set)
        return tuple(synchronize(handle))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        # The derivative of a sum over ranks is the same sum of what comes back.
        handle = operations.grouped_start(
            gradients, None, None, ctx.op, ctx.scales, False, True, ctx.process_set
        )
        return (None, None, None, None, *synchronize(handle))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        root_rank: int,
        name: str | None,
        process_set: ProcessSet,
    ) -> torch.Tensor:
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return synchronize(operations.broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        total = synchronize(
            operations.allreduce_async(gradient, op=Average, process_set=ctx.process_set)
        )
        mine = total if api.rank() == ctx.root_rank else torch.zeros_like(total)
        return mine, None, None, None


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, name: str | None, process_set: ProcessSet
    ) -> torch.Tensor:
        ctx.rows = tensor.shape[0] if tensor.dim() else 0
        ctx.process_set = process_set
        return synchronize(operations.allgather_async(tensor, name, process_set))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        total = synchronize(
            operations.allreduce_async(gradient, op=Average, process_set=ctx.process_set)
        )
        mine = torch.tensor([ctx.rows])
        rows = synchronize(operations.allgather_async(mine, process_set=ctx.process_set))
        first = int(rows[: ctx.process_set.rank()].sum())
        return total[first : first + ctx.rows], None, None


def _needs_gradient(tensors: Sequence[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The reduction of `tensor` over all ranks (their average unless `op` says otherwise).

    Parameters
    ----------
    tensor
        Same shape and type on all ranks.
    name
        Equal on all ranks; made from the order of calls when absent.
    prescale_factor, postscale_factor
        Multiply before and after the reduction.
    """
    return grouped_allreduce(
        [tensor], average, name, compression, op, prescale_factor, postscale_factor, process_set
    )[0]


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """The reductions of several tensors, which complete as one."""
    chosen = operations._op(average, op)
    scales = (prescale_factor, postscale_factor)
    compressed = [compression.compress(tensor) for tensor in tensors]
    given = [wire for wire, _ in compressed]
    if _needs_gradient(given):
        results: Sequence[torch.Tensor] = _Allreduce.apply(
            name, chosen, scales, process_set, *given
        )
    else:
        results = synchronize(
            operations.grouped_start(given, None, name, chosen, scales, False, True, process_set)
        )
    return [
        compression.decompress(result, context) for result, (_, context) in zip(results, compressed)
    ]


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """As ``allreduce``, replacing `tensor`."""
    scales = (prescale_factor, postscale_factor)
    return synchronize(
        operations.grouped_start_([tensor], average, name, op, scales, True, True, process_set)
    )


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """As ``grouped_allreduce``, replacing the tensors."""
    scales = (prescale_factor, postscale_factor)
    return synchronize(
        operations.grouped_start_(tensors, average, name, op, scales, False, True, process_set)
    )


def allgather(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The tensors of all ranks along the first dimension, which may differ by rank."""
    if _needs_gradient([tensor]):
        return _Allgather.apply(tensor, name, process_set)
    return synchronize(operations.allgather_async(tensor, name, process_set))


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The tensor of rank `root_rank`, as a new tensor."""
    if _needs_gradient([tensor]):
        return _Broadcast.apply(tensor, root_rank, name, process_set)
    return synchronize(operations.broadcast_async(tensor, root_rank, name, process_set))


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Replaces `tensor` by that of rank `root_rank`."""
    return synchronize(operations.broadcast_async_(tensor, root_rank, name, process_set))
