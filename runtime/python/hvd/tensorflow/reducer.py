# SPDX-License-Identifier: Apache-2.0
"""Reduces lists of gradients: dense ones, sparse ones, and places where there is none."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Union

import tensorflow as tf

from hvd._core import _lib
from hvd._core.arguments import work_among
from hvd._core.groups import grouped_indices
from hvd._core.refusals import refused
from hvd._core.settings import Settings, is_shared
from hvd._core.work import Adasum, Work
from hvd.errors import UnsupportedError
from hvd.tensorflow import library
from hvd.tensorflow.averages import quotient
from hvd.tensorflow.compression import Compression, wire_for
from hvd.tensorflow.ops import submission
from hvd.tensorflow.ops.sparse import sparse_allreduce

Gradient = Union[tf.Tensor, tf.IndexedSlices, None]

# Gradients of a graph up to this size leave together, so many of them and so much at most.
_SMALL_BYTES = 32 << 10
_JOINED_BYTES = 256 << 10
_JOINED_COUNT = 64


def variable_kinds() -> tuple[type, ...]:
    """The classes of variables: TensorFlow's, and Keras' where that is in use."""
    of_keras = getattr(sys.modules.get("keras"), "Variable", None)
    return (tf.Variable,) if of_keras is None else (tf.Variable, of_keras)


def identity(variable: Any) -> int:
    """Equal for a variable of Keras and the ``tf.Variable`` in it."""
    inner = getattr(variable, "value", None)
    return id(inner if isinstance(inner, tf.Variable) else variable)


class LocalSources:
    """Variables that each rank trains by itself."""

    def __init__(self, variables: Iterable[Any] = ()) -> None:
        self._variables: dict[int, Any] = {}
        for variable in variables:
            self.add(variable)

    def add(self, variable: Any) -> None:
        """Gradients of this variable stay on their rank from now on."""
        if not isinstance(variable, variable_kinds()):
            raise refused(
                f"a local source is a tf.Variable or a variable of Keras, not {variable!r}: pass "
                "those of a layer one by one, as in layer.trainable_weights"
            )
        self._variables[identity(variable)] = variable

    def __contains__(self, variable: Any) -> bool:
        return identity(variable) in self._variables


def gradient_names(count: int, prefix: str = "gradient") -> list[str]:
    """Names for so many tensors that are reduced together: equal on all ranks, for they count.

    In a graph they are those of no other tensor in it or in the functions around it. They say
    nothing of layers: those that Keras names are called after how many of them the process has made.

    >>> gradient_names(2)
    ['gradient.0', 'gradient.1']
    """
    if not tf.executing_eagerly():
        prefix = library.place_in_graph(prefix, is_taken=True)
    return [f"{prefix}.{index}" for index in range(count)]


def dense(gradient: Gradient) -> Gradient:
    """The same with a row for every index."""
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


@tf.autograph.experimental.do_not_convert
def reduce_gradients(
    gradients: Sequence[Gradient],
    settings: Settings,
    variables: Sequence[Any] | None = None,
    local: LocalSources | None = None,
    scales_local: bool = True,
    names: Sequence[str] | None = None,
) -> list[Gradient]:
    """The gradients of all ranks of the process set, in the same order.

    In a graph every tensor, or every group of ``settings.groups``, is an operation of its own, which
    runs as soon as its gradients are there; without groups small ones leave some dozen at a time. In
    eager execution all are one operation.

    Parameters
    ----------
    gradients
        Dense tensors, ``tf.IndexedSlices``, or None, at the same places on all ranks. None stays.
    settings
        How they are reduced: ``hvd._core.settings.checked_settings()`` makes them of a user's arguments.
    variables
        What each is the gradient of; local sources need it, and groups of variables. Without it
        groups are lists of indices.
    local
        Variables whose gradients stay on their rank.
    scales_local
        Those are divided by the size of the process set, as an average would be.
    names
        One for each gradient; ``gradient_names()`` unless given.

    Returns
    -------
    list
        What ``gradients`` has, of the same types and shapes; as it is where this rank trains alone.

    Raises
    ------
    UnsupportedError
        A gradient is something else, or sparse where the reduction needs dense ones.
    """
    result = list(gradients)
    if not is_shared(settings.process_set):
        return result
    if settings.sparse_as_dense:
        result = [dense(one) for one in result]
    names = gradient_names(len(result)) if names is None else names
    shared = _shared_indices(result, settings, variables, local, scales_local)
    rows = [index for index in shared if isinstance(result[index], tf.IndexedSlices)]
    whole = [index for index in shared if index not in set(rows)]
    for batch in _batches(whole, result, settings, variables):
        reduced = _allreduce([result[index] for index in batch], names[batch[0]], settings)
        for index, tensor in zip(batch, reduced):
            result[index] = tensor
    for index in rows:
        result[index] = _sparse_allreduce(result[index], names[index], settings)
    return result


def _shared_indices(
    gradients: list[Gradient],
    settings: Settings,
    variables: Sequence[Any] | None,
    local: LocalSources | None,
    scales_local: bool,
) -> list[int]:
    """Which gradients travel; of those that stay the scale is changed here."""
    shared = []
    for index, gradient in enumerate(gradients):
        if gradient is None:
            continue
        if not isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
            raise UnsupportedError(
                f"gradient {index} is a {type(gradient).__name__}: a tf.Tensor or tf.IndexedSlices "
                "can be reduced; take the gradient of dense variables"
            )
        if local is not None and variables is not None and variables[index] in local:
            if scales_local:
                gradients[index] = _divided(gradient, settings.process_set.size())
            continue
        shared.append(index)
    return shared


def _divided(gradient: Any, ranks: int) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        values = quotient(gradient.values, ranks)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return quotient(gradient, ranks)


def _batches(
    indices: list[int],
    gradients: list[Gradient],
    settings: Settings,
    variables: Sequence[Any] | None,
) -> list[list[int]]:
    """Which gradients are one operation."""
    if not indices:
        return []
    if tf.executing_eagerly():
        return [indices]
    groups = settings.groups
    if not groups:
        if variables is None:
            return [[index] for index in indices]
        return _small_together(indices, [_bytes_of(*pair) for pair in zip(gradients, variables)])
    if variables is None:
        parts = grouped_indices(groups, indices, int)
    else:
        parts = grouped_indices(groups, [variables[index] for index in indices], identity)
    grouped = [[indices[place] for place in part] for part in parts]
    taken = {index for part in grouped for index in part}
    return sorted([*grouped, *([index] for index in indices if index not in taken)])


def _small_together(indices: list[int], sizes: list[float]) -> list[list[int]]:
    """Large gradients each by itself; an operation costs more than the bytes of a small one."""
    batches: list[list[int]] = []
    joined: list[int] = []
    room = 0.0
    for index in indices:
        if sizes[index] > _SMALL_BYTES:
            batches.append([index])
            continue
        if not joined or sizes[index] > room or len(joined) == _JOINED_COUNT:
            joined, room = [], float(_JOINED_BYTES)
            batches.append(joined)
        joined.append(index)
        room -= sizes[index]
    return batches


def _bytes_of(gradient: Gradient, source: Any) -> float:
    """By the shape of a variable; that of a tensor may depend on how a rank traced its function."""
    if gradient is None or not isinstance(source, variable_kinds()):
        return math.inf
    count = tf.TensorShape(source.shape).num_elements()
    return math.inf if count is None else float(count * gradient.dtype.size)


def _allreduce(tensors: list[Any], name: str, settings: Settings) -> list[tf.Tensor]:
    """The reductions of some dense tensors: one operation, or two where not all can be compressed."""
    result = list(tensors)
    for number, places in enumerate(_alike(tensors, settings)):
        work = _work(f"{name}.{number}" if number else name, settings)
        reduced = _reduced(work, [tensors[place] for place in places], settings)
        for place, tensor in zip(places, reduced):
            result[place] = tensor
    return result


def _alike(tensors: list[Any], settings: Settings) -> list[list[int]]:
    """The places of tensors that the data plane casts, and of those that it does not."""
    ways: dict[bool, list[int]] = {}
    for place, tensor in enumerate(tensors):
        ways.setdefault(wire_for(settings.compression, [tensor]) is None, []).append(place)
    return list(ways.values())


def _work(name: str, settings: Settings) -> Work:
    reduction = settings.reduction
    scales = (1.0 / reduction.predivide, reduction.predivide)
    return work_among(settings.process_set, _lib.ALLREDUCE, name, reduction.op, scales)


def _reduced(work: Work, tensors: list[Any], settings: Settings) -> list[tf.Tensor]:
    compression = settings.compression
    if work.op != Adasum or compression is Compression.none:
        return submission.reduced(work, tensors, compression)
    # Partial results of Adasum travel in float32: what is cast is cast here.
    small = [compression.compress(tensor) for tensor in tensors]
    sums = submission.submit(work, [tensor for tensor, _ in small])
    return [compression.decompress(one, context) for one, (_, context) in zip(sums, small)]


def _sparse_allreduce(gradient: Any, name: str, settings: Settings) -> tf.IndexedSlices:
    """The rows of all ranks; the same index may stand there for several of them."""
    op = settings.reduction.op
    return sparse_allreduce(
        gradient, op, (1.0, 1.0), settings.compression, name, settings.process_set
    )
