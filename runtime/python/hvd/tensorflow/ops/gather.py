# SPDX-License-Identifier: Apache-2.0
"""Gather to one rank, and its gradient."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvd._core import _lib
from hvd._core.arguments import work_among
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.ops.backward import rows_back
from hvd.tensorflow.ops.submission import submit


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
    return submit(work_among(process_set, _lib.GATHER, name, root=root_rank), [tensor])[0]


@tf.RegisterGradient("HvdGather")
def _gather(op: Any, *gradients: Any) -> list[tf.Tensor | None]:
    return rows_back(op, _lib.GATHER, gradients)
