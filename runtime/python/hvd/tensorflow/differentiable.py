# SPDX-License-Identifier: Apache-2.0
"""The gradient of each op, made of differentiable operations; importing this registers them."""

from __future__ import annotations

import struct
from typing import Any

import tensorflow as tf

from hvd import _lib, api
from hvd.errors import UnsupportedError
from hvd.tensorflow.operations import submit
from hvd.work import Average, Max, Min, Sum, Work


def _scale(op: Any, attribute: str) -> float:
    bits = op.get_attr(attribute)
    return 1.0 if bits == 0 else struct.unpack("<d", struct.pack("<q", bits))[0]


def _forward(op: Any, kind: int) -> Work:
    """What the op did. Names of backward operations come from their own place in the graph."""
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


def _need_sum(work: Work, what: str) -> None:
    if work.op not in (Average, Sum):
        raise UnsupportedError(
            f"{what}: only Sum and Average have a gradient; use tf.stop_gradient() on the input"
        )


def _inputs(op: Any, outputs: int) -> list[tf.Tensor]:
    return list(op.inputs)[:outputs]


@tf.RegisterGradient("HvdAllreduce")
def _allreduce(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor]:
    work = _forward(op, _lib.ALLREDUCE)
    if work.op in (Average, Sum):
        # The derivative of a sum over ranks is the same sum of what comes back.
        return submit(work, gradients)
    if work.op not in (Min, Max) or work.scales != (1.0, 1.0):
        raise UnsupportedError(
            "allreduce: Sum and Average have a gradient, and Min and Max without scales; use "
            "tf.stop_gradient() on the input"
        )
    # Whoever has the extreme gets the gradient; several share it.
    count = len(gradients)
    hits = [
        tf.cast(one == extreme, one.dtype)
        for one, extreme in zip(_inputs(op, count), list(op.outputs))
    ]
    sums = submit(work._replace(op=Sum), [*gradients, *hits])
    return [total * hit / number for total, hit, number in zip(sums, hits, sums[count:])]


@tf.RegisterGradient("HvdBroadcast")
def _broadcast(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor]:
    work = _forward(op, _lib.BROADCAST)
    totals = submit(Work(_lib.ALLREDUCE, None, Average, process_set=work.process_set), gradients)
    if api.rank() == work.root:
        return totals
    return [tf.zeros_like(total) for total in totals]


@tf.RegisterGradient("HvdAllgather")
def _allgather(op: Any, *gradients: Any) -> list[tf.Tensor]:
    work = _forward(op, _lib.ALLGATHER)
    *gradients, _ = gradients
    rows = list(op.outputs)[-1]
    totals = submit(Work(_lib.ALLREDUCE, None, Average, process_set=work.process_set), gradients)
    place = api.process_set_rank(work.process_set)
    results = []
    for index, total in enumerate(totals):
        begin = tf.reduce_sum(rows[index, :place])
        results.append(total[begin : begin + rows[index, place]])
    return results


@tf.RegisterGradient("HvdReducescatter")
def _reducescatter(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor]:
    work = _forward(op, _lib.REDUCESCATTER)
    _need_sum(work, "reducescatter")
    back = submit(Work(_lib.ALLGATHER, process_set=work.process_set), gradients)
    # As Horovod has it: the gradient of a sum is multiplied by the ranks.
    factor = work.scales[0] * work.scales[1]
    if work.op == Sum:
        factor *= api.process_set_size(work.process_set)
    return [_times(total, factor) for total in back]


def _times(tensor: tf.Tensor, factor: float) -> tf.Tensor:
    return tensor if factor == 1 else tensor * tf.cast(factor, tensor.dtype)


@tf.RegisterGradient("HvdReduce")
def _reduce(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor]:
    work = _forward(op, _lib.REDUCE)
    _need_sum(work, "reduce")
    if api.rank() != work.root:
        gradients = tuple(tf.zeros_like(one) for one in _inputs(op, len(gradients)))
    back = Work(_lib.BROADCAST, process_set=work.process_set, root=work.root)
    factor = work.scales[0] * work.scales[1]
    if work.op == Average:
        factor /= api.process_set_size(work.process_set)
    return [_times(total, factor) for total in submit(back, gradients)]


@tf.RegisterGradient("HvdAlltoall")
def _alltoall(op: Any, *gradients: Any) -> list[tf.Tensor | None]:
    work = Work(_lib.ALLTOALL, process_set=_forward(op, _lib.ALLTOALL).process_set)
    return [*_sent_back(op, work, gradients, with_splits=True), None]


@tf.RegisterGradient("HvdGather")
def _gather(op: Any, *gradients: Any) -> list[tf.Tensor]:
    forward = _forward(op, _lib.GATHER)
    work = Work(_lib.SCATTER, process_set=forward.process_set, root=forward.root)
    return _sent_back(op, work, gradients, with_splits=api.rank() == forward.root)


@tf.RegisterGradient("HvdScatter")
def _scatter(op: Any, *gradients: Any) -> list[tf.Tensor | None]:
    forward = _forward(op, _lib.SCATTER)
    work = Work(_lib.GATHER, process_set=forward.process_set, root=forward.root)
    return [*_sent_back(op, work, gradients, with_splits=False), None]


def _sent_back(op: Any, work: Work, gradients: Any, with_splits: bool) -> list[tf.Tensor]:
    """The gradients go back along the way that the rows came."""
    *gradients, _ = gradients
    rows = list(op.outputs)[-1]
    results = []
    for index, gradient in enumerate(gradients):
        (back,) = submit(work, [gradient], rows[index] if with_splits else None)
        source = op.inputs[index]
        # Rows that went nowhere changed nothing; nor did those of a rank that is not root.
        missing = tf.shape(source)[0] - tf.shape(back)[0]
        rest = tf.zeros(tf.concat([[missing], tf.shape(source)[1:]], 0), source.dtype)
        results.append(tf.ensure_shape(tf.concat([back, rest], 0), source.shape))
    return results
