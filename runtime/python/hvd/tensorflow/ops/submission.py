# SPDX-License-Identifier: Apache-2.0
"""One op for each collective: eager, in a tf.function and in graphs of TensorFlow 1."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvd._core import _lib
from hvd._core.work import Work
from hvd.tensorflow import library
from hvd.tensorflow.compression import Compression, wire_for
from hvd.tensorflow.errors import translated

# Name and function of the op of each kind that the plugin defines.
_OPS = {
    number: (f"Hvd{kind.name.capitalize()}", getattr(library.ops, f"hvd_{kind.name}"))
    for number, kind in _lib.KINDS.items()
    if hasattr(library.ops, f"hvd_{kind.name}")
}


def _bits(scale: float) -> int:
    """A double as an attribute has it; 0 stands for 1."""
    return 0 if scale == 1.0 else struct.unpack("<q", struct.pack("<d", scale))[0]


def tensors_of(values: Sequence[Any]) -> list[tf.Tensor]:
    """Tensors as they are, which TensorFlow itself takes 1.5 us each to find out; others converted.

    >>> [one.dtype.name for one in tensors_of([tf.ones(1), True])]
    ['float32', 'bool']
    """
    return [one if isinstance(one, tf.Tensor) else tf.convert_to_tensor(one) for one in values]


def submit_with_rows(
    work: Work, tensors: Sequence[Any], splits: Any = None
) -> tuple[list[tf.Tensor], tf.Tensor | None]:
    """One op for a group of dense tensors, which completes as one; gradients flow through it.

    In a graph several ops of one tensor each overlap with the computation; in eager mode one op
    of many costs 2 us per tensor where an op for each costs 87.

    Parameters
    ----------
    work
        Without a name: the order of calls names the op in eager mode, its place in a graph. A name
        that comes again in a graph gets a number there.
    splits
        [ranks] rows for each rank, of alltoall and scatter; None: equal parts.

    Returns
    -------
    The results, and for allgather, gather, alltoall and scatter the rows that came from each rank:
    int64 [tensors, ranks].
    """
    op, function = _OPS[work.kind]
    kind = _lib.KINDS[work.kind]
    tensors = tensors_of(tensors)
    is_eager = tf.executing_eagerly()
    attributes = {
        "tensor_name": (work.name or "") if is_eager else _name_in_graph(work.name, op),
        "reduce_op": work.op,
        "prescale_bits": _bits(work.scales[0]),
        "postscale_bits": _bits(work.scales[1]),
        "process_set": work.process_set,
        "root": work.root,
        "wire": work.wire,
        "priority": work.priority,
    }
    if kind.takes_splits:
        attributes["splits"] = tf.cast([] if splits is None else splits, tf.int64)
    if is_eager:
        with translated():
            result = function(tensors, **attributes)
    else:
        # A session that was told to use a GPU would look for a kernel there.
        with tf.device("/CPU:0"):
            result = function(tensors, **attributes)
        first = result.rows if kind.gives_rows else result[0]
        library.run_independently(first)
    if kind.gives_rows:
        return list(result.outputs), result.rows
    return list(result), None


def submit(work: Work, tensors: Sequence[Any], splits: Any = None) -> list[tf.Tensor]:
    """As ``submit_with_rows()``, the results alone."""
    return submit_with_rows(work, tensors, splits)[0]


def reduced(
    work: Work, tensors: Sequence[tf.Tensor], compression: Any = Compression.none
) -> list[tf.Tensor]:
    """A reduction of a group of dense tensors that travel as `compression` has it."""
    wire = wire_for(compression, tensors) if work.kind == _lib.ALLREDUCE else None
    if wire is not None:
        return submit(work._replace(wire=wire), tensors)
    if compression is Compression.none:
        return submit(work, tensors)
    packed = [compression.compress(tensor) for tensor in tensors]
    results = submit(work, [tensor for tensor, _ in packed])
    return [compression.decompress(one, ctx) for one, (_, ctx) in zip(results, packed)]


def _name_in_graph(name: str | None, op: str) -> str:
    return library.unique_in_graph(name or library.place_in_graph(op))


def named(name: str | None, op: str, ignore_name_scope: bool) -> str | None:
    """A name given counts as it is; one that a graph makes can do without its scope."""
    if name or not ignore_name_scope or tf.executing_eagerly():
        return name
    return library.place_in_graph(op, with_scope=False)
