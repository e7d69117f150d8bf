# SPDX-License-Identifier: Apache-2.0
"""Asynchronous operations on torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hvd import _lib, api, handles
from hvd.handles import poll, synchronize
from hvd.process_sets import ProcessSet, global_process_set
from hvd.refusals import refused
from hvd.torch import devices
from hvd.torch import tensors as _tensors
from hvd.work import Work, check_group, chosen_op, work_among

__all__ = ["poll", "synchronize"]


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
    >>> synchronize(handle)
    tensor([1., 1.])
    """
    scales = (prescale_factor, postscale_factor)
    work = allreduce_of(name, chosen_op(average, op), scales, process_set, priority=priority)
    return start_new(work, [tensor], True)


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
    >>> synchronize(allreduce_async_(ones)) is ones
    True
    """
    scales = (prescale_factor, postscale_factor)
    work = allreduce_of(name, chosen_op(average, op), scales, process_set, priority=priority)
    return start_in_place(work, [tensor], True)


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> int:
    """Starts the reduction of a group that completes as one, into new tensors.

    Parameters
    ----------
    tensors
        Each of one shape and type on all ranks; within the group they may differ.
    average, name, op, prescale_factor, postscale_factor, process_set, priority
        As of ``allreduce``.

    >>> synchronize(grouped_allreduce_async([torch.ones(2), torch.zeros(1)]))
    [tensor([1., 1.]), tensor([0.])]
    """
    scales = (prescale_factor, postscale_factor)
    work = allreduce_of(name, chosen_op(average, op), scales, process_set, priority=priority)
    return start_new(work, tensors, False)


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> int:
    """Starts the reduction in place of a group that completes as one.

    Parameters
    ----------
    tensors
        Each of one shape and type on all ranks; within the group they may differ. They get the
        results.
    average, name, op, prescale_factor, postscale_factor, process_set, priority
        As of ``allreduce``.

    >>> synchronize(grouped_allreduce_async_([torch.ones(2), torch.zeros(1)]))
    [tensor([1., 1.]), tensor([0.])]
    """
    scales = (prescale_factor, postscale_factor)
    work = allreduce_of(name, chosen_op(average, op), scales, process_set, priority=priority)
    return start_in_place(work, tensors, False)


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


def needs_gradient(tensors: Sequence[torch.Tensor]) -> bool:
    """True when a result must lead back to the tensors."""
    try:
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    except AttributeError:
        kinds = {type(one).__name__ for one in tensors if not isinstance(one, torch.Tensor)}
        raise refused(
            f"a torch.Tensor is needed, not {' or '.join(sorted(kinds))}: use torch.tensor(value)"
        ) from None


def start_new(work: Work, tensors: Sequence[torch.Tensor], single: bool, start: Any = None) -> Any:
    """Starts an allreduce into new tensors; `single`: the result is a tensor, not a list."""
    check_group("grouped_allreduce", tensors)
    sources = [_tensors.plain(tensor, "allreduce", work.name) for tensor in tensors]
    targets = [torch.empty_like(source) for source in sources]
    flat = [_tensors.to_result(source, target) for source, target in zip(sources, targets)]
    result: Any = targets[0] if single else targets
    place = devices.place_of(sources, "allreduce")
    memory = (sources, targets)
    return (start or handles.start)(work, flat, memory, lambda handle: result, place=place)


def start_in_place(
    work: Work, tensors: Sequence[torch.Tensor], single: bool, start: Any = None
) -> Any:
    """Starts an allreduce in place; `single`: the result is a tensor, not a list."""
    check_group("grouped_allreduce_", tensors)
    flat = [_tensors.in_place(tensor, "allreduce_", work.name) for tensor in tensors]
    given = list(tensors)
    memory = [tensor.detach() for tensor in given]

    def result(handle: int) -> Any:
        _tensors.still_there(given, flat, "allreduce_", work.name)
        return given[0] if single else given

    place = devices.place_of(tensors, "allreduce_")
    return (start or handles.start)(work, flat, memory, result, place=place)


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

    >>> synchronize(broadcast_async(torch.arange(3), root_rank=0))
    tensor([0, 1, 2])
    """
    return start_broadcast(tensor, broadcast_of(root_rank, name, process_set, priority))


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
    return start(work, flat, (source, target), lambda handle: target, place=place)


def start_broadcast_in_place(tensor: torch.Tensor, work: Work, start: Any = handles.start) -> Any:
    """Starts a broadcast in place."""
    flat = [_tensors.in_place(tensor, "broadcast_", work.name)]
    place = devices.place_of([tensor], "broadcast_")

    def result(handle: int) -> Any:
        _tensors.still_there([tensor], flat, "broadcast_", work.name)
        return tensor

    return start(work, flat, tensor.detach(), result, place=place)


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
    >>> synchronize(broadcast_async_(weights, root_rank=0)) is weights
    True
    """
    return start_broadcast_in_place(tensor, broadcast_of(root_rank, name, process_set, priority))


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

    >>> len(synchronize(allgather_async(torch.ones(2)))) == 2 * api.size()
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

    >>> len(synchronize(grouped_allgather_async([torch.ones(2), torch.ones(3, 1)])))
    2
    """
    return start_allgather(tensors, False, allgather_of(name, process_set, priority))


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
    return start(work, flat, (sources, rooms), result, place=place)
