# SPDX-License-Identifier: Apache-2.0
"""Operations that wait for their result; gradients flow through those that return new tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from hvd import _lib, api, handles
from hvd.derivatives import derivative, is_of_extremes
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import graphs, operations
from hvd.torch.compression import Compression, wire_for
from hvd.torch.operations import needs_gradient
from hvd.work import Work, chosen_op


def _reduced(work: Work, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """An allreduce that has a gradient if it needs one."""
    if needs_gradient(tensors):
        return _Allreduce.apply(work, *tensors)
    return operations.start_new(work, tensors, False, handles.run)


def _back(work: Work, gradients: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The reduction of what comes back; differentiable, so that gradients have gradients."""
    return _reduced(derivative(work).work, gradients)


# What tensors travel as.
_SENT_AS = {_lib.WIRE_FLOAT16: torch.float16, _lib.WIRE_BFLOAT16: torch.bfloat16}


def through_extremes(
    work: Work,
    gradients: Sequence[torch.Tensor],
    given: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
    total: Callable[[list[torch.Tensor]], Sequence[torch.Tensor]],
) -> Iterator[torch.Tensor]:
    """The gradients of what was `given` to Min or Max; `total`: the sums over ranks."""
    sent = [one.to(_SENT_AS.get(work.wire, one.dtype)).to(one.dtype) for one in given]
    hits = [(one == extreme).to(one.dtype) for one, extreme in zip(sent, results)]
    sums = total([*gradients, *hits])
    # NaN equals nothing: nobody gave it.
    return (t * hit / count.clamp(min=1) for t, hit, count in zip(sums, hits, sums[len(hits) :]))


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Work, *tensors: torch.Tensor) -> Any:
        ctx.work = work
        results = tuple(operations.start_new(work, tensors, False, handles.run))
        if is_of_extremes(work):
            ctx.save_for_backward(*tensors, *results)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        work, count = ctx.work, len(gradients)
        if not is_of_extremes(work):
            return (None, *_back(work, gradients))
        given, results = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        return (None, *through_extremes(work, gradients, given, results, partial(_back, work)))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, work: Work) -> torch.Tensor:
        ctx.work = work
        return operations.start_broadcast(tensor, work, handles.run)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (total,) = _back(ctx.work, [gradient])
        if api.rank() != ctx.work.root:
            everywhere = torch.ones((), dtype=torch.bool, device=total.device)
            total = total.masked_fill(everywhere, 0)  # zeros that lead back to it
        return total, None


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Work, *tensors: torch.Tensor) -> Any:
        ctx.work = work
        ctx.rows = [tensor.shape[0] if tensor.dim() else 0 for tensor in tensors]
        return tuple(operations.start_allgather(tensors, False, work, handles.run))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        number = ctx.work.process_set
        totals = _back(ctx.work, gradients)
        mine = torch.tensor([ctx.rows])
        work = Work(_lib.ALLGATHER, process_set=number)
        everyone = operations.start_allgather([mine], True, work, handles.run)
        begins = everyone[: api.process_set_rank(number)].sum(0).tolist()
        parts = zip(totals, begins, ctx.rows)
        return (None, *(total[begin : begin + rows] for total, begin, rows in parts))


