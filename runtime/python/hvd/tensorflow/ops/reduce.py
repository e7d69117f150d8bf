# SPDX-License-Identifier: Apache-2.0
"""Reduce to one rank, and its gradient."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvd._core import _lib, api
from hvd._core.arguments import work_among
from hvd._core.work import Average
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.ops.backward import sent_back, work_of, zeros_after
from hvd.tensorflow.ops.submission import submit


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
    return submit(work, [tensor])[0]


@tf.RegisterGradient("HvdReduce")
def _reduce(op: Any, *gradients: tf.Tensor | None) -> list[tf.Tensor | None]:
    work = work_of(op, _lib.REDUCE)
    if api.rank() == work.root:
        return sent_back(work, gradients)
    return sent_back(work, zeros_after(gradients, op.inputs))
