# SPDX-License-Identifier: Apache-2.0
"""Quotients of values by the number of ranks or passes: no exchange, exact to one rounding."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_HALVES = (tf.float16, tf.bfloat16)


def wide_type(dtype: tf.DType) -> tf.DType:
    """The type in which sums and quotients of values of `dtype` are made.

    The number of ranks fits into it, as it does not into int8 from 128 ranks on, and small halves
    do not vanish when they are divided.

    >>> wide_type(tf.bfloat16).name, wide_type(tf.uint8).name, wide_type(tf.float64).name
    ('float32', 'int64', 'float64')
    """
    if dtype in _HALVES:
        return tf.float32
    if dtype.is_integer:
        return tf.uint64 if dtype == tf.uint64 else tf.int64
    return dtype


def times(values: tf.Tensor, factor: float) -> tf.Tensor:
    """Floating values times a number, rounded once to their type.

    >>> float(times(tf.constant(3.0, tf.bfloat16), 1 / 3))
    1.0
    """
    wide = wide_type(values.dtype)
    return tf.cast(tf.cast(values, wide) * tf.cast(factor, wide), values.dtype)


def quotient(values: tf.Tensor, divisor: int) -> tf.Tensor:
    """Values by a whole number, in their type: rounded once; of whole numbers toward zero.

    >>> quotient(tf.constant([-100, 127], tf.int8), 50).numpy().tolist()
    [-2, 2]
    """
    wide = wide_type(values.dtype)
    return tf.cast(_divided(tf.cast(values, wide), divisor), values.dtype)


def average_of_rows(values: tf.Tensor, indices: tf.Tensor, ranks: int) -> tuple[Any, Any]:
    """The average over ranks of the rows that all of them gave.

    Of halves and whole numbers the rows of one index become one row: their quotients need not fit
    into the type, as that of their sum does. Other rows are divided one by one.

    Parameters
    ----------
    values
        Rows of any type that has a sum.
    indices
        [rows] integers: what each is a row of.
    ranks
        Ranks that gave them, also those that gave none.

    Returns
    -------
    The rows, of the type of `values`, and their indices.

    >>> rows, indices = average_of_rows(tf.constant([[3], [4]], tf.int8), tf.constant([7, 7]), 300)
    >>> rows.numpy().tolist(), indices.numpy().tolist()
    ([[0]], [7])
    """
    wide = wide_type(values.dtype)
    if wide == values.dtype and not wide.is_integer:
        return _divided(values, ranks), indices
    indices, places = tf.unique(indices)
    sums = tf.math.unsorted_segment_sum(tf.cast(values, wide), places, tf.size(indices))
    return tf.cast(_divided(sums, ranks), values.dtype), indices


def _divided(values: tf.Tensor, divisor: int) -> tf.Tensor:
    divisor = tf.cast(divisor, values.dtype)
    if not values.dtype.is_integer:
        return values / divisor
    # A truncatediv of uint64 has no kernel; of these the floor is the same.
    return values // divisor if values.dtype.is_unsigned else tf.truncatediv(values, divisor)
