# SPDX-License-Identifier: Apache-2.0
"""The Adasum optimizer: each rank steps by itself, and what that changed is reduced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from hvd._core.settings import Settings, is_shared
from hvd.tensorflow.aggregation import (
    BoolLike,
    PassCounter,
    check_branches,
    current_graph,
    own_variable,
)
from hvd.tensorflow.optimizer import Delegating
from hvd.tensorflow.reducer import gradient_names, identity, reduce_gradients


class AdasumOptimizer(Delegating):
    """What ``DistributedOptimizer(op=Adasum)`` makes of an optimizer of TensorFlow 1.

    Momentum and the like stay those of each rank (Maleki et al. 2020,
    https://arxiv.org/abs/2006.02924). With ``backward_passes_per_step`` each pass is a local step,
    and the last one reduces what all of them changed.
    """

    def __init__(
        self, optimizer: Any, name: str | None, use_locking: bool, settings: Settings
    ) -> None:
        super().__init__(optimizer, name, use_locking)
        self._settings = settings
        self._counter = PassCounter(settings.reduction.passes_per_step)
        # With its variable, or the id could come back as that of another one.
        self._starts: dict[int, tuple[Any, tf.Variable]] = {}
        self._graph: Any = None

    @tf.autograph.experimental.do_not_convert
    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Steps locally, then adds the Adasum of what changed on each rank to the old values.

        `global_step` grows in every local step.
        """
        pairs = list(grads_and_vars)
        variables = [variable for gradient, variable in pairs if gradient is not None]

        def apply() -> Any:
            return self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)

        if not variables or not is_shared(self._settings.process_set):
            return apply()
        if self._counter.passes > 1:
            check_branches(variables)
        names = gradient_names(len(variables), f"{self._name}/delta")
        starts = self._starts_of(variables)
        gradients = [gradient for gradient, _ in pairs if gradient is not None]
        with tf.control_dependencies(gradients):
            first, last = self._counter.next()
            begun = _if(first, lambda: _copied(starts, variables))
        with tf.control_dependencies(_operations(begun)):
            stepped = apply()
        with tf.control_dependencies(_operations(stepped)):
            return _if(last, lambda: self._reduce(starts, variables, names))

    def _starts_of(self, variables: list[Any]) -> list[tf.Variable]:
        """Where the values before a step are kept."""
        graph = current_graph()
        if self._graph is not graph:
            self._graph, self._starts = graph, {}
        for number, variable in enumerate(variables):
            if identity(variable) not in self._starts:
                start = own_variable(
                    variable.shape, variable.dtype.base_dtype, f"hvd_start_{number}", variable
                )
                self._starts[identity(variable)] = variable, start
        return [self._starts[identity(variable)][1] for variable in variables]

    def _reduce(self, starts: list[tf.Variable], variables: list[Any], names: list[str]) -> Any:
        old = [start.read_value() for start in starts]
        deltas = [now.read_value() - then for now, then in zip(variables, old)]
        reduced = reduce_gradients(deltas, self._settings, variables, names=names)
        return _copied(variables, [then + delta for then, delta in zip(old, reduced)])


def _copied(targets: list[Any], values: list[Any]) -> Any:
    assigned = [
        target.assign(_value(value), read_value=False) for target, value in zip(targets, values)
    ]
    return None if tf.executing_eagerly() else tf.group(*assigned)


def _value(value: Any) -> Any:
    return value.read_value() if isinstance(value, tf.Variable) else value


def _operations(done: Any) -> list[Any]:
    """What to wait for in a graph; nothing in eager execution."""
    return [] if done is None else [done]


def _if(condition: BoolLike, act: Callable[[], Any]) -> Any:
    """Acts if the condition is true; the operation that does, in a graph."""
    if isinstance(condition, bool):
        return act() if condition else (None if tf.executing_eagerly() else tf.no_op())

    def acted() -> tf.Tensor:
        with tf.control_dependencies([act()]):
            return tf.constant(True)

    return tf.cond(condition, acted, lambda: tf.constant(False)).op
