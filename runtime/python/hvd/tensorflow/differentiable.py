# SPDX-License-Identifier: Apache-2.0
"""The gradient of each op, made of differentiable operations; importing this registers them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvd import _lib, api
from hvd.derivatives import derivative, is_of_extremes, splits_back
from hvd.tensorflow.operations import submit
from hvd.work import Work


def _scale(op: Any, attribute: str) -> float:
    bits = op.get_attr(attribute)
    return 1.0 if bits == 0 else struct.unpack("<d", struct.pack("<q", bits))[0]


def _work(op: Any, kind: int) -> Work:
    """What the op did. Operations of the backward pass get their names from their own places."""
    return Work(
        kind,
        None,
        op.get_attr("reduce_op"),
        (_scale(op, "prescale_bits"), _scale(op, "postscale_bits")),
        op.get_attr("process_set"),
        op.get_attr("root"),
        op.get_attr("wire"),
        op.get_attr("priority"),
    )


def _sent_back(work: Work, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The operation of the derivative, with its factor."""
    back, factor = derivative(work)
    totals = submit(back, gradients)
    return [one if factor == 1 else one * tf.cast(factor, one.dtype) for one in totals]


def _zeros_after(awaited: Sequence[tf.Tensor], like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Zeros that need `awaited`: a session would prune what this rank needs not and others await."""
    with tf.control_dependencies(awaited):
        return [tf.identity(tf.zeros_like(one)) for one in like]


@tf.RegisterGradient("HvdAllreduce")
def _allreduce(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor]:
    work = _work(op, _lib.ALLREDUCE)
    if not is_of_extremes(work):
        return _sent_back(work, gradients)
    count = len(gradients)
    hits = [
        tf.cast(tf.equal(one, extreme), one.dtype)
        for one, extreme in zip(list(op.inputs)[:count], list(op.outputs))
    ]
    sums = _sent_back(work, [*gradients, *hits])
    return [total * hit / number for total, hit, number in zip(sums, hits, sums[count:])]


@tf.RegisterGradient("HvdBroadcast")
def _broadcast(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor]:
    work = _work(op, _lib.BROADCAST)
    totals = _sent_back(work, gradients)
    if api.rank() == work.root:
        return totals
    return _zeros_after(totals, totals)


@tf.RegisterGradient("HvdReducescatter")
def _reducescatter(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor]:
    return _sent_back(_work(op, _lib.REDUCESCATTER), gradients)


@tf.RegisterGradient("HvdReduce")
def _reduce(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor]:
    work = _work(op, _lib.REDUCE)
    if api.rank() == work.root:
        return _sent_back(work, gradients)
    return _sent_back(work, _zeros_after(gradients, op.inputs))


@tf.RegisterGradient("HvdAllgather")
def _allgather(op: Any, *gradients: Any) -> list[tf.Tensor]:
    work = _work(op, _lib.ALLGATHER)
    rows = op.outputs[-1]  # [tensors, ranks]
    place = api.process_set_rank(work.process_set)
    results = []
    for index, total in enumerate(_sent_back(work, gradients[:-1])):
        begin = tf.reduce_sum(rows[index, :place])
        results.append(total[begin : begin + rows[index, place]])
    return results


def _rows_back(op: Any, kind: int, gradients: Sequence[Any]) -> list[tf.Tensor]:
    """Rows go back the way that they came; those that went nowhere changed nothing."""
    work = _work(op, kind)
    back, _ = derivative(work)
    rows = op.outputs[-1]
    results = []
    for index, gradient in enumerate(gradients[:-1]):
        (returned,) = submit(back, [gradient], splits_back(work, rows[index]))
        shape = tf.shape(op.inputs[index])
        missing = shape[0] - tf.shape(returned)[0]
        rest = tf.zeros(tf.concat([[missing], shape[1:]], 0), returned.dtype)
        result = tf.concat([returned, rest], 0)
        results.append(tf.ensure_shape(result, op.inputs[index].shape))
    return results


@tf.RegisterGradient("HvdAlltoall")
def _alltoall(op: Any, *gradients: Any) -> list[tf.Tensor | None]:
    return [*_rows_back(op, _lib.ALLTOALL, gradients), None]


@tf.RegisterGradient("HvdGather")
def _gather(op: Any, *gradients: Any) -> list[tf.Tensor]:
    return _rows_back(op, _lib.GATHER, gradients)


@tf.RegisterGradient("HvdScatter")
def _scatter(op: Any, *gradients: Any) -> list[tf.Tensor | None]:
    return [*_rows_back(op, _lib.SCATTER, gradients), None]
