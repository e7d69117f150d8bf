# SPDX-License-Identifier: Apache-2.0
"""Rows from rank to rank, and what one rank gives or gets: alltoall, gather, scatter, reduce."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvd._core import _lib, api
from hvd._core.arguments import work_among
from hvd._core.work import Average
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow import operations


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The rows that the other ranks sent here; with `splits` also how many came from each.

    Parameters
    ----------
    tensor
        Rows of one shape and type on all ranks: those for rank 0 come first.
    splits
        [ranks] integers: how many of the rows go to each rank, in order; may differ by rank.
        Without: equal parts.
    name, ignore_name_scope, process_set
        As of ``allreduce``.

    >>> alltoall(tf.ones(1)).numpy()
    array([1.], dtype=float32)
    """
    work = work_among(
        process_set, _lib.ALLTOALL, operations.named(name, "HvdAlltoall", ignore_name_scope)
    )
    (result,), rows = operations.submit_with_rows(work, [tensor], splits)
    if splits is None:
        return result
    return result, tf.cast(tf.gather(rows, 0), tf.int32)


def gather(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """The rows of all ranks on `root_rank`, none elsewhere.

    Parameters
    ----------
    tensor
        Rows of one shape and type on all ranks; their number may differ.
    root_rank
        The rank of the job that gets the rows.
    name, process_set
        As of ``allreduce``.

    >>> gather(tf.ones(1), root_rank=0).numpy()
    array([1.], dtype=float32)
    """
    return operations.submit(work_among(process_set, _lib.GATHER, name, root=root_rank), [tensor])[
        0
    ]


def scatter(
    tensor: Any,
    root_rank: int,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """This rank's part of the rows of `root_rank`.

    Parameters
    ----------
    tensor
        Elsewhere than on `root_rank` only its type and the shape of its rows count.
    root_rank
        The rank of the job whose rows they are.
    splits
        [ranks] rows for each rank; shared out evenly unless given. Counts on `root_rank` only.
    name, process_set
        As of ``allreduce``.

    >>> scatter(tf.ones(1), root_rank=0).numpy()
    array([1.], dtype=float32)
    """
    counts = splits if api.rank() == root_rank else None
    work = work_among(process_set, _lib.SCATTER, name, root=root_rank)
    return operations.submit(work, [tensor], counts)[0]


def reduce(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """The reduction over ranks on `root_rank`; a tensor without rows elsewhere.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks.
    root_rank
        The rank of the job that gets the result.
    name, op, process_set, prescale_factor, postscale_factor
        As of ``allreduce``.

    >>> reduce(tf.ones(1), root_rank=0).numpy()
    array([1.], dtype=float32)
    """
    scales = (prescale_factor, postscale_factor)
    work = work_among(process_set, _lib.REDUCE, name, op, scales, root_rank)
    return operations.submit(work, [tensor])[0]
