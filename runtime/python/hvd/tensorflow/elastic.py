# SPDX-License-Identifier: Apache-2.0
"""Elastic training with TensorFlow; ``hvd.elastic`` says what a state and ``run`` are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from hvd import elastic
from hvd._core.commit_pace import CommitEvery
from hvd._core.refusals import refused
from hvd.elastic import HostsUpdatedInterrupt, ObjectState, PerRank, State
from hvd.errors import MismatchError
from hvd.keras.state import KerasState
from hvd.tensorflow import aggregation, errors
from hvd.tensorflow.broadcasts import broadcast_variables, path_of

__all__ = [
    "HostsUpdatedInterrupt",
    "ObjectState",
    "PerRank",
    "State",
    "TensorFlowKerasState",
    "TensorFlowState",
    "run",
]


def run(
    func: Callable[..., Any] | None = None,
    *,
    reset_limit: int = elastic.RESET_LIMIT,
    timeout: float | None = None,
    commit_every: CommitEvery = 1,
    mean_time_between_failures: float | None = None,
) -> Callable[..., Any]:
    """As ``hvd.elastic.run``, also for what fails within a ``tf.function``, a session or ``model.fit``.

    Errors that pass leave as ``hvd.HvdError``.

    Parameters
    ----------
    func
        The training, ``func(state, ...)``.
    reset_limit
        Errors in a row without a commit between them; one more is raised.
    timeout
        Seconds to wait for all ranks to come again (default: HVD_START_TIMEOUT_SECONDS, 120).
    commit_every, mean_time_between_failures
        As of ``hvd.elastic.run``.

    >>> @run
    ... def train(state):
    ...     state.epoch += 1
    ...     return state.epoch
    >>> train(ObjectState(epoch=0))
    1
    """
    options: dict[str, Any] = {
        "reset_limit": reset_limit,
        "timeout": timeout,
        "commit_every": commit_every,
        "mean_time_between_failures": mean_time_between_failures,
    }
    if func is None:
        return functools.partial(run, **options)
    train = func

    @functools.wraps(func)
    def typed(*args: Any, **kwargs: Any) -> Any:
        with errors.translated():
            return train(*args, **kwargs)

    return elastic.run(typed, **options)


class TensorFlowState(ObjectState):
    """Variables of TensorFlow that survive a reset, and plain objects as well.

    Parameters
    ----------
    variables
        Equal in number, types and shapes on all ranks; with a session, all global variables of its
        graph unless given.
    session
        Of TensorFlow 1, also a ``MonitoredSession``.
    **kwargs
        Name and first value of each attribute; they are saved by deepcopy.

    Raises
    ------
    InvalidArgumentError
        Neither variables nor a session.

    >>> weights = tf.Variable([1.0, 2.0])
    >>> state = TensorFlowState([weights], epoch=0)
    >>> _ = weights.assign([3.0, 4.0])
    >>> state.restore()
    >>> weights.numpy().tolist()
    [1.0, 2.0]
    """

    def __init__(
        self, variables: Iterable[Any] | None = None, session: Any = None, **kwargs: Any
    ) -> None:
        if variables is None and session is not None:
            with session.graph.as_default():
                variables = tf.compat.v1.global_variables()
        if variables is None:
            raise refused(
                "TensorFlowState: give the variables, as TensorFlowState([weights], epoch=0), or "
                "the session of a TensorFlow 1 graph; TensorFlowKerasState takes a model"
            )
        self.variables = list(variables)
        self.session = session
        super().__init__(None, None, **kwargs)

    def sync(self) -> None:
        if self.session is None:
            broadcast_variables(self.variables, root_rank=0)
        else:
            # The graph may be final, so without an operation in it.
            self._write(self._checked(self._bcast_object(self._read())))
        super().sync()

    def _copies(self, old: dict[str, Any] | None) -> dict[str, Any]:
        # Arrays that are read are new ones; written to again they could change what was assigned.
        return {"variables": self._read(), **super()._copies(old)}

    def _bring_back_shared(self, parts: dict[str, Any]) -> None:
        self._write(parts["variables"])
        super()._bring_back_shared(parts)

    def reset(self) -> None:
        if self.session is not None:
            self._run(aggregation.pass_initializers(self.session.graph))
        super().reset()

    def _run(self, what: Any, fed: Any = None) -> Any:
        # Hooks of a MonitoredSession would take a plain run() for a step.
        run_step = getattr(self.session, "run_step_fn", None)
        if run_step is None:
            return self.session.run(what, fed)
        return run_step(lambda step_context: step_context.session.run(what, fed))

    def _read(self) -> list[Any]:
        if self.session is None:
            return [variable.numpy() for variable in self.variables]
        return self._run(self.variables)

    def _write(self, values: list[Any]) -> None:
        if self.session is None:
            for variable, value in zip(self.variables, values):
                variable.assign(value)
            return
        pairs = list(zip(self.variables, values))
        while pairs:
            pairs = self._initialized(pairs)

    def _initialized(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Feeds values to initializers, and returns the pairs for which that needs another run."""
        starts: list[Any] = []
        fed: dict[Any, Any] = {}
        left = []
        for variable, value in pairs:
            start = variable.initializer
            if start.inputs[1] in fed:  # one tensor initializes several variables
                left.append((variable, value))
                continue
            starts.append(start)
            fed[start.inputs[1]] = value
        self._run(starts, fed)
        return left

    def _checked(self, values: list[Any]) -> list[Any]:
        """Those of rank 0, if they fit this rank's variables."""
        if len(values) != len(self.variables):
            raise MismatchError(
                f"rank {self._rank()}: TensorFlowState: {len(self.variables)} variables here, "
                f"{len(values)} on rank 0: build the same graph on every rank"
            )
        for place, (variable, value) in enumerate(zip(self.variables, values)):
            if not variable.shape.is_compatible_with(value.shape):
                raise MismatchError(
                    f"rank {self._rank()}: TensorFlowState: variable {place}, {path_of(variable)!r} "
                    f"here, has the shape {variable.shape.as_list()}, {list(value.shape)} on rank 0"
                )
        return values


class TensorFlowKerasState(KerasState):
    """A Keras model and its optimizer that survive a reset, and plain objects as well.

    Parameters
    ----------
    model, optimizer, **kwargs
        As of ``hvd.keras.elastic.KerasState``.
    backend
        As in Horovod; Keras knows its own.

    >>> import keras
    >>> model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    >>> TensorFlowKerasState(model, keras.optimizers.SGD(), epoch=2).epoch
    2
    """

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any
    ) -> None:
        del backend
        super().__init__(model, optimizer, **kwargs)
