# SPDX-License-Identifier: Apache-2.0
"""Reducescatter of a tensor and of a group, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvd._core import _lib
from hvd._core.arguments import check_group, work_among
from hvd._core.work import Average
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.compression import Compression
from hvd.tensorflow.ops.backward import sent_back, work_of
from hvd.tensorflow.ops.submission import named, reduced, tensors_of


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Any = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """This rank's share of the rows of the reduction; the first ranks have one row more.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks; a row is a slice along the first dimension.
    device_dense, compression, op, name, process_set, ignore_name_scope, prescale_factor
        As of ``allreduce``.
    postscale_factor
        As of ``allreduce``.

    >>> reducescatter(tf.ones([2, 1])).numpy().tolist()
    [[1.0], [1.0]]
    """
    return grouped_reducescatter(
        [tensor],
        device_dense,
        compression,
        op,
        process_set,
        prescale_factor,
        postscale_factor,
        ignore_name_scope,
        name,
    )[0]


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[tf.Tensor]:
    """The same for a group that completes as one.

    Parameters
    ----------
    tensors
        Each of one shape and type on all ranks; within the group they may differ.
    device_dense, compression, op, process_set, prescale_factor, postscale_factor
        As of ``allreduce``.
    ignore_name_scope, name
        As of ``allreduce``.

    >>> [one.numpy().tolist() for one in grouped_reducescatter([tf.ones(1), tf.zeros(1)])]
    [[1.0], [0.0]]
    """
    check_group("grouped_reducescatter", tensors)
    name = named(name, "HvdReducescatter", ignore_name_scope)
    scales = (prescale_factor, postscale_factor)
    work = work_among(process_set, _lib.REDUCESCATTER, name, op, scales)
    return reduced(work, tensors_of(tensors), compression)


@tf.RegisterGradient("HvdReducescatter")
def _reducescatter(op: Any, *gradients: tf.Tensor | None) -> list[tf.Tensor | None]:
    return sent_back(work_of(op, _lib.REDUCESCATTER), gradients)
