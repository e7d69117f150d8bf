# SPDX-License-Identifier: Apache-2.0
"""What the gradients of ops share: each sends back what came, by differentiable operations."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvd._core.derivatives import derivative, splits_back
from hvd._core.work import Work
from hvd.tensorflow.averages import times
from hvd.tensorflow.ops.submission import submit


def _scale(op: Any, attribute: str) -> float:
    bits = op.get_attr(attribute)
    return 1.0 if bits == 0 else struct.unpack("<d", struct.pack("<q", bits))[0]


def work_of(op: Any, kind: int) -> Work:
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


def sent_back(work: Work, gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
    """The operation of the derivative, with its factor; None for what has no gradient."""
    back, factor = derivative(work)
    there = [one for one in gradients if one is not None]
    totals = iter(submit(back._replace(name=_name(work)), there))
    scaled = (one if factor == 1 else times(one, factor) for one in totals)
    return [None if one is None else next(scaled) for one in gradients]


def zeros_after(
    awaited: Sequence[tf.Tensor | None], like: Sequence[tf.Tensor]
) -> list[tf.Tensor | None]:
    """Zeros that need `awaited`: a session would prune what this rank needs not and others await."""
    with tf.control_dependencies([one for one in awaited if one is not None]):
        return [
            None if one is None else tf.identity(tf.zeros_like(shape))
            for one, shape in zip(awaited, like)
        ]


def rows_back(op: Any, kind: int, gradients: Sequence[Any]) -> list[tf.Tensor | None]:
    """Rows go back the way that they came; those that went nowhere changed nothing."""
    work = work_of(op, kind)
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
