# SPDX-License-Identifier: Apache-2.0
"""Scatter: now, started, and with a gradient."""

from __future__ import annotations

import torch

from hvd._core import _lib, api
from hvd._core.arguments import work_among
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch.ops.rows import Splits, counts_of, run_rows, start_rows


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
    counts = counts_of(splits, "scatter") if api.rank() == root_rank else None
    return run_rows(
        tensor,
        counts,
        work_among(process_set, _lib.SCATTER, name, root=root_rank, priority=priority),
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

    >>> from hvd._core import handles
    >>> handles.synchronize(scatter_async(torch.ones(api.size(), 2), root_rank=0))
    tensor([[1., 1.]])
    """
    counts = counts_of(splits, "scatter") if api.rank() == root_rank else None
    return start_rows(
        tensor,
        counts,
        work_among(process_set, _lib.SCATTER, name, root=root_rank, priority=priority),
        False,
    )
