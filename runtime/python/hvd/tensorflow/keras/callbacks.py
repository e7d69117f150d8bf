# SPDX-License-Identifier: Apache-2.0
"""The callbacks of ``hvd.keras.callbacks``."""

from __future__ import annotations

from hvd.keras import callbacks as _ours
from hvd.keras.callbacks import *  # noqa: F403 (all of its names)
from hvd.keras.callbacks import __all__ as __all__


class BestModelCheckpoint(_ours.BestModelCheckpoint):  # type: ignore[no-redef]
    """As ``hvd.keras.callbacks.BestModelCheckpoint``, with its arguments in the order that Horovod has here.

    >>> BestModelCheckpoint("loss", 0, True, "min").save_weights_only
    True
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
    ) -> None:
        super().__init__(monitor, verbose, mode, save_freq, save_weights_only)
