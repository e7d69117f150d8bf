# SPDX-License-Identifier: Apache-2.0
"""Allgather of a tensor and of a group, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvd._core import _lib, api
from hvd._core.arguments import check_group, work_among
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.ops.backward import sent_back, work_of
from hvd.tensorflow.ops.submission import named, submit


def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """The rows of all ranks, by rank; the number of rows may differ by rank.

    Parameters
    ----------
    tensor
        Rows of one shape and type on all ranks; their number may differ.
    name, ignore_name_scope, process_set
        As of ``allreduce``.

    >>> allgather(tf.ones([1, 2])).numpy().tolist()
    [[1.0, 1.0]]
    """
    return grouped_allgather([tensor], name, ignore_name_scope, process_set)[0]


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """The same for a group that completes as one.

    Parameters
    ----------
    tensors
        Each with rows of one shape and type on all ranks; their number may differ.
    name, ignore_name_scope, process_set
        As of ``allreduce``.

    >>> [one.numpy().tolist() for one in grouped_allgather([tf.ones(1), tf.zeros(2)])]
    [[1.0], [0.0, 0.0]]
    """
    check_group("grouped_allgather", tensors)
    name = named(name, "HvdAllgather", ignore_name_scope)
    return submit(work_among(process_set, _lib.ALLGATHER, name), tensors)


@tf.RegisterGradient("HvdAllgather")
def _allgather(op: Any, *gradients: Any) -> list[tf.Tensor | None]:
    work = work_of(op, _lib.ALLGATHER)
    rows = op.outputs[-1]  # [tensors, ranks]
    place = api.process_set_rank(work.process_set)
    results: list[tf.Tensor | None] = []
    for index, total in enumerate(sent_back(work, gradients[:-1])):
        begin = tf.reduce_sum(rows[index, :place])
        mine = slice(begin, begin + rows[index, place])
        results.append(None if total is None else total[mine])
    return results
