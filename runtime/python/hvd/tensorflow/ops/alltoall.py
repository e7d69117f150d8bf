# SPDX-License-Identifier: Apache-2.0
"""Alltoall, and its gradient."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvd._core import _lib
from hvd._core.arguments import work_among
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.ops.backward import rows_back
from hvd.tensorflow.ops.submission import named, submit_with_rows


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
    work = work_among(process_set, _lib.ALLTOALL, named(name, "HvdAlltoall", ignore_name_scope))
    (result,), rows = submit_with_rows(work, [tensor], splits)
    if splits is None:
        return result
    return result, tf.cast(tf.gather(rows, 0), tf.int32)


@tf.RegisterGradient("HvdAlltoall")
def _alltoall(op: Any, *gradients: Any) -> list[tf.Tensor | None]:
    return [*rows_back(op, _lib.ALLTOALL, gradients), None]
