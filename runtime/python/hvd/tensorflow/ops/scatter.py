# SPDX-License-Identifier: Apache-2.0
"""Scatter from one rank, and its gradient."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvd._core import _lib, api
from hvd._core.arguments import work_among
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.ops.backward import rows_back
from hvd.tensorflow.ops.submission import submit


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
    return submit(work, [tensor], counts)[0]


@tf.RegisterGradient("HvdScatter")
def _scatter(op: Any, *gradients: Any) -> list[tf.Tensor | None]:
    return [*rows_back(op, _lib.SCATTER, gradients), None]
