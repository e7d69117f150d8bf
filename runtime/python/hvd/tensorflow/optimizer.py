# SPDX-License-Identifier: Apache-2.0
"""The distributed optimizer: of TensorFlow 1 here, of Keras in ``hvd.keras``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvd._core.groups import Groups, chosen_groups
from hvd._core.refusals import refused
from hvd._core.settings import Settings, checked_settings
from hvd._core.work import Adasum, Average
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.aggregation import Accumulation, BoolLike, check_branches
from hvd.tensorflow.compression import Compression
from hvd.tensorflow.reducer import (
    Gradient,
    LocalSources,
    gradient_names,
    identity,
    reduce_gradients,
    variable_kinds,
)
from hvd.tensorflow.replicas import NamedVariables, guard_of

Pairs = list[tuple[Gradient, Any]]


class Delegating(tf.compat.v1.train.Optimizer):
    """Stands for another optimizer of TensorFlow 1, whose slots and variables it shows."""

    def __init__(self, optimizer: Any, name: str | None, use_locking: bool) -> None:
        super().__init__(use_locking, name or f"Distributed{type(optimizer).__name__}")
        self._optimizer = optimizer

    @tf.autograph.experimental.do_not_convert
    def compute_gradients(self, *args: Any, **kwargs: Any) -> Pairs:
        """Pairs of a gradient and its variable, as the optimizer has them."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """A slot of the optimizer."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """The names of its slots."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Its variables, without those in which passes add up."""
        return self._optimizer.variables(*args, **kwargs)


class _Distributed(Delegating):
    """Applies the gradients of all ranks."""

    def __init__(
        self,
        optimizer: Any,
        name: str | None,
        use_locking: bool,
        settings: Settings,
        scales_local: bool,
    ) -> None:
        super().__init__(optimizer, name, use_locking)
        self._settings = settings
        self._local = LocalSources()
        self._scales_local = scales_local
        self._accumulation = Accumulation(
            settings.reduction.passes_per_step, settings.averages_passes, settings.sparse_as_dense
        )
        self._is_last: BoolLike | None = None
        self._variables: list[Any] = []
        self._guard = guard_of(self, settings, self._name)

    def compared(self) -> NamedVariables:
        """What must be equal on all ranks: without local variables, and what is kept for these."""
        own = [one for one in self._variables if one not in self._local]
        has_local = len(own) < len(self._variables)
        state = [] if has_local else [one for one in self.variables() if one.dtype.is_floating]
        return [(f"variable '{one.name}'", one) for one in (*own, *state)]

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays on its rank."""
        self._local.add(var)

    @tf.autograph.experimental.do_not_convert
    def compute_gradients(self, *args: Any, **kwargs: Any) -> Pairs:
        """Pairs of the gradient of all ranks and its variable.

        With ``backward_passes_per_step`` above 1 they are those of all ranks in the last pass of a
        step only; ``apply_gradients()`` does nothing in the others.
        """
        pairs = super().compute_gradients(*args, **kwargs)
        variables = [variable for _, variable in pairs]
        names = gradient_names(len(pairs), f"{self._name}/gradient")

        self._variables = variables

        def reduce(gradients: Sequence[Gradient]) -> list[Gradient]:
            reduced = reduce_gradients(
                gradients, self._settings, variables, self._local, self._scales_local, names
            )
            return self._guard.after(reduced)

        gradients = [gradient for gradient, _ in pairs]
        reduced, self._is_last = self._accumulation.step(gradients, reduce, variables)
        return list(zip(reduced, variables))

    @tf.autograph.experimental.do_not_convert
    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Applies what ``compute_gradients()`` gave; in the last pass of a step.

        `global_step` then grows by one: it counts steps, not passes.
        """
        pairs = list(grads_and_vars)

        def apply() -> Any:
            return self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)

        if self._accumulation.passes == 1:
            return apply()
        last = self._is_last
        if last is None:
            raise refused(
                "apply_gradients(): backward_passes_per_step is "
                f"{self._accumulation.passes}: take the gradients from compute_gradients() of this "
                "optimizer, which adds them up"
            )
        if isinstance(last, bool):
            return apply() if last else None
        check_branches([variable for gradient, variable in pairs if gradient is not None])
        return applied_if(last, apply, [gradient for gradient, _ in pairs])


