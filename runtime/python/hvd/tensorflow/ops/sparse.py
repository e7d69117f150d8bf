# SPDX-License-Identifier: Apache-2.0
"""Allreduce of ``tf.IndexedSlices``: the rows of all ranks, with their indices."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvd._core import _lib, api
from hvd._core.work import Average, Sum, Work
from hvd.errors import SparseReductionError
from hvd.process_sets import ProcessSet, process_set_id
from hvd.tensorflow.averages import average_of_rows
from hvd.tensorflow.ops import submission


def sparse_allreduce(
    slices: tf.IndexedSlices,
    op: int,
    scales: tuple[float, float],
    compression: Any,
    name: str | None,
    process_set: ProcessSet | int,
) -> tf.IndexedSlices:
    """The sum or average over ranks of sparse rows; an index stands once for each rank that has it.

    In an average of whole numbers or halves it stands once: the quotient is that of the sum.

    Raises
    ------
    hvd.errors.SparseReductionError
        Another reduction, or scales: make the gradient dense (`sparse_as_dense`).
    """
    if op not in (Average, Sum) or scales != (1.0, 1.0):
        raise SparseReductionError(
            f"allreduce{_quoted(slices, name)}: tf.IndexedSlices have Sum and Average, without scales; "
            "give sparse_as_dense=True, or use tf.convert_to_tensor() on them"
        )
    number = process_set_id(process_set)
    # Python lists are values, too.
    values, context = compression.compress(tf.convert_to_tensor(slices.values))
    work = Work(_lib.ALLGATHER, name, process_set=number)
    values, indices = submission.submit(work, [values, slices.indices])
    values = compression.decompress(values, context)
    if op == Average:
        values, indices = average_of_rows(values, indices, api.process_set_size(number))
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


def _quoted(slices: tf.IndexedSlices, name: str | None) -> str:
    if not name and not tf.executing_eagerly():
        # Neither a list has one nor a tensor of eager execution.
        name = getattr(slices.values, "name", None)
    return f" '{name}'" if name else ""
