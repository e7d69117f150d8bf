# SPDX-License-Identifier: Apache-2.0
"""Gather: now, started, and with a gradient."""

from __future__ import annotations

import torch

from hvd._core import _lib
from hvd._core.arguments import work_among
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch.ops.rows import run_rows, start_rows


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

    >>> from hvd._core import api
    >>> len(gather(torch.ones(2), root_rank=0)) == (2 * api.size() if api.rank() == 0 else 0)
    True
    """
    return run_rows(
        tensor,
        None,
        work_among(process_set, _lib.GATHER, name, root=root_rank, priority=priority),
        False,
    )


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

    >>> from hvd._core import api, handles
    >>> rows = handles.synchronize(gather_async(torch.ones(2), root_rank=0))
    >>> len(rows) == (2 * api.size() if api.rank() == 0 else 0)
    True
    """
    return start_rows(
        tensor,
        None,
        work_among(process_set, _lib.GATHER, name, root=root_rank, priority=priority),
        False,
    )
