# SPDX-License-Identifier: Apache-2.0
"""Broadcast of a tensor, and its gradient."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvd._core import _lib, api
from hvd._core.arguments import work_among
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.ops.backward import sent_back, work_of, zeros_after
from hvd.tensorflow.ops.submission import named, submit


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """The tensor of `root_rank`, a rank of the job, on every rank.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks.
    root_rank
        The rank of the job whose value it is.
    name, ignore_name_scope, process_set
        As of ``allreduce``.

    >>> broadcast(tf.ones(2), root_rank=0).numpy()
    array([1., 1.], dtype=float32)
    """
    name = named(name, "HvdBroadcast", ignore_name_scope)
    return submit(work_among(process_set, _lib.BROADCAST, name, root=root_rank), [tensor])[0]


@tf.RegisterGradient("HvdBroadcast")
def _broadcast(op: Any, *gradients: tf.Tensor | None) -> list[tf.Tensor | None]:
    work = work_of(op, _lib.BROADCAST)
    totals = sent_back(work, gradients)
    return totals if api.rank() == work.root else zeros_after(totals, op.inputs)
