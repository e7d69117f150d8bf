# SPDX-License-Identifier: Apache-2.0
"""Gradients of several passes added up on each rank, for optimizers of your own, where Horovod has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from horovod.common.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.aggregation import Accumulation
from hvd.tensorflow.averages import quotient
from hvd.tensorflow.optimizer import applied_if
from hvd.tensorflow.reducer import LocalSources


class LocalGradientAggregationHelper:
    """Adds up the gradients of `backward_passes_per_step` passes, then has them reduced and applied.

    Parameters
    ----------
    backward_passes_per_step
        How many.
    allreduce_func
        A function of gradients and their variables that returns the reduced gradients.
    sparse_as_dense
        Sparse gradients are made dense; without it they are refused where passes add up.
    average_aggregated_gradients
        The sums are divided by the number of passes.
    rank, optimizer_type
        For Horovod's scripts; not used.
    process_set, scale_local_gradients
        Gradients of ``register_local_var()`` are divided by the size of the set.

    >>> import tensorflow as tf
    >>> weights = tf.Variable(1.0)
    >>> helper = LocalGradientAggregationHelper(2, lambda gradients, vars: gradients, False, False)
    >>> for _ in range(2):
    ...     gradients = helper.compute_gradients([tf.constant(3.0)], [weights])
    ...     _ = helper.apply_gradients(lambda: weights.assign_sub(gradients[0]), None)
    >>> float(weights)
    -5.0
    """

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Callable[[list[Any], list[Any]], Sequence[Any]],
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        rank: int = 0,
        optimizer_type: str = "",
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        self._sums = Accumulation(
            backward_passes_per_step, average_aggregated_gradients, sparse_as_dense
        )
        self._allreduce = allreduce_func
        self._process_set = process_set
        self._scales_local = scale_local_gradients
        self._local = LocalSources()
        self._gradients: list[Any] = []
        self._is_last: Any = True

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays on its rank."""
        self._local.add(var)

    def compute_gradients(self, grads: Sequence[Any], vars: Sequence[Any]) -> list[Any]:  # noqa: A002 (Horovod's name)
        """The reduced sums in the last pass of a step; of no use in the others."""
        variables = list(vars)
        self._gradients, self._is_last = self._sums.step(
            grads, lambda sums: self._reduced(sums, variables), variables
        )
        return self._gradients

    def apply_gradients(
        self, apply_grads_closure: Callable[[], Any], optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Calls the function that applies them, in the last pass of a step."""
        if isinstance(self._is_last, bool):
            return apply_grads_closure() if self._is_last else None
        return applied_if(self._is_last, apply_grads_closure, self._gradients)

    def _reduced(self, sums: Sequence[Any], variables: list[Any]) -> list[Any]:
        shared = [at for at, variable in enumerate(variables) if variable not in self._local]
        reduced = self._allreduce([sums[at] for at in shared], [variables[at] for at in shared])
        result = dict(zip(shared, reduced))
        for at in set(range(len(sums))) - set(shared):
            scale = self._process_set.size() if self._scales_local else 1
            result[at] = None if sums[at] is None else quotient(sums[at], scale)
        return [result[at] for at in range(len(sums))]


__all__ = ["LocalGradientAggregationHelper"]
