# SPDX-License-Identifier: Apache-2.0
"""Operations that wait for their result; gradients flow through those that return new tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hvd import api
from hvd.torch import operations
from hvd.torch.compression import Compression
from hvd.torch.operations import Average, synchronize


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str | None, op: int, scales: Any, *tensors: Any) -> Any:
        ctx.op, ctx.scales = op, scales
        handle = operations.grouped_start(tensors, None, name, op, scales, False, True)
        return tuple(synchronize(handle))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        # The derivative of a sum over ranks is the same sum of what comes back.
        handle = operations.grouped_start(gradients, None, None, ctx.op, ctx.scales, False, True)
        return (None, None, None, *synchronize(handle))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: str | None) -> torch.Tensor:
        ctx.root_rank = root_rank
        return synchronize(operations.broadcast_async(tensor, root_rank, name))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        total = synchronize(operations.allreduce_async(gradient, op=Average))
        return (total if api.rank() == ctx.root_rank else torch.zeros_like(total)), None, None


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str | None) -> torch.Tensor:
        ctx.rows = tensor.shape[0] if tensor.dim() else 0
        return synchronize(operations.allgather_async(tensor, name))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        total = synchronize(operations.allreduce_async(gradient, op=Average))
        rows = synchronize(operations.allgather_async(torch.tensor([ctx.rows])))
        first = int(rows[: api.rank()].sum())
        return total[first : first + ctx.rows], None


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
        [tensor], average, name, compression, op, prescale_factor, postscale_factor
    )[0]


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """The reductions of several tensors, which complete as one."""
    chosen = operations._op(average, op)
    scales = (prescale_factor, postscale_factor)
    compressed = [compression.compress(tensor) for tensor in tensors]
    given = [wire for wire, _ in compressed]
    if _needs_gradient(given):
        results: Sequence[torch.Tensor] = _Allreduce.apply(name, chosen, scales, *given)
    else:
        results = synchronize(
            operations.grouped_start(given, None, name, chosen, scales, False, True)
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
) -> torch.Tensor:
    """As ``allreduce``, replacing `tensor`."""
    scales = (prescale_factor, postscale_factor)
    return synchronize(operations.grouped_start_([tensor], average, name, op, scales, True, True))


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """As ``grouped_allreduce``, replacing the tensors."""
    scales = (prescale_factor, postscale_factor)
    return synchronize(operations.grouped_start_(tensors, average, name, op, scales, False, True))


def allgather(tensor: torch.Tensor, name: str | None = None) -> torch.Tensor:
    """The tensors of all ranks along the first dimension, which may differ by rank."""
    if _needs_gradient([tensor]):
        return _Allgather.apply(tensor, name)
    return synchronize(operations.allgather_async(tensor, name))


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """The tensor of rank `root_rank`, as a new tensor."""
    if _needs_gradient([tensor]):
        return _Broadcast.apply(tensor, root_rank, name)
    return synchronize(operations.broadcast_async(tensor, root_rank, name))


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """Replaces `tensor` by that of rank `root_rank`."""
    return synchronize(operations.broadcast_async_(tensor, root_rank, name))
