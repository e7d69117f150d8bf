# SPDX-License-Identifier: Apache-2.0
"""Hooks for the sessions of TensorFlow 1."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvd.tensorflow.broadcasts import broadcast_global_variables


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
        """Runs the operation."""
        session.run(self._broadcast)
