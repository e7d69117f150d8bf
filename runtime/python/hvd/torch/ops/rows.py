# SPDX-License-Identifier: Apache-2.0
"""Rows that go from rank to rank: what alltoall, gather and scatter share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import torch

from hvd._core import _lib, api, handles
from hvd._core.derivatives import derivative, splits_back
from hvd._core.refusals import refused
from hvd._core.work import Work
from hvd.torch import devices
from hvd.torch import tensors as _tensors

Splits = Union[Sequence[int], torch.Tensor]


def counts_of(splits: Splits | None, what: str) -> list[int] | None:
    if splits is None:
        return None
    if isinstance(splits, torch.Tensor):
        if splits.dim() != 1 or splits.is_floating_point() or splits.is_complex():
            raise refused(f"{what}: splits must be one integer for each rank, not {splits}")
        return splits.tolist()
    return [int(one) for one in splits]


def start_rows(
    tensor: torch.Tensor,
    splits: Sequence[int] | None,
    work: Work,
    with_rows: bool,
    start: Any = handles.start,
) -> Any:
    """`with_rows`: the result is a pair, of which the second is the rows from each rank."""
    source = _tensors.plain(tensor, _lib.KINDS[work.kind].name, work.name)
    # Of equal parts as many come as go.
    is_even = work.kind == _lib.ALLTOALL and splits is None
    room = torch.empty_like(source) if is_even else None
    # The caller may cast or move his tensor meanwhile.
    like = source.new_empty(0) if room is None else room

    def result(handle: int) -> Any:
        rows = _tensors.gathered(handle, 0, like)
        if not with_rows:
            return rows
        return rows, torch.tensor(api.gathered(handle).rows, dtype=torch.int32)

    flat = [_tensors.rows_of(source, room, splits)]
    place = devices.place_of([source], _lib.KINDS[work.kind].name)
    return start(work, flat, (_tensors.held(source), room), result, place=place)


class _Exchange(torch.autograd.Function):
    """Sends back along the way that the rows came."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, splits: Sequence[int] | None, work: Work
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.work, ctx.shape, ctx.splits = work, tensor.shape, splits
        rows, counts = start_rows(tensor, splits, work, True, handles.run)
        ctx.counts = counts.tolist()
        ctx.mark_non_differentiable(counts)
        return rows, counts

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *unused: Any) -> Any:
        work = ctx.work
        back = run_rows(gradient, splits_back(work, ctx.counts), derivative(work).work, False)
        # Rows that went nowhere changed nothing; nor did those of a rank that is not root.
        rest = ctx.shape.numel() - back.numel()
        if rest > 0:
            back = torch.cat([back.reshape(-1), back.new_zeros(rest)])
        return back.reshape(ctx.shape), None, None


def run_rows(
    tensor: torch.Tensor, splits: Sequence[int] | None, work: Work, with_rows: bool
) -> Any:
    if not _tensors.needs_gradient([tensor]):
        return start_rows(tensor, splits, work, with_rows, handles.run)
    rows, counts = _Exchange.apply(tensor, splits, work)
    return (rows, counts) if with_rows else rows
