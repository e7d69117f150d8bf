# SPDX-License-Identifier: Apache-2.0
"""Keras that computes with TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import hvd.tensorflow
from hvd import _lib
from hvd.process_sets import ProcessSet, global_process_set
from hvd.settings import Settings, is_shared
from hvd.tensorflow import operations, reducer
from hvd.tensorflow.compression import Compression
from hvd.work import Min, work_among

VARIABLES = (tf.Variable,)

__all__ = [
    "VARIABLES",
    "Compression",
    "all_true",
    "broadcast",
    "broadcast_global_variables",
    "reduce_gradients",
    "scaled",
]


def reduce_gradients(
    gradients: Sequence[Any], settings: Settings, variables: Sequence[Any], names: Sequence[str]
) -> list[Any]:
    """The gradients of all ranks; None stays None, ``tf.IndexedSlices`` stay what they are."""
    return reducer.reduce_gradients(gradients, settings, variables, names=names)


def scaled(gradient: Any, factor: float) -> Any:
    """The gradient times a number."""
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(factor, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)


@tf.autograph.experimental.do_not_convert
def all_true(flag: Any, name: str, process_set: ProcessSet = global_process_set) -> Any:
    """True where the flag is true on every rank."""
    if not is_shared(process_set):
        return flag
    work = work_among(process_set, _lib.ALLREDUCE, name, Min)
    return tf.cast(operations.submit(work, [tf.cast(flag, tf.int32)])[0], tf.bool)


def broadcast(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Gives variables of Keras the values of one rank."""
    if variables and is_shared(process_set):
        hvd.tensorflow.broadcast_variables(variables, root_rank, process_set)


def broadcast_global_variables(root_rank: int) -> Any:
    """The operation that does so with all variables of a graph of TensorFlow 1."""
    return hvd.tensorflow.broadcast_global_variables(root_rank)
