# SPDX-License-Identifier: Apache-2.0
"""The learning rate of many ranks as a schedule, for Keras on any backend."""

from __future__ import annotations

from typing import Any

import keras

from hvd import api
from hvd.refusals import refused

__all__ = ["WarmupSchedule"]


@keras.saving.register_keras_serializable("hvd")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Multiplies a rate by 1/factor at first and, growing in equal steps, by 1 after the warm-up.

    From Goyal et al. 2017: give it the rate that suits one rank times the number of ranks; the
    training begins with that of one rank. Momentum is not corrected here, where the rate changes
    little from step to step; ``hvd.keras.callbacks.LearningRateWarmupCallback`` does that.

    Parameters
    ----------
    learning_rate
        A number, or another schedule: it sees the same steps.
    warmup_steps
        Steps of the optimizer until the warm-up is over; 0: none.
    factor
        The number of ranks unless given; saved with the model.

    >>> schedule = WarmupSchedule(0.8, warmup_steps=100, factor=8)
    >>> [round(float(schedule(step)), 2) for step in (0, 50, 100, 1000)]
    [0.1, 0.45, 0.8, 0.8]
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        warmup_steps: int,
        factor: float | None = None,
        name: str = "WarmupSchedule",
    ) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps
        self.factor = float(api.size() if factor is None else factor)
        self.name = name
        if warmup_steps < 0 or self.factor <= 0:
            raise refused(
                f"WarmupSchedule: warmup_steps is {warmup_steps}, factor {self.factor}; 0 or more, and "
                "more than 0"
            )

    def __call__(self, step: Any) -> Any:
        """The rate of a step, as a tensor of the backend."""
        rate = self.learning_rate(step) if callable(self.learning_rate) else self.learning_rate
        rate = keras.ops.convert_to_tensor(rate, "float32")
        if self.warmup_steps == 0:
            return rate
        share = keras.ops.minimum(keras.ops.cast(step, "float32") / self.warmup_steps, 1.0)
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
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> WarmupSchedule:
        """The schedule that ``get_config()`` has described."""
        rate = config["learning_rate"]
        if isinstance(rate, dict):
            rate = keras.saving.deserialize_keras_object(rate)
        return cls(**{**config, "learning_rate": rate})
