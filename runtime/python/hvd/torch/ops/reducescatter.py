# SPDX-License-Identifier: Apache-2.0
"""Reducescatter: now, started, of groups, with a gradient, and as an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hvd._core import _lib, api, handles
from hvd._core.arguments import check_group, work_among
from hvd._core.derivatives import derivative
from hvd._core.work import Average, Work, share
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import devices, graphs, operators
from hvd.torch import tensors as _tensors
from hvd.torch.compression import Compression
from hvd.torch.ops.allgather import gathered


def _reducescatter_of(
    name: str | None, op: int, scales: Any, process_set: ProcessSet, priority: int = 0
) -> Work:
    return work_among(process_set, _lib.REDUCESCATTER, name, op, scales, priority=priority)


def _start_reducescatter(
    tensors: Sequence[torch.Tensor], single: bool, work: Work, start: Any = handles.start
) -> Any:
    check_group("grouped_reducescatter", tensors)
    sources = [_tensors.plain(tensor, "reducescatter", work.name) for tensor in tensors]

    place = api.process_set_rank(work.process_set)
    ranks = api.process_set_size(work.process_set)
    rows = [len(source) if source.dim() else 1 for source in sources]
    shares = [
        source.new_empty((share(count, place, ranks), *source.shape[1:]))
        for source, count in zip(sources, rows)
    ]
    flat = [_tensors.to_result(source, mine) for source, mine in zip(sources, shares)]
    result: Any = shares[0] if single else shares
    at = devices.place_of(sources, "reducescatter")
    memory = ([_tensors.held(source) for source in sources], shares)
    return start(work, flat, memory, lambda handle: result, place=at)


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Work, *tensors: torch.Tensor) -> Any:
        ctx.work = work
        return tuple(_start_reducescatter(tensors, False, work, handles.run))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        work, factor = derivative(ctx.work)
        back = gathered(work, gradients)
        return (None, *(gradient * factor if factor != 1 else gradient for gradient in back))


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    priority: int = 0,
) -> torch.Tensor:
    """This rank's share of the rows of the reduction; the first ranks have one row more.

    Parameters
    ----------
    tensor
        Same shape and type on all ranks; without dimensions: one row, which rank 0 gets.
    name, compression, process_set, prescale_factor, postscale_factor, priority
        As of ``allreduce``.
    op
        Any reduction but Adasum.

    >>> from hvd._core.work import Sum
    >>> reducescatter(torch.ones(api.size(), 2), op=Sum).shape
    torch.Size([1, 2])
    """
    return grouped_reducescatter(
        [tensor], name, compression, op, process_set, prescale_factor, postscale_factor, priority
    )[0]


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    priority: int = 0,
) -> list[torch.Tensor]:
    """This rank's shares of several tensors, which complete as one.

    Parameters
    ----------
    tensors
        Each of one shape and type on all ranks; within the group they may differ.
    name, compression, op, process_set, prescale_factor, postscale_factor, priority
        As of ``allreduce``.

    >>> grouped_reducescatter([torch.ones(api.size(), 2), torch.zeros(api.size())])
    [tensor([[1., 1.]]), tensor([0.])]
    """
    work = _reducescatter_of(name, op, (prescale_factor, postscale_factor), process_set, priority)
    compressed = [compression.compress(tensor) for tensor in tensors]
    given = [small for small, _ in compressed]
    if graphs.is_compiling():
        results: Sequence[torch.Tensor] = [
            _traced(work._replace(name=name if len(given) == 1 else None), tensor)
            for tensor in given
        ]
    elif _tensors.needs_gradient(given):
        results = _Reducescatter.apply(work, *given)
    else:
        results = _start_reducescatter(given, False, work, handles.run)
    return [compression.decompress(one, context) for one, (_, context) in zip(results, compressed)]


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    priority: int = 0,
) -> int:
    """Starts a reduction of which this rank gets its share of the rows.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks; a row is a slice along the first dimension.
    name, op, process_set, prescale_factor, postscale_factor, priority
        As of ``allreduce``.

    >>> handles.synchronize(reducescatter_async(torch.ones(api.size(), 2)))
    tensor([[1., 1.]])
    """
    scales = (prescale_factor, postscale_factor)
    work = _reducescatter_of(name, op, scales, process_set, priority)
    return _start_reducescatter([tensor], True, work)


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    priority: int = 0,
) -> int:
    """Starts the same for a group that completes as one.

    Parameters
    ----------
    tensors
        Each of one shape and type on all ranks; within the group they may differ.
    name, op, process_set, prescale_factor, postscale_factor, priority
        As of ``allreduce``.

    >>> handles.synchronize(grouped_reducescatter_async([torch.zeros(api.size())]))
    [tensor([0.])]
    """
    scales = (prescale_factor, postscale_factor)
    work = _reducescatter_of(name, op, scales, process_set, priority)
    return _start_reducescatter(tensors, False, work)


def _traced(work: Work, tensor: torch.Tensor) -> torch.Tensor:
    graphs.define_operators()
    pre, post = work.scales
    common = (work.name, work.process_set, work.priority)
    return torch.ops.hvd.reducescatter(tensor, work.op, pre, post, *common)


def _operator(
    tensor: torch.Tensor,
    op: int,
    prescale: float,
    postscale: float,
    name: str | None,
    process_set: int,
    priority: int,
) -> torch.Tensor:
    number: Any = process_set
    return reducescatter(
        tensor.detach(),
        name,
        op=op,
        process_set=number,
        prescale_factor=prescale,
        postscale_factor=postscale,
        priority=priority,
    )


def _fake(tensor: torch.Tensor, op: int, *scales: Any) -> torch.Tensor:
    process_set = scales[3]
    place, ranks = api.process_set_rank(process_set), api.process_set_size(process_set)
    rows = tensor.shape[0] if tensor.dim() else 1
    return operators.row_major(tensor, share(rows, place, ranks))


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    tensor, op, pre, post, _, process_set, _ = inputs
    ctx.work = Work(_lib.REDUCESCATTER, None, op, (pre, post), process_set)
    ctx.shape = tensor.shape


def _operator_back(ctx: Any, gradient: torch.Tensor) -> Any:
    work, factor = derivative(ctx.work)
    rows = ctx.shape[0] if ctx.shape else 1
    back = torch.ops.hvd.allgather(gradient, rows, None, work.process_set, 0)
    return (back * factor).view(ctx.shape), *[None] * 6


operators.register(
    "reducescatter",
    operators.Operator(
        schema=f"(Tensor tensor, int op, {operators.SCALES}, {operators.COMMON}) -> Tensor",
        kernel=_operator,
        fake=_fake,
        keep=_keep,
        backward=_operator_back,
    ),
)
