# SPDX-License-Identifier: Apache-2.0
"""Allreduce of one tensor: now, started, in place, with a gradient, and as an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from hvd._core import _lib, handles
from hvd._core.arguments import check_group, chosen_op, work_among
from hvd._core.derivatives import derivative, is_of_extremes
from hvd._core.handles import Described
from hvd._core.work import Work
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import devices, graphs, operators
from hvd.torch import tensors as _tensors
from hvd.torch.compression import Compression, wire_for


def allreduce_of(
    name: str | None,
    op: int,
    scales: tuple[float, float],
    process_set: ProcessSet,
    wire: int = _lib.WIRE_SAME,
    priority: int = 0,
) -> Work:
    """An allreduce."""
    return work_among(process_set, _lib.ALLREDUCE, name, op, scales, 0, wire, priority)


def start_allreduce(
    work: Work, tensors: Sequence[torch.Tensor], single: bool, start: Any = None
) -> Any:
    """Starts an allreduce into new tensors; `single`: the result is a tensor, not a list."""
    check_group("grouped_allreduce", tensors)
    targets: list[torch.Tensor] = []
    flat: list[Described] = []
    memory: list[Any] = []
    for tensor in tensors:
        source = _tensors.plain(tensor, "allreduce", work.name)
        target = torch.empty_like(source)
        targets.append(target)
        flat.append(_tensors.to_result(source, target))
        memory += _tensors.held(source), target
    result: Any = targets[0] if single else targets
    place = devices.place_of(tensors, "allreduce")
    return (start or handles.start)(work, flat, memory, lambda handle: result, place=place)


def start_allreduce_in_place(
    work: Work, tensors: Sequence[torch.Tensor], single: bool, start: Any = None
) -> Any:
    """Starts an allreduce in place; `single`: the result is a tensor, not a list."""
    check_group("grouped_allreduce_", tensors)
    flat = [_tensors.in_place(tensor, "allreduce_", work.name) for tensor in tensors]
    given = list(tensors)
    memory = [_tensors.held(tensor) for tensor in given]

    def result(handle: int) -> Any:
        _tensors.still_there(given, flat, "allreduce_", work.name)
        return given[0] if single else given

    place = devices.place_of(tensors, "allreduce_")
    return (start or handles.start)(work, flat, memory, result, place=place)


def reduced(work: Work, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """An allreduce that has a gradient if it needs one."""
    if _tensors.needs_gradient(tensors):
        return _Allreduce.apply(work, *tensors)
    return start_allreduce(work, tensors, False, handles.run)


def back(work: Work, gradients: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The reduction of what comes back; differentiable, so that gradients have gradients."""
    return reduced(derivative(work).work, gradients)


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
        results = tuple(start_allreduce(work, tensors, False, handles.run))
        if is_of_extremes(work):
            ctx.save_for_backward(*tensors, *results)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        work, count = ctx.work, len(gradients)
        if not is_of_extremes(work):
            return (None, *back(work, gradients))
        given, results = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        return (None, *through_extremes(work, gradients, given, results, partial(back, work)))


def traced_allreduce(work: Work, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """In a graph that ``torch.compile`` makes."""
    graphs.define_operators()
    pre, post = work.scales
    rest = (work.wire, work.name, work.process_set, work.priority)
    return torch.ops.hvd.allreduce(tensors, work.op, pre, post, *rest)


def reduced_as(work: Work, tensors: Sequence[torch.Tensor], compression: Any) -> list[torch.Tensor]:
    """The reductions of several tensors, which travel as `compression` says."""
    reduce = traced_allreduce if graphs.is_compiling() else reduced
    wire = wire_for(compression, tensors)
    if wire is not None:
        return list(reduce(work._replace(wire=wire) if wire else work, tensors))
    compressed = [compression.compress(tensor) for tensor in tensors]
    results = reduce(work, [small for small, _ in compressed])
    return [compression.decompress(one, context) for one, (_, context) in zip(results, compressed)]


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
    scales = (prescale_factor, postscale_factor)
    work = allreduce_of(name, chosen_op(average, op), scales, process_set, priority=priority)
    return reduced_as(work, [tensor], compression)[0]


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
    work = allreduce_of(name, chosen, scales, process_set, priority=priority)
    if graphs.is_compiling():
        return tensor.copy_(traced_allreduce(work, [tensor])[0])
    return start_allreduce_in_place(work, [tensor], True, handles.run)


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> int:
    """Starts a reduction into a new tensor; returns a handle for ``synchronize``.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks.
    average, name, op, prescale_factor, postscale_factor, process_set
        As of ``allreduce``.
    priority
        Higher goes first among what waits; equal on all ranks.

    >>> handle = allreduce_async(torch.ones(2))
    >>> handles.synchronize(handle)
    tensor([1., 1.])
    """
    scales = (prescale_factor, postscale_factor)
    work = allreduce_of(name, chosen_op(average, op), scales, process_set, priority=priority)
    return start_allreduce(work, [tensor], True)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> int:
    """Starts a reduction in place; returns a handle for ``synchronize``.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks; it gets the result.
    average, name, op, prescale_factor, postscale_factor, process_set, priority
        As of ``allreduce``.

    >>> ones = torch.ones(2)
    >>> handles.synchronize(allreduce_async_(ones)) is ones
    True
    """
    scales = (prescale_factor, postscale_factor)
    work = allreduce_of(name, chosen_op(average, op), scales, process_set, priority=priority)
    return start_allreduce_in_place(work, [tensor], True)


def _operator(
    tensors: list[torch.Tensor],
    op: int,
    prescale: float,
    postscale: float,
    wire: int,
    name: str | None,
    process_set: int,
    priority: int,
) -> list[torch.Tensor]:
    work = Work(_lib.ALLREDUCE, name, op, (prescale, postscale), process_set, 0, wire, priority)
    return start_allreduce(work, tensors, False, handles.run)


def operator_reduced(work: Work, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    pre, post = work.scales
    return torch.ops.hvd.allreduce(
        tensors, work.op, pre, post, work.wire, None, work.process_set, 0
    )


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    tensors, op, pre, post, wire, _, process_set, _ = inputs
    work = Work(_lib.ALLREDUCE, None, op, (pre, post), process_set, wire=wire)
    ctx.work = work
    if is_of_extremes(work):
        ctx.save_for_backward(*tensors, *output)


def _operator_back(ctx: Any, gradients: Sequence[torch.Tensor]) -> Any:
    back, count = derivative(ctx.work).work, len(gradients)
    if not is_of_extremes(ctx.work):
        return operator_reduced(back, gradients), *[None] * 7
    given, results = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
    total = partial(operator_reduced, back)
    return list(through_extremes(ctx.work, gradients, given, results, total)), *[None] * 7


operators.register(
    "allreduce",
    operators.Operator(
        schema=f"(Tensor[] tensors, int op, {operators.SCALES}, int wire, {operators.COMMON}) -> Tensor[]",
        kernel=_operator,
        fake=lambda tensors, *rest: [operators.row_major(tensor) for tensor in tensors],
        keep=_keep,
        backward=_operator_back,
    ),
)
