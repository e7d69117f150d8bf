# SPDX-License-Identifier: Apache-2.0
"""The gradient of each op, made of differentiable operations; importing this registers them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvd._core import _lib, api
from hvd._core.derivatives import derivative, is_of_extremes, splits_back
from hvd._core.work import Work
from hvd.tensorflow.averages import times
from hvd.tensorflow.operations import submit


def _scale(op: Any, attribute: str) -> float:
    bits = op.get_attr(attribute)
    return 1.0 if bits == 0 else struct.unpack("<d", struct.pack("<q", bits))[0]


def _work(op: Any, kind: int) -> Work:
    """What the op did."""
    return Work(
        kind,
        op.get_attr("tensor_name").decode() or None,
        op.get_attr("reduce_op"),
        (_scale(op, "prescale_bits"), _scale(op, "postscale_bits")),
        op.get_attr("process_set"),
        op.get_attr("root"),
        op.get_attr("wire"),
        op.get_attr("priority"),
    )


def _name(work: Work) -> str | None:
    """Of the backward pass: from the op's, for its own place may hold names that Keras counts."""
    return work.name and f"{work.name}.gradient"


def _sent_back(work: Work, gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
    """The operation of the derivative, with its factor; None for what has no gradient."""
    back, factor = derivative(work)
    there = [one for one in gradients if one is not None]
    totals = iter(submit(back._replace(name=_name(work)), there))
    scaled = (one if factor == 1 else times(one, factor) for one in totals)
    return [None if one is None else next(scaled) for one in gradients]


def _zeros_after(
    awaited: Sequence[tf.Tensor | None], like: Sequence[tf.Tensor]
) -> list[tf.Tensor | None]:
    """Zeros that need `awaited`: a session would prune what this rank needs not and others await."""
    with tf.control_dependencies([one for one in awaited if one is not None]):
        return [
            None if one is None else tf.identity(tf.zeros_like(shape))
            for one, shape in zip(awaited, like)
        ]


# What tensors travel as.
_SENT_AS = {_lib.WIRE_FLOAT16: tf.float16, _lib.WIRE_BFLOAT16: tf.bfloat16}


def _hit(work: Work, value: tf.Tensor, extreme: tf.Tensor) -> tf.Tensor:
    """1 where this rank gave the extreme, else 0."""
    sent = _SENT_AS.get(work.wire)
    given = value if sent is None else tf.cast(tf.cast(value, sent), value.dtype)
    return tf.cast(tf.equal(given, extreme), value.dtype)


@tf.RegisterGradient("HvdAllreduce")
def _allreduce(op: Any, *gradients: tf.Tensor | None) -> list[tf.Tensor | None]:
    work = _work(op, _lib.ALLREDUCE)
    if not is_of_extremes(work):
        return _sent_back(work, gradients)
    hits = [
        None if gradient is None else _hit(work, value, extreme)
        for gradient, value, extreme in zip(gradients, list(op.inputs), list(op.outputs))
    ]
    sums = _sent_back(work, [*gradients, *hits])
    return [
        # Of NaN, which equals nothing, nobody gave the extreme.
        None if hit is None else tf.math.divide_no_nan(total * hit, number)
        for total, hit, number in zip(sums, hits, sums[len(hits) :])
    ]


@tf.RegisterGradient("HvdBroadcast")
def _broadcast(op: Any, *gradients: tf.Tensor | None) -> list[tf.Tensor | None]:
    work = _work(op, _lib.BROADCAST)
    totals = _sent_back(work, gradients)
    return totals if api.rank() == work.root else _zeros_after(totals, op.inputs)


@tf.RegisterGradient("HvdReducescatter")
def _reducescatter(op: Any, *gradients: tf.Tensor | None) -> list[tf.Tensor | None]:
    return _sent_back(_work(op, _lib.REDUCESCATTER), gradients)


@tf.RegisterGradient("HvdReduce")
def _reduce(op: Any, *gradients: tf.Tensor | None) -> list[tf.Tensor | None]:
    work = _work(op, _lib.REDUCE)
    if api.rank() == work.root:
        return _sent_back(work, gradients)
    return _sent_back(work, _zeros_after(gradients, op.inputs))


@tf.RegisterGradient("HvdAllgather")
def _allgather(op: Any, *gradients: Any) -> list[tf.Tensor | None]:
    work = _work(op, _lib.ALLGATHER)
    rows = op.outputs[-1]  # [tensors, ranks]
    place = api.process_set_rank(work.process_set)
    results: list[tf.Tensor | None] = []
    for index, total in enumerate(_sent_back(work, gradients[:-1])):
        begin = tf.reduce_sum(rows[index, :place])
        mine = slice(begin, begin + rows[index, place])
        results.append(None if total is None else total[mine])
    return results


def _rows_back(op: Any, kind: int, gradients: Sequence[Any]) -> list[tf.Tensor | None]:
    """Rows go back the way that they came; those that went nowhere changed nothing."""
    work = _work(op, kind)
    back, _ = derivative(work)
    back = back._replace(name=_name(work))
    rows = op.outputs[-1]
    results: list[tf.Tensor | None] = []
    for index, gradient in enumerate(gradients[:-1]):
        if gradient is None:
            results.append(None)
            continue
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
def _gather(op: Any, *gradients: Any) -> list[tf.Tensor | None]:
    return _rows_back(op, _lib.GATHER, gradients)


@tf.RegisterGradient("HvdScatter")
def _scatter(op: Any, *gradients: Any) -> list[tf.Tensor | None]:
    return [*_rows_back(op, _lib.SCATTER, gradients), None]
