# SPDX-License-Identifier: Apache-2.0
"""Broadcast: now, started, in place, with a gradient, and as an operator."""

from __future__ import annotations

from typing import Any

import torch

from hvd._core import _lib, api, handles
from hvd._core.arguments import work_among
from hvd._core.derivatives import derivative
from hvd._core.work import Work
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import devices, graphs, operators
from hvd.torch import tensors as _tensors
from hvd.torch.ops.allreduce import back, operator_reduced


def broadcast_of(
    root_rank: int, name: str | None, process_set: ProcessSet, priority: int = 0
) -> Work:
    """A broadcast."""
    return work_among(process_set, _lib.BROADCAST, name, root=root_rank, priority=priority)


def start_broadcast(tensor: torch.Tensor, work: Work, start: Any = handles.start) -> Any:
    """Starts a broadcast into a new tensor."""
    source = _tensors.plain(tensor, "broadcast", work.name)
    target = torch.empty_like(source)
    flat = [_tensors.to_result(source, target)]
    place = devices.place_of([source], "broadcast")
    memory = (_tensors.held(source), target)
    return start(work, flat, memory, lambda handle: target, place=place)


def start_broadcast_in_place(tensor: torch.Tensor, work: Work, start: Any = handles.start) -> Any:
    """Starts a broadcast in place."""
    flat = [_tensors.in_place(tensor, "broadcast_", work.name)]
    place = devices.place_of([tensor], "broadcast_")

    def result(handle: int) -> Any:
        _tensors.still_there([tensor], flat, "broadcast_", work.name)
        return tensor

    return start(work, flat, _tensors.held(tensor), result, place=place)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, work: Work) -> torch.Tensor:
        ctx.work = work
        return start_broadcast(tensor, work, handles.run)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (total,) = back(ctx.work, [gradient])
        if api.rank() != ctx.work.root:
            everywhere = torch.ones((), dtype=torch.bool, device=total.device)
            total = total.masked_fill(everywhere, 0)  # zeros that lead back to it
        return total, None


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
    work = broadcast_of(root_rank, name, process_set, priority)
    if graphs.is_compiling():
        return _traced(work, tensor)
    if _tensors.needs_gradient([tensor]):
        return _Broadcast.apply(tensor, work)
    return start_broadcast(tensor, work, handles.run)


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
    work = broadcast_of(root_rank, name, process_set, priority)
    if graphs.is_compiling():
        return tensor.copy_(_traced(work, tensor))
    return start_broadcast_in_place(tensor, work, handles.run)


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> int:
    """Starts a broadcast into a new tensor; `root_rank` is a rank of the job.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks.
    root_rank
        The rank of the job whose value it is.
    name, process_set, priority
        As of ``allreduce``.

    >>> handles.synchronize(broadcast_async(torch.arange(3), root_rank=0))
    tensor([0, 1, 2])
    """
    return start_broadcast(tensor, broadcast_of(root_rank, name, process_set, priority))


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> int:
    """Starts replacing a tensor by that of rank `root_rank`.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks; it gets the value of `root_rank`.
    root_rank
        The rank of the job whose value it is.
    name, process_set, priority
        As of ``allreduce``.

    >>> weights = torch.arange(3)
    >>> handles.synchronize(broadcast_async_(weights, root_rank=0)) is weights
    True
    """
    return start_broadcast_in_place(tensor, broadcast_of(root_rank, name, process_set, priority))


def _traced(work: Work, tensor: torch.Tensor) -> torch.Tensor:
    graphs.define_operators()
    common = (work.name, work.process_set, work.priority)
    return torch.ops.hvd.broadcast(tensor, work.root, *common)


def _operator(
    tensor: torch.Tensor, root_rank: int, name: str | None, process_set: int, priority: int
) -> torch.Tensor:
    work = Work(_lib.BROADCAST, name, process_set=process_set, root=root_rank, priority=priority)
    return start_broadcast(tensor, work, handles.run)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    _, root, _, process_set, _ = inputs
    ctx.work = Work(_lib.BROADCAST, process_set=process_set, root=root)


def _operator_back(ctx: Any, gradient: torch.Tensor) -> Any:
    (total,) = operator_reduced(derivative(ctx.work).work, [gradient])
    mine = total if api.rank() == ctx.work.root else torch.zeros_like(total)
    return mine, None, None, None, None


operators.register(
    "broadcast",
    operators.Operator(
        schema=f"(Tensor tensor, int root_rank, {operators.COMMON}) -> Tensor",
        kernel=_operator,
        fake=lambda tensor, *rest: operators.row_major(tensor),
        keep=_keep,
        backward=_operator_back,
    ),
)
