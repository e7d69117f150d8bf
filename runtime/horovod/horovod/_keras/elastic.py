# SPDX-License-Identifier: Apache-2.0
"""The halves of Horovod's callbacks for elastic training; here each is a whole one. `backend` is not used."""

from __future__ import annotations

from typing import Any

from hvd.keras import elastic as _ours

__all__ = [
    "CommitStateCallbackImpl",
    "UpdateBatchStateCallbackImpl",
    "UpdateEpochStateCallbackImpl",
]


class CommitStateCallbackImpl(_ours.CommitStateCallback):
    """``CommitStateCallback`` with an argument before its own."""

    def __init__(self, backend: Any, state: Any, batches_per_commit: int, *args: Any) -> None:
        super().__init__(state, batches_per_commit)


class UpdateBatchStateCallbackImpl(_ours.UpdateBatchStateCallback):
    """``UpdateBatchStateCallback`` with an argument before its own."""

    def __init__(self, backend: Any, state: Any, *args: Any) -> None:
        super().__init__(state)


class UpdateEpochStateCallbackImpl(_ours.UpdateEpochStateCallback):
    """``UpdateEpochStateCallback`` with an argument before its own."""

    def __init__(self, backend: Any, state: Any, *args: Any) -> None:
        super().__init__(state)
