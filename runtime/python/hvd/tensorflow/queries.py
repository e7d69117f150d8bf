# SPDX-License-Identifier: Apache-2.0
"""Who and where, answered when a graph runs: what Python asks is a constant of a graph."""

from __future__ import annotations

import tensorflow as tf

from hvd import process_sets
from hvd.tensorflow import errors, library

# Question of runtime/plugins/tensorflow/operations.h.
_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _INCLUDED = range(5)


def _ask(what: int, name: str | None, process_set: int = 0) -> tf.Tensor:
    answer = library.ops.hvd_query(what=what, process_set=process_set, name=name)
    if not tf.executing_eagerly():
        library.run_independently(answer)
    return answer


def rank_op(name: str | None = None) -> tf.Tensor:
    """The rank: int32 without dimensions.

    Parameters
    ----------
    name
        Of the operation in a graph.

    >>> int(rank_op())
    0
    """
    return _ask(_RANK, name)


def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """The ranks of a process set: int32.

    Parameters
    ----------
    process_set_id
        The number of a process set; 0 has all ranks.
    name
        Of the operation in a graph.

    >>> int(size_op())
    1
    """
    return _ask(_SIZE, name, process_set_id)


def local_rank_op(name: str | None = None) -> tf.Tensor:
    """Place among the ranks of this node: int32.

    Parameters
    ----------
    name
        Of the operation in a graph.

    >>> int(local_rank_op())
    0
    """
    return _ask(_LOCAL_RANK, name)


def local_size_op(name: str | None = None) -> tf.Tensor:
    """Ranks of this node: int32.

    Parameters
    ----------
    name
        Of the operation in a graph.

    >>> int(local_size_op())
    1
    """
    return _ask(_LOCAL_SIZE, name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """1 where this rank is in the process set, 0 where not, -1 where there is no such set: int32.

    Parameters
    ----------
    process_set_id
        The number of a process set; 0 has all ranks.
    name
        Of the operation in a graph.

    >>> int(process_set_included_op())
    1
    """
    return _ask(_INCLUDED, name, process_set_id)


def join(name: str | None = None) -> tf.Tensor | int:
    """This rank has no more data; waits until all have joined. The last rank to join.

    In a graph an int32 tensor, computed by this process's Python.

    Parameters
    ----------
    name
        As of ``allreduce``.

    >>> join()
    0
    """
    if tf.executing_eagerly():
        return process_sets.join()
    joined = tf.numpy_function(_joined, [], tf.int32, name=name)
    joined.set_shape([])
    return joined


def _joined() -> object:
    with errors.marked():
        return tf.int32.as_numpy_dtype(process_sets.join())
