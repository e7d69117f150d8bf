# SPDX-License-Identifier: Apache-2.0
"""The learning rate of many ranks as a schedule, for Keras on any backend."""

from __future__ import annotations

from typing import Any

from hvd._core import api
from hvd._core.refusals import refused
from hvd._core.settings import check_passes
from hvd.keras import generations

__all__ = ["WarmupSchedule"]

_generation = generations.default()
keras = _generation.module


# Of each Keras that is there: their optimizers ask whether it is a schedule.
_SCHEDULES = generations.everywhere("optimizers.schedules.LearningRateSchedule")


@keras.saving.register_keras_serializable("hvd")
class WarmupSchedule(*_SCHEDULES):  # type: ignore[misc]
    """Multiplies a rate by 1/factor at first and, growing in equal steps, by 1 after the warm-up.

    From Goyal et al. 2017: give it the rate that suits one rank times the number of ranks; the
    training begins with that of one rank. Momentum is not corrected here, where the rate changes
    little from step to step; ``hvd.keras.callbacks.LearningRateWarmupCallback`` does that.

    Parameters
    ----------
    learning_rate
        A number, or another schedule: it is called with what Keras counts, passes if these add up.
    warmup_steps
        Updates of the variables until the warm-up is over; 0: none.
    factor
        The number of ranks unless given; saved with the model.
    name
        As of each schedule of Keras.
    backward_passes_per_step
        Passes that add up for one update, ``gradient_accumulation_steps`` of Keras 3. An optimizer of
        ``DistributedOptimizer`` fills it in where it is not given; saved with the model. Leave it out
        with Keras 2, which counts updates.

    Raises
    ------
    InvalidArgumentError
        A number is out of range.

    >>> schedule = WarmupSchedule(0.8, warmup_steps=100, factor=8)
    >>> [round(float(schedule(step)), 2) for step in (0, 50, 100, 1000)]
    [0.1, 0.45, 0.8, 0.8]
    """

    def __init__(
        self,
        learning_rate: Any,
        warmup_steps: int,
        factor: float | None = None,
        name: str = "WarmupSchedule",
        backward_passes_per_step: int | None = None,
    ) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps
        self.factor = float(api.size() if factor is None else factor)
        self.name = name
        self.backward_passes_per_step = backward_passes_per_step
        if warmup_steps < 0 or self.factor <= 0:
            raise refused(
                f"WarmupSchedule: warmup_steps is {warmup_steps}, factor {self.factor}; 0 or more, and "
                "more than 0"
            )
        if backward_passes_per_step is not None:
            check_passes(backward_passes_per_step)

    def __call__(self, step: Any) -> Any:
        """The rate as a tensor of the backend.

        Parameters
        ----------
        step
            Passes that the optimizer has made: a number or an integer tensor without dimensions.
        """
        rate = self.learning_rate(step) if callable(self.learning_rate) else self.learning_rate
        rate = _generation.tensor(rate)
        if self.warmup_steps == 0:
            return rate
        # Keras 3 calls a schedule with the number of the pass, also where only some update.
        updates = _generation.floor(_generation.tensor(step) / (self.backward_passes_per_step or 1))
        share = _generation.minimum(updates / self.warmup_steps, 1.0)
        return rate * ((1.0 + (self.factor - 1.0) * share) / self.factor)

    def get_config(self) -> dict[str, Any]:
        """What ``from_config()`` makes it from."""
        rate = self.learning_rate
        if callable(rate):
            rate = keras.saving.serialize_keras_object(rate)
        return {
            "learning_rate": rate,
            "warmup_steps": self.warmup_steps,
            "factor": self.factor,
            "name": self.name,
            "backward_passes_per_step": self.backward_passes_per_step,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> WarmupSchedule:
        """The schedule that ``get_config()`` has described.

        Parameters
        ----------
        config
            What it returned.
        """
        rate = config["learning_rate"]
        if isinstance(rate, dict):
            rate = keras.saving.deserialize_keras_object(rate)
        return cls(**{**config, "learning_rate": rate})


def tell_passes(rate: Any, passes: int | None) -> None:
    """Lets a warm-up that does not know it count updates of so many passes; other rates stay."""
    if passes and isinstance(rate, WarmupSchedule) and rate.backward_passes_per_step is None:
        rate.backward_passes_per_step = passes
