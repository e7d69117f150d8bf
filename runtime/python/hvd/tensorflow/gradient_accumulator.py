# SPDX-License-Identifier: Apache-2.0
"""Gradients of several passes of a loop, added up on each rank before they are reduced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvd._core.groups import Groups, chosen_groups
from hvd._core.refusals import refused
from hvd._core.settings import checked_settings
from hvd._core.work import Average
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.aggregation import Accumulation, BoolLike
from hvd.tensorflow.compression import Compression
from hvd.tensorflow.reducer import (
    Gradient,
    LocalSources,
    gradient_names,
    identity,
    reduce_gradients,
    variable_kinds,
)


class GradientAccumulator:
    """Adds up the gradients of some passes of a loop with a plain tape, and reduces their sum.

    Make one for each loop, outside of it. It works in eager execution, in functions and in graphs of
    TensorFlow 1, each object in one of them; all ranks make the same number of passes.

    Parameters
    ----------
    backward_passes_per_step
        Passes whose gradients add up.
    compression, sparse_as_dense, op, gradient_predivide_factor, groups, process_set
        As of ``DistributedGradientTape``.
    average_aggregated_gradients
        Passes are averaged on each rank; without it they are summed.
    scale_local_gradients
        Gradients of ``register_local_source()`` are divided by the number of ranks.

    Raises
    ------
    InvalidArgumentError
        An argument is wrong, or does not go with another.

    >>> accumulator = GradientAccumulator(2, average_aggregated_gradients=True)
    >>> weight = tf.Variable(8.0)
    >>> for factor in (1.0, 3.0):
    ...     with tf.GradientTape() as tape:
    ...         loss = factor * weight
    ...     gradients, is_last = accumulator.step(tape.gradient(loss, [weight]), [weight])
    ...     if is_last:
    ...         _ = weight.assign_sub(gradients[0])
    >>> float(weight)
    6.0
    """

    def __init__(
        self,
        backward_passes_per_step: int,
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        average_aggregated_gradients: bool = False,
        groups: Groups = None,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        self._settings = checked_settings(
            compression=compression,
            op=op,
            process_set=process_set,
            gradient_predivide_factor=gradient_predivide_factor,
            backward_passes_per_step=backward_passes_per_step,
            sparse_as_dense=sparse_as_dense,
            groups=chosen_groups(0, groups, variable_kinds(), "tf.Variable", identity),
            average_aggregated_gradients=average_aggregated_gradients,
        )
        self._sums = Accumulation(
            backward_passes_per_step, self._settings.averages_passes, sparse_as_dense
        )
        self._local = LocalSources()
        self._scales_local = scale_local_gradients

    def register_local_source(self, source: Any) -> None:
        """The gradient of this variable stays on its rank.

        Parameters
        ----------
        source
            A ``tf.Variable`` or a variable of Keras.
        """
        self._local.add(source)

    @tf.autograph.experimental.do_not_convert
    def step(
        self, gradients: Sequence[Gradient], variables: Sequence[Any]
    ) -> tuple[list[Gradient], BoolLike]:
        """Adds the gradients of one pass, of this rank, and in the last one reduces the sums.

        Parameters
        ----------
        gradients
            What a plain ``tf.GradientTape`` gives: in every pass for the same variables.
        variables
            What each is the gradient of.

        Returns
        -------
        tuple
            The gradients of all ranks, and whether to apply them: true in the last pass of a step,
            a bool in eager execution, else a tensor, for ``if`` in a ``tf.function``. In other
            passes the gradients are of no use.

        Raises
        ------
        InvalidArgumentError
            A gradient is sparse, without `sparse_as_dense`, or there are others than in the first
            pass, or not one for each variable.
        """
        known = list(variables)
        if len(gradients) != len(known):
            raise refused(
                f"GradientAccumulator.step: {len(gradients)} gradients of {len(known)} variables: "
                "give each variable's gradient, None where it has none"
            )
        names = gradient_names(len(known))

        def reduce(sums: list[Gradient]) -> list[Gradient]:
            return reduce_gradients(
                sums, self._settings, known, self._local, self._scales_local, names
            )

        return self._sums.step(gradients, reduce, known)
