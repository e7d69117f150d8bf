# SPDX-License-Identifier: Apache-2.0
"""The halves of Horovod's callbacks; here each is a whole one. `backend` is not used."""

from __future__ import annotations

from typing import Any

from hvd.keras import callbacks as _ours

__all__ = [
    "BroadcastGlobalVariablesCallbackImpl",
    "LearningRateScheduleCallbackImpl",
    "LearningRateWarmupCallbackImpl",
    "MetricAverageCallbackImpl",
]


class BroadcastGlobalVariablesCallbackImpl(_ours.BroadcastGlobalVariablesCallback):
    """``BroadcastGlobalVariablesCallback`` with an argument before its own."""

    def __init__(self, backend: Any, root_rank: int, device: str = "", *args: Any) -> None:
        super().__init__(root_rank, device, *args)


class MetricAverageCallbackImpl(_ours.MetricAverageCallback):
    """``MetricAverageCallback`` with an argument before its own."""

    def __init__(self, backend: Any, device: str = "", *args: Any) -> None:
        super().__init__(device)


class LearningRateScheduleCallbackImpl(_ours.LearningRateScheduleCallback):
    """``LearningRateScheduleCallback`` with an argument before its own."""

    def __init__(self, backend: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class LearningRateWarmupCallbackImpl(_ours.LearningRateWarmupCallback):
    """``LearningRateWarmupCallback`` with an argument before its own."""

    def __init__(self, backend: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
