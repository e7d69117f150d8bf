# SPDX-License-Identifier: Apache-2.0
"""Elastic training with Keras on any backend; ``hvd.elastic`` says what a state and ``run`` are.

Around ``fit``::

    state = hvd.elastic.KerasState(model, batch=0, epoch=0)

    @hvd.elastic.run
    def train(state):
        model.fit(
            data,
            initial_epoch=state.epoch,
            epochs=90,
            callbacks=[
                hvd.elastic.UpdateBatchStateCallback(state),
                hvd.elastic.UpdateEpochStateCallback(state),
                hvd.elastic.CommitStateCallback(state, batches_per_commit=100),
            ],
        )

    train(state)
"""

from __future__ import annotations

from typing import Any

from hvd import elastic
from hvd._core.refusals import refused
from hvd.elastic import HostsUpdatedInterrupt, ObjectState, PerRank, State
from hvd.keras import generations
from hvd.keras.state import KerasState

_default: Any = generations.default()

if _default.backend() == "tensorflow":
    # It knows the errors of TensorFlow.
    from hvd.tensorflow.elastic import run
else:
    from hvd.elastic import run

__all__ = [
    "CommitStateCallback",
    "HostsUpdatedInterrupt",
    "KerasState",
    "ObjectState",
    "PerRank",
    "State",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]


class CommitStateCallback(_default.Callback):
    """Commits the state every so many batches, after each epoch and at the end of ``fit``.

    It does so before the next batch, when all callbacks have seen the last one: the order in which
    they are given does not matter.

    Parameters
    ----------
    state
        Every rank commits its own.
    batches_per_commit
        A commit copies the model's weights and asks all ranks: give a larger number to large models.

    Raises
    ------
    InvalidArgumentError
        `batches_per_commit` is below 1.

    >>> callback = CommitStateCallback(elastic.ObjectState(), batches_per_commit=10)
    """

    def __init__(self, state: elastic.State, batches_per_commit: int = 1) -> None:
        super().__init__()
        if batches_per_commit < 1:
            raise refused(
                f"CommitStateCallback: batches_per_commit is {batches_per_commit}; 1 or more"
            )
        self.state = state
        self.batches_per_commit = batches_per_commit
        self._batches = 0
        self._first = 0
        self._ended_epoch = False

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._batches, self._ended_epoch = 0, False

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._first = batch
        if self._ended_epoch or self._batches >= self.batches_per_commit:
            self._commit()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # More than one with steps_per_execution.
        self._batches += batch - self._first + 1

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._ended_epoch = True

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._commit()

    def _commit(self) -> None:
        self._batches, self._ended_epoch = 0, False
        self.state.commit()


class UpdateBatchStateCallback(_default.Callback):
    """Keeps ``state.batch``: batches of this epoch that are done, those before a reset included.

    ``fit`` begins an epoch with the first batch of its data: give it what is left after
    ``state.batch`` batches, or the first ones come again.

    Parameters
    ----------
    state
        Made with ``batch=0``.

    >>> callback = UpdateBatchStateCallback(elastic.ObjectState(batch=0))
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = _having(state, "batch", type(self).__name__)
        self._before = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._before = self.state.batch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.state.batch = self._before + batch + 1

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.state.batch = self._before = 0


class UpdateEpochStateCallback(_default.Callback):
    """Keeps ``state.epoch``: epochs that are done, those before a reset included.

    ``fit(initial_epoch=state.epoch, epochs=all)`` and Horovod's ``fit(epochs=all - state.epoch)`` are
    both right.

    Parameters
    ----------
    state
        Made with ``epoch=0``.

    >>> callback = UpdateEpochStateCallback(elastic.ObjectState(epoch=0))
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = _having(state, "epoch", type(self).__name__)
        self._before = 0
        self._first: int | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._before, self._first = self.state.epoch, None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._first is None:
            self._first = epoch

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert self._first is not None
        self.state.epoch = self._before + epoch - self._first + 1


def _having(state: Any, name: str, what: str) -> Any:
    """The state, if it keeps an attribute of this name."""
    if not hasattr(state, name):
        raise refused(
            f"{what}: the state has no '{name}': make it with {name}=0, as KerasState(model, "
            f"{name}=0)"
        )
    return state
