# SPDX-License-Identifier: Apache-2.0
"""Keras that computes with TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import hvd.tensorflow
from hvd._core import _lib
from hvd._core.arguments import work_among
from hvd._core.settings import Settings, is_shared
from hvd._core.work import Min
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow import reducer
from hvd.tensorflow.averages import times
from hvd.tensorflow.compression import Compression
from hvd.tensorflow.ops import submission
from hvd.tensorflow.own_gpu import use_own_gpu
from hvd.tensorflow.replicas import VariablesGuard

VARIABLES = (tf.Variable,)

__all__ = [
    "VARIABLES",
    "Compression",
    "all_true",
    "broadcast",
    "broadcast_global_variables",
    "guard",
    "reduce_gradients",
    "scaled",
    "use_own_gpu",
]


def reduce_gradients(
    gradients: Sequence[Any], settings: Settings, variables: Sequence[Any], names: Sequence[str]
) -> list[Any]:
    """The gradients of all ranks; None stays None, ``tf.IndexedSlices`` stay what they are."""
    return reducer.reduce_gradients(gradients, settings, variables, names=names)


def guard(settings: Settings, named: Callable[[], list[tuple[str, Any]]]) -> VariablesGuard:
    """What compares these variables over ranks."""
    return VariablesGuard(settings.check_replicas, settings.process_set, named)


def scaled(gradient: Any, factor: float) -> Any:
    """The gradient times a number."""
    if isinstance(gradient, tf.IndexedSlices):
        values = times(gradient.values, factor)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return times(gradient, factor)


@tf.autograph.experimental.do_not_convert
def all_true(flag: Any, name: str, process_set: ProcessSet = global_process_set) -> Any:
    """True where the flag is true on every rank."""
    if not is_shared(process_set):
        return flag
    work = work_among(process_set, _lib.ALLREDUCE, name, Min)
    return tf.cast(submission.submit(work, [tf.cast(flag, tf.int32)])[0], tf.bool)


def broadcast(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set
) -> Any:
    """Gives variables of Keras the values of one rank; in a graph of TensorFlow 1 the operation will."""
    if not variables or not is_shared(process_set):
        return None
    return hvd.tensorflow.broadcast_variables(variables, root_rank, process_set)


def broadcast_global_variables(root_rank: int) -> Any:
    """The operation that does so with all variables of a graph of TensorFlow 1."""
    return hvd.tensorflow.broadcast_global_variables(root_rank)
