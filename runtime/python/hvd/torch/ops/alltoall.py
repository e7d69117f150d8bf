# SPDX-License-Identifier: Apache-2.0
"""Alltoall: now, started, with a gradient, and as an operator."""

from __future__ import annotations

from typing import Any

import torch

from hvd._core import _lib
from hvd._core.arguments import work_among
from hvd._core.work import Work
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import graphs, operators
from hvd.torch.ops.rows import Splits, counts_of, run_rows, start_rows


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

    >>> from hvd._core import api
    >>> alltoall(torch.zeros(api.size())).sum()  # what each rank has at the place of this one
    tensor(0.)
    """
    work = work_among(process_set, _lib.ALLTOALL, name, priority=priority)
    if graphs.is_compiling():
        return _traced(work, tensor, splits)
    counts = counts_of(splits, "alltoall")
    return run_rows(tensor, counts, work, counts is not None)


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

    >>> from hvd._core import api, handles
    >>> rows = handles.synchronize(alltoall_async(torch.zeros(api.size())))
    >>> len(rows) == api.size()
    True
    """
    counts = counts_of(splits, "alltoall")
    work = work_among(process_set, _lib.ALLTOALL, name, priority=priority)
    return start_rows(tensor, counts, work, counts is not None)


def _traced(
    work: Work, tensor: torch.Tensor, splits: Splits | None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    graphs.define_operators()
    common = (work.name, work.process_set, work.priority)
    if splits is None:
        return torch.ops.hvd.alltoall(tensor, *common)
    if not isinstance(splits, torch.Tensor):
        splits = torch.tensor(splits, dtype=torch.int64)
    return torch.ops.hvd.alltoall_rows(tensor, splits, None, *common)


def _operator(
    tensor: torch.Tensor, name: str | None, process_set: int, priority: int
) -> torch.Tensor:
    number: Any = process_set
    return alltoall(tensor.detach(), None, name, number, priority)  # type: ignore[return-value]


def _operator_of_rows(
    tensor: torch.Tensor,
    splits: torch.Tensor,
    rows: int | None,
    name: str | None,
    process_set: int,
    priority: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`rows`: of the result, zeros at its end; without: as many as come."""
    number: Any = process_set
    result, counts = alltoall(tensor.detach(), splits, name, number, priority)
    if rows is not None and rows > len(result):
        rest = result.new_zeros((rows - len(result), *result.shape[1:]))
        result = torch.cat([result, rest])
    return result, counts.to(splits.device)


def _fake_of_rows(
    tensor: torch.Tensor, splits: torch.Tensor, rows: Any, *common: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    if rows is None:
        rows = torch.library.get_ctx().new_dynamic_size()
    return operators.row_major(tensor, rows), splits.new_empty(splits.shape, dtype=torch.int32)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.process_set = inputs[2]


def _operator_back(ctx: Any, gradient: torch.Tensor) -> Any:
    return torch.ops.hvd.alltoall(gradient, None, ctx.process_set, 0), None, None, None


def _keep_of_rows(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.process_set = inputs[4]
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.rows = inputs[0].shape[0]


def _operator_of_rows_back(ctx: Any, gradient: torch.Tensor, unused: Any) -> Any:
    (counts,) = ctx.saved_tensors
    common = (None, ctx.process_set, 0)
    back, _ = torch.ops.hvd.alltoall_rows(gradient, counts, ctx.rows, *common)
    return back, None, None, None, None, None


operators.register(
    "alltoall",
    operators.Operator(
        schema=f"(Tensor tensor, {operators.COMMON}) -> Tensor",
        kernel=_operator,
        fake=lambda tensor, *rest: operators.row_major(tensor),
        keep=_keep,
        backward=_operator_back,
    ),
)
operators.register(
    "alltoall_rows",
    operators.Operator(
        schema=(
            f"(Tensor tensor, Tensor splits, SymInt? rows, {operators.COMMON}) -> (Tensor, Tensor)"
        ),
        kernel=_operator_of_rows,
        fake=_fake_of_rows,
        keep=_keep_of_rows,
        backward=_operator_of_rows_back,
    ),
)
