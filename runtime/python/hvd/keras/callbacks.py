# SPDX-License-Identifier: Apache-2.0
"""Callbacks of ``fit`` for many ranks, for Keras on any backend; every rank gives them, in one order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from hvd import objects, stopping
from hvd._core import api
from hvd._core.refusals import refused
from hvd._core.work import Max, Sum
from hvd.keras import backends, generations, replicas
from hvd.keras.accumulation import to_make_equal
from hvd.keras.rates import LearningRateScheduleCallback, LearningRateWarmupCallback
from hvd.keras.reducer import key
from hvd.process_sets import global_process_set

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
    "StopInTimeCallback",
]


_default: Any = generations.default()


class BroadcastGlobalVariablesCallback(_default.Callback):
    """Gives every rank the weights and the optimizer's state of one rank, once, when training begins.

    Where a rank's model has no weights yet, that waits until after the first batch: build it before,
    by an ``Input`` or ``model.build(shape)``, if `root_rank` resumes a training. Seeds of dropout stay
    each rank's own, so that masks differ; so do gradients that have added up for the next update,
    where all ranks are at the same step.

    Parameters
    ----------
    root_rank
        Whose state all get.
    device
        Not used: there for Horovod's scripts.
    local_variables
        What each rank keeps for itself, with what the optimizer has for it.

    Raises
    ------
    InvalidArgumentError
        In ``fit``, on every rank: the ranks have different numbers of variables.

    >>> callback = BroadcastGlobalVariablesCallback(0)
    """

    def __init__(
        self, root_rank: int, device: str = "", local_variables: Iterable[Any] | None = None
    ) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self._local = list(local_variables or ())
        self._equal: tuple[Any, ...] = ()
        self._waits = False

    def register_local_var(self, var: Any) -> None:
        """One more variable that each rank keeps for itself.

        Parameters
        ----------
        var
            A variable of Keras, or what the framework has for it.
        """
        self._local.append(var)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        variables = self._variables()
        count, is_new = float(len(variables)), float(self._equal != self._what())
        # One rank may know of a broadcast that broke on another, or that was before it came.
        least, most, some_are_new = objects.allreduce_numbers(
            [-count, count, is_new], Max, "keras.broadcast.count"
        )
        self._waits = bool(some_are_new) and least == 0
        if self._waits:
            replicas.pause(self.model.optimizer)
        if not some_are_new or self._waits:
            return
        _check_count(count, -least, most)
        self._broadcast(variables)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._waits:
            self._waits = False
            variables = self._variables()
            count = float(len(variables))
            least, most = objects.allreduce_numbers([-count, count], Max, "keras.broadcast.late")
            _check_count(count, -least, most)
            self._broadcast(variables)
            replicas.pause(self.model.optimizer, False)

    def _what(self) -> tuple[Any, ...]:
        """What a broadcast makes equal, in the job of now."""
        return api.job(), self.model, self.model.optimizer

    def _broadcast(self, variables: list[Any]) -> None:
        optimizer = self.model.optimizer
        shared = to_make_equal(variables, () if optimizer is None else [optimizer])
        done = backends.chosen(self.model).broadcast(shared, self.root_rank, global_process_set)
        generations.of(self.model).run(done)
        self._equal = self._what()

    def _variables(self) -> list[Any]:
        """All but the local ones; none where the model is not built."""
        weights = self.model.weights if self.model.built else []
        optimizer = self.model.optimizer
        if not weights or optimizer is None:
            return [one for one in weights if not self._is_local(one)]
        generation = generations.of(optimizer)
        generation.build(optimizer, self.model.trainable_variables)
        state = generation.variables(optimizer)
        if self._local:
            state = [
                one
                for one in state
                if not self._is_local(generation.owner(optimizer, one, weights))
            ]
        return [*(one for one in weights if not self._is_local(one)), *state]

    def _is_local(self, variable: Any) -> bool:
        if variable is None:
            return False
        keys = {key(one) for one in self._local}
        return key(variable) in keys


def _check_count(count: float, least: float, most: float) -> None:
    if least != most:
        raise refused(
            f"BroadcastGlobalVariablesCallback: model and optimizer have {count:.0f} variables here, "
            f"and on other ranks from {least:.0f} to {most:.0f}: build the same model and optimizer "
            "on every rank"
        )


class MetricAverageCallback(_default.Callback):
    """Replaces the metrics of an epoch by their means over ranks, for the callbacks after it.

    Each rank counts as much as the samples that it has seen, where the model has Keras' metric
    ``loss``. A metric that only some ranks have (validation on rank 0 alone) becomes the mean over
    those, on every rank: ``EarlyStopping`` decides alike everywhere. The mean of what is not a mean by
    itself, as AUC, is an approximation.

    Parameters
    ----------
    device
        Not used: there for Horovod's scripts.

    >>> callback = MetricAverageCallback()
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()
        self.device = device
        self._trained: float | None = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._trained = None

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        # The validation of an epoch: from here on the model counts its samples.
        self._trained = self._samples()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        tested = self._samples()
        trained = tested if self._trained is None else self._trained
        found = {}
        for name, value in (logs or {}).items():
            number = _number(value)
            if number is not None:
                found[name] = (number, tested if name.startswith("val_") else trained)
        means = _means(found)
        if logs is not None:
            logs.update(means)

    def _samples(self) -> float:
        """Those in the means of now; 1 where they are not counted."""
        for metric in self.model.metrics:
            if metric.name == "loss" and hasattr(metric, "count"):
                count = float(generations.of(metric).numpy(metric.count))
                return count if count > 0 and math.isfinite(count) else 1.0
        return 1.0


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _means(found: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """The weighted means of values over the ranks that have them."""
    everything = objects.allgather_object(sorted(found), "keras.metrics.names")
    names = sorted(set().union(*everything))
    if not names:
        return {}
    # A name that is missing here counts with weight 0.
    pairs = [found.get(name, (0.0, 0.0)) for name in names]
    numbers = [value * weight for value, weight in pairs] + [weight for _, weight in pairs]
    sums = objects.allreduce_numbers(numbers, Sum, "keras.metrics")
    return {name: sums[at] / sums[at + len(names)] for at, name in enumerate(names)}


class BestModelCheckpoint(_default.ModelCheckpoint):
    """Saves the model when a metric is the best so far; rank 0 writes.

    Set ``filepath`` before ``fit``: of what the script learns later, as Horovod's estimators do. Put
    it after :class:`MetricAverageCallback`, or the metric is that of rank 0.

    Parameters
    ----------
    monitor, verbose, mode, save_freq, save_weights_only
        As of ``keras.callbacks.ModelCheckpoint``, in the order of ``horovod.keras``; that of
        ``horovod.tensorflow.keras`` is in ``hvd.tensorflow.keras.callbacks``.

    Raises
    ------
    InvalidArgumentError
        `mode` is not a word. In ``fit``, on rank 0: there is no ``filepath``, or Keras has no format for
        its ending.

    >>> checkpoint = BestModelCheckpoint(monitor="loss")
    >>> checkpoint.filepath = "best.keras"
    """

    filepath: str | None

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        mode: str = "auto",
        save_freq: str | int = "epoch",
        save_weights_only: bool = False,
    ) -> None:
        if not isinstance(mode, str):
            raise refused(
                f"BestModelCheckpoint: mode is {mode!r}: give 'min', 'max' or 'auto', and "
                "save_weights_only by its name"
            )
        super().__init__(
            # One that Keras takes; it is not there until it is set.
            "best.weights.h5" if save_weights_only else "best.keras",
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        super().on_train_begin(logs)
        if api.rank() != 0:
            return
        endings = generations.of(self.model).checkpoint_endings(self.save_weights_only)
        if self.filepath is None or not str(self.filepath).endswith(endings):
            raise refused(
                f"BestModelCheckpoint: filepath is {self.filepath!r}; set callback.filepath before fit, "
                f"to a path that ends in {' or '.join(endings)}"
            )
        self.filepath = str(self.filepath)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if api.rank() == 0:
            super().on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if api.rank() == 0:
            super().on_epoch_end(epoch, logs)


class StopInTimeCallback(_default.Callback):
    """Ends ``fit`` on every rank after the same batch, when the job is told to stop or time runs out.

    It asks ``hvd.should_stop()``. The epoch ends as it does with ``model.stop_training``: its
    validation, if there is one, still runs, so choose the margin for it and for saving the model.

    Parameters
    ----------
    margin_seconds
        Also stop when less than this is left of the time limit.
    batches_per_check
        Ask after so many batches; each time costs an allreduce of one number.

    Raises
    ------
    InvalidArgumentError
        `batches_per_check` is below 1.

    >>> callback = StopInTimeCallback(margin_seconds=300)
    """

    def __init__(self, margin_seconds: float = 0.0, batches_per_check: int = 1) -> None:
        super().__init__()
        if batches_per_check < 1:
            raise refused(
                f"StopInTimeCallback: batches_per_check is {batches_per_check}; 1 or more"
            )
        self.margin_seconds = margin_seconds
        self.batches_per_check = batches_per_check
        self._left = batches_per_check

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._left = self.batches_per_check
        self._check()  # from now on the signals are noted

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._left -= 1
        if self._left == 0:
            self._left = self.batches_per_check
            self._check()

    def _check(self) -> None:
        if stopping.should_stop(self.margin_seconds):
            self.model.stop_training = True
