# SPDX-License-Identifier: Apache-2.0
"""Callbacks of ``fit``, where Horovod has them."""

from __future__ import annotations

from hvd.keras import callbacks as _ours
from hvd.keras.callbacks import (
    BroadcastGlobalVariablesCallback,
    LearningRateScheduleCallback,
    LearningRateWarmupCallback,
    MetricAverageCallback,
)

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BestModelCheckpoint(_ours.BestModelCheckpoint):
    """As ``hvd.keras.callbacks.BestModelCheckpoint``, with the arguments that Horovod has here.

    >>> checkpoint = BestModelCheckpoint("loss", 0, "min")
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        mode: str = "auto",
        save_freq: str | int = "epoch",
        save_weights_only: bool = False,
    ) -> None:
        super().__init__(monitor, verbose, save_weights_only, mode, save_freq)
