# SPDX-License-Identifier: Apache-2.0
"""Allgather: now, started, of groups, with a gradient, and as an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hvd._core import _lib, api, handles
from hvd._core.arguments import check_group, work_among
from hvd._core.derivatives import derivative
from hvd._core.refusals import refused
from hvd._core.work import Work
from hvd.errors import MismatchError
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import devices, graphs, operators
from hvd.torch import tensors as _tensors
from hvd.torch.ops.allreduce import back, operator_reduced


def allgather_of(name: str | None, process_set: ProcessSet, priority: int = 0) -> Work:
    """An allgather."""
    return work_among(process_set, _lib.ALLGATHER, name, priority=priority)


def start_allgather(
    tensors: Sequence[torch.Tensor], single: bool, work: Work, start: Any = handles.start
) -> Any:
    """Starts an allgather; `single`: the result is a tensor, not a list."""
    check_group("grouped_allgather", tensors)
    sources = [_tensors.plain(tensor, "allgather", work.name) for tensor in tensors]
    if any(source.dim() == 0 for source in sources):
        raise refused(
            f"allgather '{work.name}': a scalar has no first dimension; use tensor.reshape(1)"
        )
    # Ranks most often have equally many rows: then this is the result, else only too long or short.
    ranks = api.process_set_size(work.process_set)
    rooms = [source.new_empty((len(source) * ranks, *source.shape[1:])) for source in sources]

    def result(handle: int) -> Any:
        made = [_tensors.gathered(handle, i, room) for i, room in enumerate(rooms)]
        return made[0] if single else made

    flat = [_tensors.rows_of(source, room) for source, room in zip(sources, rooms)]
    place = devices.place_of(sources, "allgather")
    memory = ([_tensors.held(source) for source in sources], rooms)
    return start(work, flat, memory, result, place=place)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Work, *tensors: torch.Tensor) -> Any:
        ctx.work = work
        ctx.rows = [tensor.shape[0] if tensor.dim() else 0 for tensor in tensors]
        return tuple(start_allgather(tensors, False, work, handles.run))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        number = ctx.work.process_set
        totals = back(ctx.work, gradients)
        mine = torch.tensor([ctx.rows])
        work = Work(_lib.ALLGATHER, process_set=number)
        everyone = start_allgather([mine], True, work, handles.run)
        begins = everyone[: api.process_set_rank(number)].sum(0).tolist()
        parts = zip(totals, begins, ctx.rows)
        return (None, *(total[begin : begin + rows] for total, begin, rows in parts))


def gathered(work: Work, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """An allgather that has a gradient if it needs one."""
    if _tensors.needs_gradient(tensors):
        return list(_Allgather.apply(work, *tensors))
    return start_allgather(tensors, False, work, handles.run)


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
    work = allgather_of(name, process_set, priority)
    if graphs.is_compiling():
        return _traced(work, tensor)
    if _tensors.needs_gradient([tensor]):
        return _Allgather.apply(work, tensor)[0]
    return start_allgather([tensor], True, work, handles.run)


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
    work = allgather_of(name, process_set, priority)
    if graphs.is_compiling():
        return [_traced(work._replace(name=None), tensor) for tensor in tensors]
    return gathered(work, tensors)


def allgather_async(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> int:
    """Starts concatenating the tensors of all ranks along the first dimension.

    Parameters
    ----------
    tensor
        Rows of one shape and type on all ranks; their number may differ.
    name, process_set, priority
        As of ``allreduce``.

    >>> len(handles.synchronize(allgather_async(torch.ones(2)))) == 2 * api.size()
    True
    """
    return start_allgather([tensor], True, allgather_of(name, process_set, priority))


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> int:
    """Starts the concatenation of each tensor of a group that completes as one.

    Parameters
    ----------
    tensors
        Each with rows of one shape and type on all ranks; their number may differ.
    name, process_set, priority
        As of ``allreduce``.

    >>> len(handles.synchronize(grouped_allgather_async([torch.ones(2), torch.ones(3, 1)])))
    2
    """
    return start_allgather(tensors, False, allgather_of(name, process_set, priority))


def _traced(work: Work, tensor: torch.Tensor) -> torch.Tensor:
    """In a graph, where all ranks have equally many rows."""
    graphs.define_operators()
    rows = tensor.shape[0] * api.process_set_size(work.process_set)
    return torch.ops.hvd.allgather(tensor, rows, work.name, work.process_set, work.priority)


def _operator(
    tensor: torch.Tensor, rows: int, name: str | None, process_set: int, priority: int
) -> torch.Tensor:
    work = Work(_lib.ALLGATHER, name, process_set=process_set, priority=priority)
    result = start_allgather([tensor], True, work, handles.run)
    if len(result) != rows:
        raise MismatchError(
            f"rank {api.rank()}: allgather in compiled code: {len(result)} rows came, {rows} were "
            "expected: there every rank must have as many; gather others outside of torch.compile"
        )
    return result


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    tensor, _, _, process_set, _ = inputs
    ctx.work = Work(_lib.ALLGATHER, process_set=process_set)
    ctx.rows = tensor.shape[0]


def _operator_back(ctx: Any, gradient: torch.Tensor) -> Any:
    (total,) = operator_reduced(derivative(ctx.work).work, [gradient])
    begin = ctx.rows * api.process_set_rank(ctx.work.process_set)
    return total[begin : begin + ctx.rows].clone(), None, None, None, None


operators.register(
    "allgather",
    operators.Operator(
        schema=f"(Tensor tensor, SymInt rows, {operators.COMMON}) -> Tensor",
        kernel=_operator,
        fake=lambda tensor, rows, *rest: operators.row_major(tensor, rows),
        keep=_keep,
        backward=_operator_back,
    ),
)
