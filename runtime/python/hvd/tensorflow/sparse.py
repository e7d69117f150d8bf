# SPDX-License-Identifier: Apache-2.0
"""Allreduce of ``tf.IndexedSlices``: the rows of all ranks, with their indices."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvd import _lib, api
from hvd.errors import UnsupportedError
from hvd.process_sets import ProcessSet, process_set_id
from hvd.tensorflow import operations
from hvd.work import Average, Sum, Work


def sparse_allreduce(
    slices: tf.IndexedSlices,
    op: int,
    scales: tuple[float, float],
    compression: Any,
    name: str | None,
    process_set: ProcessSet | int,
) -> tf.IndexedSlices:
    """The sum or average over ranks of sparse rows; an index stands once for each rank that has it.

    The average of whole numbers is the sum of each rank's quotients, not the quotient of the sum.

    Raises
    ------
    hvd.errors.UnsupportedError
        Another reduction, or scales: make the gradient dense (`sparse_as_dense`).
    """
    if op not in (Average, Sum) or scales != (1.0, 1.0):
        raise UnsupportedError(
            f"allreduce{_quoted(slices, name)}: tf.IndexedSlices have Sum and Average, without scales; "
            "give sparse_as_dense=True, or use tf.convert_to_tensor() on them"
        )
    number = process_set_id(process_set)
    values, context = compression.compress(slices.values)
    if op == Average:
        values = divided(values, api.process_set_size(number))
    work = Work(_lib.ALLGATHER, name, process_set=number)
    values, indices = operations.submit(work, [values, slices.indices])
    return tf.IndexedSlices(
        compression.decompress(values, context), indices, dense_shape=slices.dense_shape
    )


def _quoted(slices: tf.IndexedSlices, name: str | None) -> str:
    if not name and not tf.executing_eagerly():
        name = slices.values.name
    return f" '{name}'" if name else ""


def divided(values: tf.Tensor, ranks: int) -> tf.Tensor:
    """The quotient in the type of `values`; of whole numbers toward zero."""
    if values.dtype.is_floating or values.dtype.is_complex:
        return values / tf.cast(ranks, values.dtype)
    return tf.truncatediv(values, tf.cast(ranks, values.dtype))