def gathered(work: Work, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """An allgather that has a gradient if it needs one."""
    if needs_gradient(tensors):
        return list(_Allgather.apply(work, *tensors))
    return operations.start_allgather(tensors, False, work, handles.run)


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> torch.Tensor:
    """The reduction of `tensor` over all ranks (their average unless `op` says otherwise).

    Parameters
    ----------
    tensor
        Same shape and type on all ranks.
    average
        The old way to say op: True is Average, False is Sum.
    name
        Equal on all ranks; made from the order of calls when absent.
    compression
        One of ``Compression``: how float32 and float64 travel.
    op
        ``Average`` unless given; or ``Sum``, ``Adasum``, ``Min``, ``Max``, ``Product``, and of
        whole numbers ``BitAnd``, ``BitOr``, ``BitXor``.
    prescale_factor, postscale_factor
        Multiply before and after the reduction.
    process_set
        The ranks that take part, each of which calls it.
    priority
        Higher goes first among what waits; equal on all ranks.

    >>> allreduce(torch.ones(2))
    tensor([1., 1.])
    """
    return grouped_allreduce(
        [tensor],
        average,
        name,
        compression,
        op,
        prescale_factor,
        postscale_factor,
        process_set,
        priority,
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
    priority: int = 0,
) -> list[torch.Tensor]:
    """The reductions of several tensors, which complete as one.

    Parameters
    ----------
    tensors
        Each of one shape and type on all ranks; within the group they may differ.
    average, name, compression, op, prescale_factor, postscale_factor, process_set, priority
        As of ``allreduce``.

    >>> grouped_allreduce([torch.ones(2), torch.zeros(1)])
    [tensor([1., 1.]), tensor([0.])]
    """
    chosen = chosen_op(average, op)
    scales = (prescale_factor, postscale_factor)
    wire = wire_for(compression, tensors)
    compressed = [(t, None) if wire is not None else compression.compress(t) for t in tensors]
    given = [small for small, _ in compressed]
    work = operations.allreduce_of(name, chosen, scales, process_set, wire or 0, priority)
    if graphs.is_compiling():
        results: Sequence[torch.Tensor] = graphs.allreduce(work, given)
    else:
        results = _reduced(work, given)
    if wire is not None:
        return list(results)
    return [compression.decompress(one, context) for one, (_, context) in zip(results, compressed)]


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> torch.Tensor:
    """As ``allreduce``, replacing `tensor`.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks; it gets the result.
    average, name, op, prescale_factor, postscale_factor, process_set, priority
        As of ``allreduce``.

    >>> ones = torch.ones(2)
    >>> allreduce_(ones) is ones
    True
    """
    scales = (prescale_factor, postscale_factor)
    chosen = chosen_op(average, op)
    work = operations.allreduce_of(name, chosen, scales, process_set, priority=priority)
    if graphs.is_compiling():
        return tensor.copy_(graphs.allreduce(work, [tensor])[0])
    return operations.start_in_place(work, [tensor], True, handles.run)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> list[torch.Tensor]:
    """As ``grouped_allreduce``, replacing the tensors.

    Parameters
    ----------
    tensors
        Each of one shape and type on all ranks; within the group they may differ. They get the
        results.
    average, name, op, prescale_factor, postscale_factor, process_set, priority
        As of ``allreduce``.

    >>> grouped_allreduce_([torch.ones(2), torch.zeros(1)])
    [tensor([1., 1.]), tensor([0.])]
    """
    scales = (prescale_factor, postscale_factor)
    chosen = chosen_op(average, op)
    work = operations.allreduce_of(name, chosen, scales, process_set, priority=priority)
    if graphs.is_compiling():
        return [old.copy_(new) for old, new in zip(tensors, graphs.allreduce(work, tensors))]
    return operations.start_in_place(work, tensors, False, handles.run)


def allgather(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> torch.Tensor:
    """The tensors of all ranks along the first dimension, which may differ by rank.

    Parameters
    ----------
    tensor
        Rows of one shape and type on all ranks; their number may differ.
    name, process_set, priority
        As of ``allreduce``.

    >>> allgather(torch.ones(2, 3)).shape == (2 * api.size(), 3)
    True
    """
    work = operations.allgather_of(name, process_set, priority)
    if graphs.is_compiling():
        return graphs.allgather(work, tensor)
    if needs_gradient([tensor]):
        return _Allgather.apply(work, tensor)[0]
    return operations.start_allgather([tensor], True, work, handles.run)


def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> list[torch.Tensor]:
    """The same for each of several tensors, which complete as one.

    Parameters
    ----------
    tensors
        Each with rows of one shape and type on all ranks; their number may differ.
    name, process_set, priority
        As of ``allreduce``.

    >>> len(grouped_allgather([torch.ones(2), torch.ones(3, 1)]))
    2
    """
    work = operations.allgather_of(name, process_set, priority)
    if graphs.is_compiling():
        return [graphs.allgather(work._replace(name=None), tensor) for tensor in tensors]
    return gathered(work, tensors)


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> torch.Tensor:
    """The tensor of rank `root_rank`, as a new tensor.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks.
    root_rank
        The rank of the job whose value it is.
    name, process_set, priority
        As of ``allreduce``.

    >>> broadcast(torch.arange(3), root_rank=0)
    tensor([0, 1, 2])
    """
    work = operations.broadcast_of(root_rank, name, process_set, priority)
    if graphs.is_compiling():
        return graphs.broadcast(work, tensor)
    if needs_gradient([tensor]):
        return _Broadcast.apply(tensor, work)
    return operations.start_broadcast(tensor, work, handles.run)


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> torch.Tensor:
    """Replaces `tensor` by that of rank `root_rank`.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks; it gets the value of `root_rank`.
    root_rank
        The rank of the job whose values they are.
    name
        Equal on all ranks; made from the order of calls unless given.
    process_set
        The ranks that take part, each of which calls it.
    priority
        As of ``allreduce``.

    >>> weights = torch.arange(3)
    >>> broadcast_(weights, root_rank=0) is weights
    True
    """
    work = operations.broadcast_of(root_rank, name, process_set, priority)
    if graphs.is_compiling():
        return tensor.copy_(graphs.broadcast(work, tensor))
    return operations.start_broadcast_in_place(tensor, work, handles.run)
