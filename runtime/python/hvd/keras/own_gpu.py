# SPDX-License-Identifier: Apache-2.0
"""A GPU of its own for each rank, whatever Keras computes with."""

from __future__ import annotations

from hvd.keras import backends


def use_own_gpu() -> None:
    """Lets Keras compute on the GPU of this rank alone, and take its memory as it needs it.

    Call it after ``init()`` and before the first tensor or model. Without a GPU it does nothing.

    Raises
    ------
    InvalidArgumentError
        TensorFlow has begun to use its devices; or a node has fewer GPUs than ranks.
    UnsupportedError
        Keras computes with neither TensorFlow nor PyTorch.

    >>> use_own_gpu()
    """
    backends.chosen().use_own_gpu()
