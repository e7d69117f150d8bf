# SPDX-License-Identifier: Apache-2.0
"""Callbacks that set the learning rate, and momentum that follows it, for Keras on any backend."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hvd._core import api
from hvd._core.refusals import refused
from hvd.keras import generations

_default: Any = generations.default()


class Rate:
    """The learning rate of an optimizer, to be set while it trains.

    SGD and RMSprop keep a velocity ``v = momentum * v - rate * gradient``, to which each gradient came
    with the rate of its own step. What Goyal et al. 2017 (section 3) mean is ``v = -rate * u`` with
    ``u = momentum * u + gradient``: then all of ``v`` has the rate of now. The two are equal while the
    rate is constant; where it changes, ``v`` times new by old rate makes them equal again, and exactly:
    ``momentum * (new / old) * (-old * u) - new * gradient = -new * (momentum * u + gradient)``.

    Parameters
    ----------
    optimizer
        Of Keras; a loss scale around it does not matter.
    corrects_momentum
        Whether ``set()`` does that.

    Raises
    ------
    InvalidArgumentError
        The rate is a schedule or a function.

    >>> import keras
    >>> optimizer = keras.optimizers.SGD(0.5)
    >>> rate = Rate(optimizer)
    >>> rate.set(0.25)
    >>> rate.value
    0.25
    """

    def __init__(self, optimizer: Any, corrects_momentum: bool = True) -> None:
        self._optimizer = optimizer
        self._corrects_momentum = corrects_momentum
        self._scale: Callable[[float], None] | None = None
        self._generation = generations.of(optimizer)
        self._variable = self._generation.rate(optimizer)
        if self._variable is None:
            raise refused(
                f"the learning rate of {type(optimizer).__name__} is a schedule or a "
                "function, which callbacks cannot set: give the optimizer a number, or leave the "
                "callback out and warm up with hvd.keras.schedules.WarmupSchedule(schedule, steps)"
            )

    @property
    def value(self) -> float:
        """As the optimizer has it, in float32."""
        return float(self._generation.numpy(self._variable))

    def set(self, rate: float) -> None:
        """Gives the optimizer another rate. After a rate of 0 the velocity is what it is."""
        before = self.value
        self._generation.assign(self._variable, rate)
        now = self.value
        if not self._corrects_momentum or before <= 0 or now == before:
            return
        if self._scale is None:
            velocities = self._generation.velocities(self._optimizer)
            if not velocities:
                return  # not built yet, or without momentum: nothing to correct
            self._scale = self._generation.scaling(velocities)
        self._scale(now / before)


class LearningRateScheduleCallback(_default.Callback):
    """Sets the rate to ``initial_lr * multiplier(epoch)``; the logs of each epoch have it as ``lr``.

    The optimizer's rate must be a number: one with a schedule object is refused when training begins.

    Parameters
    ----------
    initial_lr
        What the multiplier multiplies.
    multiplier
        A function of the epoch, or a number m, which stands for ``m ** epoch``.
    start_epoch, end_epoch
        The rate is set in epochs from the first of these to, without it, the second.
    staircase
        True: once per epoch. False: before each batch, for a fraction of the epoch.
    momentum_correction
        The velocity of SGD and RMSprop follows the rate (Goyal et al. 2017), so that past gradients
        count with the rate of now.
    steps_per_epoch
        Batches in an epoch, where Keras does not know it and `staircase` is False.

    Raises
    ------
    InvalidArgumentError
        No `initial_lr`; in ``fit``, the rate cannot be set or the number of steps is not known.

    >>> callback = LearningRateScheduleCallback(0.1, lambda epoch: 0.1 ** (epoch // 30))
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise refused(f"{type(self).__name__}: initial_lr is None; give a number")
        self.initial_lr = initial_lr
        self.multiplier = multiplier
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self._steps = 0
        self._epoch = 0
        self._rate: Rate | None = None

    def rate_of(self, epoch: int, batch: int) -> float:
        """The rate of a batch.

        Parameters
        ----------
        epoch
            From 0 on.
        batch
            Of the epoch, from 0 on.
        """
        at = float(epoch) if self.staircase else epoch + batch / self._steps
        if callable(self.multiplier):
            return self.initial_lr * self.multiplier(epoch if self.staircase else at)
        return float(self.initial_lr * self.multiplier**at)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._rate = Rate(self.model.optimizer, self.momentum_correction)
        self._steps = self.steps_per_epoch or (self.params or {}).get("steps") or 0
        if not self.staircase and self._steps <= 0:
            raise refused(
                f"{type(self).__name__}: the number of batches in an epoch is not "
                "known: give steps_per_epoch to it"
            )

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        is_over = self.end_epoch is not None and self._epoch >= self.end_epoch
        if self._epoch < self.start_epoch or is_over or (self.staircase and batch > 0):
            return
        assert self._rate is not None
        self._rate.set(self.rate_of(self._epoch, batch))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None and self._rate is not None:
            logs["lr"] = self._rate.value


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the rate batch by batch from ``initial_lr / size()`` to `initial_lr`, then leaves it.

    Parameters
    ----------
    initial_lr
        The rate that suits all ranks together: that of one rank times ``size()``.
    warmup_epochs
        After so many epochs the rate is `initial_lr`.
    verbose
        1: rank 0 prints when it is.
    momentum_correction, steps_per_epoch
        As of :class:`LearningRateScheduleCallback`.

    >>> callback = LearningRateWarmupCallback(0.1 * api.size(), warmup_epochs=3)
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            initial_lr,
            multiplier=1.0,
            end_epoch=math.ceil(warmup_epochs),
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.warmup_epochs = warmup_epochs
        self.verbose = verbose

    def rate_of(self, epoch: int, batch: int) -> float:
        """The rate of a batch; the last one of the warm-up has `initial_lr`.

        Parameters
        ----------
        epoch
            From 0 on.
        batch
            Of the epoch, from 0 on.
        """
        size = api.size()
        step = epoch * self._steps + batch + 1
        until = round(self.warmup_epochs * self._steps)
        return api.learning_rate(self.initial_lr / size, step, until, size)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.verbose and epoch + 1 == self.end_epoch and api.rank() == 0:
            print(
                f"\nEpoch {epoch + 1}: the warm-up ends with a learning rate of {self.initial_lr:g}."
            )
