# SPDX-License-Identifier: Apache-2.0
"""``hvd.keras`` for scripts that have Keras from TensorFlow: the names are those, and Keras must compute with it."""

from __future__ import annotations

from typing import Any

import hvd.keras as _ours
from hvd._core.groups import Groups
from hvd._core.work import Average
from hvd.errors import UnsupportedError
from hvd.keras import *  # noqa: F403 (all of its names)
from hvd.keras import generations as _generations
from hvd.keras.optimizer import Given
from hvd.process_sets import ProcessSet, global_process_set

_generations.check_tensorflow_keras()
if _generations.default().backend() != "tensorflow":
    raise UnsupportedError(
        f"hvd.tensorflow.keras: Keras computes with {_generations.default().backend()} here: import hvd.keras "
        "instead, or set KERAS_BACKEND to tensorflow before Keras is imported"
    )

from hvd.tensorflow.keras import callbacks, elastic  # noqa: E402 (not before the check)

__all__ = [*_ours.__all__, "callbacks", "elastic"]


def DistributedOptimizer(  # type: ignore[no-redef]  # noqa: N802 (the name that users know)
    optimizer: Given,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = None,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Given:
    """As ``hvd.keras.DistributedOptimizer``, with its arguments in the order that Horovod has here.

    Parameters
    ----------
    optimizer, name, device_dense, device_sparse, compression, sparse_as_dense
        As of ``hvd.keras.DistributedOptimizer``.
    gradient_predivide_factor, op, backward_passes_per_step, average_aggregated_gradients
        As of ``hvd.keras.DistributedOptimizer``.
    num_groups, groups, process_set, scale_local_gradients
        As of ``hvd.keras.DistributedOptimizer``.

    >>> import keras
    >>> type(DistributedOptimizer(keras.optimizers.SGD(0.1))).__name__
    'SGD'
    """
    return _ours.DistributedOptimizer(
        optimizer,
        name=name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        num_groups=num_groups,
        groups=groups,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
