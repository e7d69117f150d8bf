# SPDX-License-Identifier: Apache-2.0
"""Reduce: now, started, and with a gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from hvd._core import _lib, api, handles
from hvd._core.arguments import work_among
from hvd._core.derivatives import derivative
from hvd._core.work import Average, Work
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import devices
from hvd.torch import tensors as _tensors
from hvd.torch.ops.broadcast import start_broadcast


def _start_reduce(tensor: torch.Tensor, work: Work, start: Any = handles.start) -> Any:
    source = _tensors.plain(tensor, "reduce", work.name)
    target = torch.empty_like(source) if api.rank() == work.root else None
    flat = [_tensors.to_result(source, target)]
    place = devices.place_of([source], "reduce")
    memory = (_tensors.held(source), target)
    return start(work, flat, memory, lambda handle: target, place=place)


def _reduce_of(
    root_rank: int, name: str | None, op: int, scales: Any, process_set: ProcessSet, priority: int
) -> Work:
    return work_among(process_set, _lib.REDUCE, name, op, scales, root_rank, priority=priority)


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, work: Work) -> torch.Tensor:
        ctx.work = work
        ctx.shape, ctx.dtype, ctx.device = tensor.shape, tensor.dtype, tensor.device
        result = _start_reduce(tensor, work, handles.run)
        # Where not root there is no result; an empty one carries the gradient back.
        return tensor.new_empty(0) if result is None else result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        work, factor = derivative(ctx.work)
        if api.rank() != work.root:
            gradient = torch.empty(ctx.shape, dtype=ctx.dtype, device=ctx.device)
        total = start_broadcast(gradient, work, handles.run)
        return total * factor, None


def reduce(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    priority: int = 0,
) -> torch.Tensor | None:
    """The reduction over ranks on `root_rank`, None elsewhere.

    Where a gradient is needed the others get an empty tensor instead: call ``.sum().backward()``
    on it, so that they take part in the backward pass.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks.
    root_rank
        The rank of the job that gets the result.
    name, op, process_set, prescale_factor, postscale_factor, priority
        As of ``allreduce``.

    >>> total = reduce(torch.ones(2), root_rank=0)
    >>> len(total) == 2 if api.rank() == 0 else True
    True
    """
    scales = (prescale_factor, postscale_factor)
    work = _reduce_of(root_rank, name, op, scales, process_set, priority)
    if _tensors.needs_gradient([tensor]):
        return _Reduce.apply(tensor, work)
    return _start_reduce(tensor, work, handles.run)


def reduce_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    priority: int = 0,
) -> int:
    """Starts a reduction of which `root_rank` gets the result, and the others None.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks.
    root_rank
        The rank of the job that gets the result.
    name, op, process_set, prescale_factor, postscale_factor, priority
        As of ``allreduce``.

    >>> total = handles.synchronize(reduce_async(torch.ones(2), root_rank=0))
    >>> len(total) == 2 if api.rank() == 0 else True
    True
    """
    scales = (prescale_factor, postscale_factor)
    return _start_reduce(tensor, _reduce_of(root_rank, name, op, scales, process_set, priority))
