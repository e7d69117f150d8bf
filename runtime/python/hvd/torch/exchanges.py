# SPDX-License-Identifier: Apache-2.0
"""Rows from rank to rank: alltoall, gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import torch

from hvd import _lib, api, handles
from hvd.derivatives import derivative, splits_back
from hvd.process_sets import ProcessSet, global_process_set
from hvd.refusals import refused
from hvd.torch import devices, graphs, operations
from hvd.torch import tensors as _tensors
from hvd.work import KINDS, Work, work_among

Splits = Union[Sequence[int], torch.Tensor]


def _counts(splits: Splits | None, what: str) -> list[int] | None:
    if splits is None:
        return None
    if isinstance(splits, torch.Tensor):
        if splits.dim() != 1 or splits.is_floating_point() or splits.is_complex():
            raise refused(f"{what}: splits must be one integer for each rank, not {splits}")
        return splits.tolist()
    return [int(one) for one in splits]


def _start(
    tensor: torch.Tensor,
    splits: Sequence[int] | None,
    work: Work,
    with_rows: bool,
    start: Any = handles.start,
) -> Any:
    """`with_rows`: the result is a pair, of which the second is the rows from each rank."""
    source = _tensors.plain(tensor, KINDS[work.kind], work.name)
    # Of equal parts as many come as go.
    is_even = work.kind == _lib.ALLTOALL and splits is None
    room = torch.empty_like(source) if is_even else None

    def result(handle: int) -> Any:
        rows = _tensors.gathered(handle, 0, source if room is None else room)
        if not with_rows:
            return rows
        return rows, torch.tensor(api.gathered(handle).rows, dtype=torch.int32)

    flat = [_tensors.rows_of(source, room, splits)]
    place = devices.place_of([source], KINDS[work.kind])
    return start(work, flat, (source, room), result, place=place)


class _Exchange(torch.autograd.Function):
    """Sends back along the way that the rows came."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, splits: Sequence[int] | None, work: Work
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.work, ctx.shape, ctx.splits = work, tensor.shape, splits
        rows, counts = _start(tensor, splits, work, True, handles.run)
        ctx.counts = counts.tolist()
        ctx.mark_non_differentiable(counts)
        return rows, counts

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *unused: Any) -> Any:
        work = ctx.work
        back = _run(gradient, splits_back(work, ctx.counts), derivative(work).work, False)
        # Rows that went nowhere changed nothing; nor did those of a rank that is not root.
        rest = ctx.shape.numel() - back.numel()
        if rest > 0:
            back = torch.cat([back.reshape(-1), back.new_zeros(rest)])
        return back.reshape(ctx.shape), None, None


def _run(tensor: torch.Tensor, splits: Sequence[int] | None, work: Work, with_rows: bool) -> Any:
    if not operations.needs_gradient([tensor]):
        return _start(tensor, splits, work, with_rows, handles.run)
    rows, counts = _Exchange.apply(tensor, splits, work)
    return (rows, counts) if with_rows else rows


def alltoall_async(
    tensor: torch.Tensor,
    splits: Splits | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> int:
    """Starts sending rows to each rank; ``synchronize`` returns what ``alltoall`` does.

    Parameters
    ----------
    tensor
        Rows of one shape and type on all ranks: those for rank 0 come first.
    splits
        [ranks] integers: how many of the rows go to each rank, in order; may differ by rank.
        Without: equal parts.
    name, process_set, priority
        As of ``allreduce``.

    >>> rows = operations.synchronize(alltoall_async(torch.zeros(api.size())))
    >>> len(rows) == api.size()
    True
    """
    counts = _counts(splits, "alltoall")
    work = work_among(process_set, _lib.ALLTOALL, name, priority=priority)
    return _start(tensor, counts, work, counts is not None)


def alltoall(
    tensor: torch.Tensor,
    splits: Splits | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The rows that the other ranks sent here; with `splits` also how many came from each.

    Parameters
    ----------
    tensor
        Rows of one shape and type on all ranks: those for rank 0 come first.
    splits
        How many of the rows go to each rank, in order, as a list or a tensor of integers; may
        differ by rank. Without: equal parts.
    name, process_set, priority
        As of ``allreduce``.

    >>> alltoall(torch.zeros(api.size())).sum()  # what each rank has at the place of this one
    tensor(0.)
    """
    work = work_among(process_set, _lib.ALLTOALL, name, priority=priority)
    if graphs.is_compiling():
        return graphs.alltoall(work, tensor, splits)
    counts = _counts(splits, "alltoall")
    return _run(tensor, counts, work, counts is not None)


def gather_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> int:
    """Starts collecting the rows of all ranks on `root_rank`.

    Parameters
    ----------
    tensor
        Rows of one shape and type on all ranks; their number may differ.
    root_rank
        The rank of the job that gets the rows.
    name, process_set, priority
        As of ``allreduce``.

    >>> rows = operations.synchronize(gather_async(torch.ones(2), root_rank=0))
    >>> len(rows) == (2 * api.size() if api.rank() == 0 else 0)
    True
    """
    return _start(
        tensor,
        None,
        work_among(process_set, _lib.GATHER, name, root=root_rank, priority=priority),
        False,
    )


def gather(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> torch.Tensor:
    """The rows of all ranks on `root_rank`, none elsewhere.

    Parameters
    ----------
    tensor
        Rows of one shape and type on all ranks; their number may differ.
    root_rank
        The rank of the job that gets the rows.
    name, process_set, priority
        As of ``allreduce``.

    >>> len(gather(torch.ones(2), root_rank=0)) == (2 * api.size() if api.rank() == 0 else 0)
    True
    """
    return _run(
        tensor,
        None,
        work_among(process_set, _lib.GATHER, name, root=root_rank, priority=priority),
        False,
    )


def scatter_async(
    tensor: torch.Tensor,
    root_rank: int,
    splits: Splits | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> int:
    """Starts sending each rank its part of the rows of `root_rank`.

    Parameters
    ----------
    tensor
        Elsewhere than on `root_rank` only its type and the shape of its rows count.
    root_rank
        The rank of the job whose rows they are.
    splits
        [ranks] rows for each rank; shared out evenly unless given. Counts on `root_rank` only.
    name, process_set, priority
        As of ``allreduce``.

    >>> operations.synchronize(scatter_async(torch.ones(api.size(), 2), root_rank=0))
    tensor([[1., 1.]])
    """
    counts = _counts(splits, "scatter") if api.rank() == root_rank else None
    return _start(
        tensor,
        counts,
        work_among(process_set, _lib.SCATTER, name, root=root_rank, priority=priority),
        False,
    )


def scatter(
    tensor: torch.Tensor,
    root_rank: int,
    splits: Splits | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
) -> torch.Tensor:
    """This rank's part of the rows of `root_rank`.

    Parameters
    ----------
    tensor
        Elsewhere than on `root_rank` only its type and the shape of its rows count.
    root_rank
        The rank of the job whose rows they are.
    splits
        Rows for each rank; shared out evenly unless given. Counts on `root_rank` only.
    name, process_set, priority
        As of ``allreduce``.

    >>> scatter(torch.ones(api.size(), 2), root_rank=0)
    tensor([[1., 1.]])
    """
    counts = _counts(splits, "scatter") if api.rank() == root_rank else None
    return _run(
        tensor,
        counts,
        work_among(process_set, _lib.SCATTER, name, root=root_rank, priority=priority),
        False,
    )