def applied_if(condition: tf.Tensor, apply: Any, gradients: Sequence[Gradient]) -> tf.Operation:
    """An operation that does what `apply` does if the condition is true, after the gradients."""

    def applied() -> tf.Tensor:
        with tf.control_dependencies([apply()]):
            return tf.constant(True)

    with tf.control_dependencies([one for one in gradients if one is not None]):
        done = tf.cond(condition, applied, lambda: tf.constant(False))
    return done.op


def DistributedOptimizer(  # noqa: N802 (the name that users know)
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
    check_replicas: int | None = None,
) -> Any:
    """An optimizer that applies the gradients of all ranks.

    Parameters
    ----------
    optimizer
        One of Keras, or a ``tf.compat.v1.train.Optimizer``, in a graph, a function or eager.
    name
        Of the result; "Distributed" and its class unless given.
    use_locking
        For Horovod's scripts: the given optimizer has its own.
    device_dense, device_sparse
        For Horovod's scripts; not used.
    compression
        One of ``Compression``, or an object with ``compress()`` and ``decompress()``.
    sparse_as_dense
        Sparse gradients are made dense before they are reduced.
    backward_passes_per_step
        Passes whose gradients add up on each rank before they are reduced and applied.
    op
        ``Average`` or ``Sum`` of gradients, or ``Adasum``: then every rank steps locally, and what
        this changed is reduced (not with optimizers of Keras).
    gradient_predivide_factor
        Gradients are divided by it before the sum and multiplied after; with ``Average`` only.
    average_aggregated_gradients
        Passes are averaged on each rank; without it they are summed.
    num_groups
        The old name of `groups`, deprecated.
    groups
        Gradients of a group are reduced together, when all of them are there: a number of groups,
        or lists of variables. Without it each leaves when it is there, small ones some dozen at a
        time.
    process_set
        The ranks that train together. On a rank that is not in the set each step is local.
    scale_local_gradients
        Gradients of ``register_local_var()`` are divided by the size of the process set.
    check_replicas
        Steps from one comparison of variables over ranks to the next, where they differ an error on
        every rank (``ReplicasDifferError``); not in sessions: see ``CheckReplicasHook``, nor with
        Adasum. The first comes after the first step; 0 switches it off; without:
        ``HVD_CHECK_REPLICAS``, else 100.

    Returns
    -------
    tf.compat.v1.train.Optimizer or keras.optimizers.Optimizer
        Of the family of `optimizer`.

    Raises
    ------
    InvalidArgumentError
        An argument is wrong, or does not go with another.

    >>> x = tf.Variable(3.0)
    >>> plain = tf.compat.v1.train.GradientDescentOptimizer(0.5)
    >>> DistributedOptimizer(plain).minimize(lambda: x * x)
    >>> float(x)
    0.0
    """
    is_legacy = isinstance(optimizer, tf.compat.v1.train.Optimizer)
    if is_legacy and isinstance(optimizer, Delegating):
        raise refused(
            "this is a DistributedOptimizer already: wrap once, or gradients are reduced twice"
        )
    if not is_legacy and not _is_of_keras(optimizer):
        raise refused(
            f"DistributedOptimizer got {optimizer!r}: an optimizer of Keras or a "
            "tf.compat.v1.train.Optimizer is needed"
        )
    chosen = chosen_groups(num_groups, groups, variable_kinds(), "tf.Variable", identity)
    settings = checked_settings(
        compression=compression,
        op=op,
        process_set=process_set,
        gradient_predivide_factor=gradient_predivide_factor,
        backward_passes_per_step=backward_passes_per_step,
        sparse_as_dense=sparse_as_dense,
        groups=chosen,
        average_aggregated_gradients=average_aggregated_gradients,
        check_replicas=check_replicas,
    )
    if not is_legacy:
        from hvd.keras.optimizer import create  # imports Keras, which a loop may not use

        return create(optimizer, name, settings, scale_local_gradients)
    if op == Adasum:
        from hvd.tensorflow.adasum_optimizer import AdasumOptimizer  # few scripts need it

        return AdasumOptimizer(optimizer, name, use_locking, settings)
    return _Distributed(optimizer, name, use_locking, settings, scale_local_gradients)


def _is_of_keras(optimizer: Any) -> bool:
    if not {"keras", "tf_keras"}.intersection(sys.modules):
        return False
    from hvd.keras import generations

    return generations.of(optimizer).is_optimizer(optimizer)
