# SPDX-License-Identifier: Apache-2.0
"""Reductions, allgather and broadcast of tensors, with Horovod's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvd._core import _lib
from hvd._core.arguments import check_group, chosen_op, work_among
from hvd._core.work import Average
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.compression import Compression
from hvd.tensorflow.operations import named, reduced, submit, tensors_of
from hvd.tensorflow.sparse import sparse_allreduce


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


def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """The rows of all ranks, by rank; the number of rows may differ by rank.

    Parameters
    ----------
    tensor
        Rows of one shape and type on all ranks; their number may differ.
    name, ignore_name_scope, process_set
        As of ``allreduce``.

    >>> allgather(tf.ones([1, 2])).numpy().tolist()
    [[1.0, 1.0]]
    """
    return grouped_allgather([tensor], name, ignore_name_scope, process_set)[0]


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """The same for a group that completes as one.

    Parameters
    ----------
    tensors
        Each with rows of one shape and type on all ranks; their number may differ.
    name, ignore_name_scope, process_set
        As of ``allreduce``.

    >>> [one.numpy().tolist() for one in grouped_allgather([tf.ones(1), tf.zeros(2)])]
    [[1.0], [0.0, 0.0]]
    """
    check_group("grouped_allgather", tensors)
    name = named(name, "HvdAllgather", ignore_name_scope)
    return submit(work_among(process_set, _lib.ALLGATHER, name), tensors)


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """The tensor of `root_rank`, a rank of the job, on every rank.

    Parameters
    ----------
    tensor
        Of one shape and type on all ranks.
    root_rank
        The rank of the job whose value it is.
    name, ignore_name_scope, process_set
        As of ``allreduce``.

    >>> broadcast(tf.ones(2), root_rank=0).numpy()
    array([1., 1.], dtype=float32)
    """
    name = named(name, "HvdBroadcast", ignore_name_scope)
    return submit(work_among(process_set, _lib.BROADCAST, name, root=root_rank), [tensor])[0]
