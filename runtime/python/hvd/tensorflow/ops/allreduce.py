# SPDX-License-Identifier: Apache-2.0
"""Allreduce of a tensor, of a group and of sparse rows, with Horovod's arguments, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvd._core import _lib
from hvd._core.arguments import check_group, chosen_op, work_among
from hvd._core.derivatives import is_of_extremes
from hvd._core.work import Work
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.compression import Compression
from hvd.tensorflow.ops.backward import sent_back, work_of
from hvd.tensorflow.ops.sparse import sparse_allreduce
from hvd.tensorflow.ops.submission import named, reduced, tensors_of


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """The reduction of `tensor` over all ranks (their average unless `op` says otherwise).

    Parameters
    ----------
    tensor
        Same shape and type on all ranks; ``tf.IndexedSlices`` give such, with the rows of all.
    average
        The old way to say op: True is Average, False is Sum.
    device_dense, device_sparse
        Horovod's; the data plane is that of the host, so that nothing is to be placed.
    compression
        One of ``Compression``: how float32 and float64 travel.
    op
        ``Average`` unless given; or ``Sum``, ``Adasum``, ``Min``, ``Max``, ``Product``, and of
        whole numbers ``BitAnd``, ``BitOr``, ``BitXor``.
    prescale_factor, postscale_factor
        Multiply before and after the reduction.
    name
        Equal on all ranks. Made from the order of calls in eager mode, from the functions and
        scopes around the op in a graph; give one inside of a Keras layer, as Keras counts layers per
        process. In eager mode some 35 KB are kept for each name.
    process_set
        The ranks that take part, each of which calls it.
    ignore_name_scope
        In a graph a name that is made for it leaves out the scopes around.

    Raises
    ------
    hvd.errors.HvdError
        In eager mode. In a graph: the ``tf.errors.OpError`` that is also raised here; see
        ``hvd.tensorflow.errors.translated()``.

    >>> allreduce(tf.ones(2)).numpy()
    array([1., 1.], dtype=float32)
    """
    chosen = chosen_op(average, op)
    scales = (prescale_factor, postscale_factor)
    if isinstance(tensor, tf.IndexedSlices):
        return sparse_allreduce(tensor, chosen, scales, compression, name, process_set)
    name = named(name, "HvdAllreduce", ignore_name_scope)
    work = work_among(process_set, _lib.ALLREDUCE, name, chosen, scales)
    return reduced(work, tensors_of([tensor]), compression)[0]


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[Any]:
    """The same for a group that completes as one; types and shapes may differ within it.

    Parameters
    ----------
    tensors
        Each of one shape and type on all ranks; within the group they may differ.
    average, device_dense, device_sparse, compression, op, prescale_factor, postscale_factor
        As of ``allreduce``.
    process_set, ignore_name_scope, name
        As of ``allreduce``.

    >>> [one.numpy().tolist() for one in grouped_allreduce([tf.ones(2), tf.zeros(1)])]
    [[1.0, 1.0], [0.0]]
    """
    check_group("grouped_allreduce", tensors)
    chosen = chosen_op(average, op)
    scales = (prescale_factor, postscale_factor)
    if any(isinstance(tensor, tf.IndexedSlices) for tensor in tensors):
        return [
            allreduce(
                tensor,
                compression=compression,
                op=chosen,
                prescale_factor=prescale_factor,
                postscale_factor=postscale_factor,
                name=f"{name}.{index}" if name else None,
                process_set=process_set,
                ignore_name_scope=ignore_name_scope,
            )
            for index, tensor in enumerate(tensors)
        ]
    name = named(name, "HvdAllreduce", ignore_name_scope)
    work = work_among(process_set, _lib.ALLREDUCE, name, chosen, scales)
    return reduced(work, tensors_of(tensors), compression)


# What tensors travel as.
_SENT_AS = {_lib.WIRE_FLOAT16: tf.float16, _lib.WIRE_BFLOAT16: tf.bfloat16}


def _hit(work: Work, value: tf.Tensor, extreme: tf.Tensor) -> tf.Tensor:
    """1 where this rank gave the extreme, else 0."""
    sent = _SENT_AS.get(work.wire)
    given = value if sent is None else tf.cast(tf.cast(value, sent), value.dtype)
    return tf.cast(tf.equal(given, extreme), value.dtype)


@tf.RegisterGradient("HvdAllreduce")
def _allreduce(op: Any, *gradients: tf.Tensor | None) -> list[tf.Tensor | None]:
    work = work_of(op, _lib.ALLREDUCE)
    if not is_of_extremes(work):
        return sent_back(work, gradients)
    hits = [
        None if gradient is None else _hit(work, value, extreme)
        for gradient, value, extreme in zip(gradients, list(op.inputs), list(op.outputs))
    ]
    sums = sent_back(work, [*gradients, *hits])
    return [
        # Of NaN, which equals nothing, nobody gave the extreme.
        None if hit is None else tf.math.divide_no_nan(total * hit, number)
        for total, hit, number in zip(sums, hits, sums[len(hits) :])
    ]
