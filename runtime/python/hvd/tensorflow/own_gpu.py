# SPDX-License-Identifier: Apache-2.0
"""A GPU of its own for each rank."""

from __future__ import annotations

import tensorflow as tf

from hvd._core.local_device import local_device
from hvd._core.refusals import refused


def use_own_gpu() -> None:
    """Lets TensorFlow see the GPU of this rank alone, and take its memory as it needs it.

    Call it after ``init()`` and before the first tensor or model. Without a GPU it does nothing.

    Raises
    ------
    InvalidArgumentError
        TensorFlow has begun to use its devices; or a node has fewer GPUs than ranks.

    >>> use_own_gpu()
    """
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return
    mine = gpus[local_device(len(gpus))]
    if tf.config.get_visible_devices("GPU") == [mine] and _grows(mine):
        return
    try:
        tf.config.set_visible_devices(mine, "GPU")
        tf.config.experimental.set_memory_growth(mine, True)
    except RuntimeError as error:
        raise refused(
            f"use_own_gpu: TensorFlow uses its devices already ({error}): call it right after "
            "hvd.init(), before the first tensor or model"
        ) from error


def _grows(gpu: tf.config.PhysicalDevice) -> bool:
    return bool(tf.config.experimental.get_memory_growth(gpu))
