# SPDX-License-Identifier: Apache-2.0
"""Comparison of variables over ranks, in eager execution and in graphs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hvd._core import array_replicas
from hvd._core.replica_guard import Guard, Reading
from hvd._core.settings import Settings, is_shared
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow import errors

NamedVariables = list[tuple[str, Any]]


def _array(variable: Any) -> np.ndarray:
    """Its value; without a copy where that is in CPU memory."""
    value = variable.read_value() if hasattr(variable, "read_value") else variable
    return np.asarray(value._numpy() if hasattr(value, "_numpy") else value)


def _arrays(named: NamedVariables) -> list[tuple[str, np.ndarray]]:
    return [(name, _array(variable)) for name, variable in named]


class VariablesGuard(Guard):
    """Compares variables where gradients have been reduced, before they are applied.

    In eager execution it does not wait; in a graph, which counts in a variable of its own, Python
    compares when it is due, and waits for the other ranks, for which the graph waits anyway.

    Parameters
    ----------
    every
        Updates from one comparison to the next; 0: never. The first one finds what the first update
        made: scripts broadcast after it.
    process_set
        The ranks that train together.
    named
        Gives the variables that must be equal, by names for people.
    kind
        As for any ``Guard``.
    """

    def __init__(
        self,
        every: int,
        process_set: ProcessSet,
        named: Callable[[], NamedVariables],
        kind: str = "",
    ) -> None:
        super().__init__(
            every,
            process_set,
            lambda: Reading(array_replicas.digest_of(_array(one) for _, one in named())),
            lambda: array_replicas.entries_of(_arrays(named())),
            first=2,
            kind=kind,
        )
        self._counter: tf.Variable | None = None

    def _restart(self) -> None:
        super()._restart()
        counter = self.__dict__.get("_counter")
        if counter is not None:
            # Where a graph of TensorFlow 1 is the default it is so on this thread alone.
            eager = threading.Thread(target=counter.assign, args=(0,), name="hvd-replicas")
            eager.start()
            eager.join()

    @tf.autograph.experimental.do_not_convert
    def after(self, gradients: Sequence[Any]) -> list[Any]:
        """The reduced gradients, after what is due."""
        result = list(gradients)
        if not is_shared(self._process_set):
            return result
        if tf.executing_eagerly():
            self.reductions += 1
            self.act()
            return result
        if not tf.compat.v1.executing_eagerly_outside_functions():
            return result  # a session of TensorFlow 1: CheckReplicasHook
        return self._in_graph(result)

    def _in_graph(self, gradients: list[Any]) -> list[Any]:
        with tf.init_scope():
            if self._counter is None:
                self._counter = tf.Variable(0, trainable=False, dtype=tf.int64, name="hvd_updates")
        # After the reductions: it holds a thread that they might need.
        with tf.control_dependencies([one for one in gradients if one is not None]):
            count = self._counter.assign_add(1, read_value=True)
            is_due = count == self._first  # where ranks that never compare agree on that
            if self._every:
                is_later = tf.logical_and(count > self._first, count % self._every == 0)
                is_due = tf.logical_or(is_later, is_due)
            done = tf.cond(is_due, self._compared, lambda: tf.constant(False))
        with tf.control_dependencies([done]):
            return [_same(one) for one in gradients]

    def _compared(self) -> tf.Tensor:
        guard = weakref.ref(self)

        def compare() -> bool:
            alive = guard()
            if alive is not None and not alive._is_paused:
                with errors.marked():
                    alive.check_now()
            return True

        # Written, not read: TensorFlow puts only writes in the order of the program.
        with tf.device("CPU:0"), tf.control_dependencies([_turn().assign_add(1)]):
            done = tf.py_function(compare, [], tf.bool)
        done.set_shape([])
        return done


def guard_of(optimizer: Any, settings: Settings, kind: str) -> VariablesGuard:
    """What compares what the method ``compared()`` of an optimizer gives."""
    found = weakref.ref(optimizer)

    def named() -> NamedVariables:
        alive = found()
        return [] if alive is None else alive.compared()

    return VariablesGuard(settings.check_replicas, settings.process_set, named, kind)


_turns: list[tf.Variable] = []


def _turn() -> tf.Variable:
    """What all comparisons of a graph use, so that it does one after the other, in one order."""
    with tf.init_scope():
        if not _turns:
            _turns.append(tf.Variable(0, trainable=False, dtype=tf.int64, name="hvd_turn"))
    return _turns[0]


def _same(gradient: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        values = tf.identity(gradient.values)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return None if gradient is None else tf.identity(gradient)


def check_replicas(
    variables: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> None:
    """Compares variables over ranks, all of which call it; with ``HVD_CHECK_REPLICAS=0``: nothing.

    Optimizers of Keras that are distributed do so by themselves; this is for loops with a
    ``DistributedGradientTape`` and a plain optimizer, in eager execution.

    Parameters
    ----------
    variables
        ``tf.Variable``, those of Keras, or tensors, of any shapes and types: a list, a mapping from
        names, or (name, variable) pairs. Those of a list have their own names.
    name
        What the names of its operations begin with; equal on all ranks.
    process_set
        The ranks that compare; on others nothing happens.

    Raises
    ------
    ReplicasDifferError
        On every rank: the variables differ, in values, shapes or names. It names the first, and from
        3 ranks on the rank whose variable is not that of the others.

    >>> check_replicas([tf.Variable([1.0, 2.0], name="weights")])  # on one rank: always equal
    """
    array_replicas.check_arrays(name, process_set, _arrays(_named(variables)))


def _named(variables: Any) -> NamedVariables:
    pairs: Iterable[Any] = variables.items() if isinstance(variables, Mapping) else variables
    named = []
    for place, one in enumerate(pairs):
        key, variable = one if isinstance(one, tuple) else (name_of(one) or str(place), one)
        named.append((f"'{key}'", getattr(variable, "value", variable)))
    return [(key, one() if callable(one) else one) for key, one in named]


def name_of(variable: Any) -> str:
    """What people call a variable: its path in the model, where it is of Keras 3."""
    if isinstance(variable, tf.Tensor):
        return ""
    return str(getattr(variable, "path", None) or variable.name)
