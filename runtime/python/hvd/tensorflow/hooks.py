# SPDX-License-Identifier: Apache-2.0
"""Hooks for the sessions of TensorFlow 1."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvd import replicas
from hvd._core import array_replicas
from hvd._core.refusals import refused
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.broadcasts import broadcast_global_variables

_NEVER = 1 << 62


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Gives every rank the variables of one rank when a session begins, initialized or restored.

    For ``tf.compat.v1.train.MonitoredTrainingSession``, on every rank; ``checkpoint_dir`` is for
    rank 0 alone.

    Parameters
    ----------
    root_rank
        Whose values count.
    device
        Where values are assigned; "" leaves it to TensorFlow. They are broadcast on the host.

    >>> BroadcastGlobalVariablesHook(0).root_rank
    0
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self._broadcast: Any = None

    def begin(self) -> None:
        """Adds the operation: the graph cannot change once there is a session."""
        graph = tf.compat.v1.get_default_graph()
        if self._broadcast is None or self._broadcast.graph is not graph:
            with tf.device(self.device or None):
                self._broadcast = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the operation.

        Parameters
        ----------
        session
            Of TensorFlow 1, with the graph's variables.
        coord
            Not used.
        """
        session.run(self._broadcast)


class CheckReplicasHook(tf.compat.v1.train.SessionRunHook):
    """Compares the trainable variables of a session over ranks now and then; on every rank.

    It goes by the global step, which the optimizer must be given. The first comparison comes after
    the first step.

    Parameters
    ----------
    every
        Steps from one to the next; 0: none; without: ``HVD_CHECK_REPLICAS``, else 100.
    process_set
        The ranks that train together.

    Raises
    ------
    ReplicasDifferError
        On every rank: variables differ. It names the first.

    >>> CheckReplicasHook(every=100).every
    100
    """

    def __init__(
        self, every: int | None = None, process_set: ProcessSet = global_process_set
    ) -> None:
        super().__init__()
        self.every = replicas.checked_interval(every)
        self.process_set = process_set
        self._step: Any = None
        self._next = 1

    def begin(self) -> None:
        """Looks for the global step and the variables.

        Raises
        ------
        InvalidArgumentError
            The graph has no global step.
        """
        self._step = tf.compat.v1.train.get_global_step()
        self._variables = tf.compat.v1.trainable_variables()
        if self._step is None:
            raise refused(
                "CheckReplicasHook: there is no global step: make one by "
                "tf.compat.v1.train.get_or_create_global_step() and give it to minimize()"
            )

    def before_run(self, run_context: Any) -> Any:
        """Asks for the global step.

        Parameters
        ----------
        run_context
            Of the session, as TensorFlow gives it; not used.
        """
        return tf.compat.v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Compares where it is time.

        Parameters
        ----------
        run_context
            Of the session, as TensorFlow gives it.
        run_values
            Of ``before_run()``: the global step, int64.
        """
        # What the run has given is the step before or after its update, as it came.
        if int(run_values.results) + 1 < self._next:
            return
        step = int(run_context.session.run(self._step))
        if step < self._next:
            return
        # Where it never compares the ranks agree on that, once.
        self._next = (step // self.every + 1) * self.every if self.every else _NEVER
        compared = self._variables if self.every else []
        values = run_context.session.run(compared)
        named = [(f"variable '{one.name}'", value) for one, value in zip(compared, values)]
        array_replicas.check_arrays("hook", self.process_set, named, self.every)
