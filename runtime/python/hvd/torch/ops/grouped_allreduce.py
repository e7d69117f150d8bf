# SPDX-License-Identifier: Apache-2.0
"""Allreduce of a group of tensors, which completes as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hvd._core import handles
from hvd._core.arguments import chosen_op
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import graphs
from hvd.torch.compression import Compression
from hvd.torch.ops.allreduce import (
    allreduce_of,
    reduced_as,
    start_allreduce,
    start_allreduce_in_place,
    traced_allreduce,
)


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
    scales = (prescale_factor, postscale_factor)
    work = allreduce_of(name, chosen_op(average, op), scales, process_set, priority=priority)
    return reduced_as(work, tensors, compression)


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
    work = allreduce_of(name, chosen, scales, process_set, priority=priority)
    if graphs.is_compiling():
        return [old.copy_(new) for old, new in zip(tensors, traced_allreduce(work, tensors))]
    return start_allreduce_in_place(work, tensors, False, handles.run)


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

    >>> handles.synchronize(grouped_allreduce_async([torch.ones(2), torch.zeros(1)]))
    [tensor([1., 1.]), tensor([0.])]
    """
    scales = (prescale_factor, postscale_factor)
    work = allreduce_of(name, chosen_op(average, op), scales, process_set, priority=priority)
    return start_allreduce(work, tensors, False)


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

    >>> handles.synchronize(grouped_allreduce_async_([torch.ones(2), torch.zeros(1)]))
    [tensor([1., 1.]), tensor([0.])]
    """
    scales = (prescale_factor, postscale_factor)
    work = allreduce_of(name, chosen_op(average, op), scales, process_set, priority=priority)
    return start_allreduce_in_place(work, tensors, False)
