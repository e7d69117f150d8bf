# SPDX-License-Identifier: Apache-2.0
"""What Horovod's two packages of Keras share, for scripts that import it; `keras` and `backend` are not used."""

from __future__ import annotations

from typing import Any

from horovod.common.util import check_extension

check_extension("horovod.keras", "HOROVOD_WITH_TENSORFLOW", __file__, "mpi_lib")

import hvd.keras as _ours  # noqa: E402 (the check comes first, as in every binding)
from horovod.common.process_sets import ProcessSet, global_process_set  # noqa: E402

__all__ = [
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "create_distributed_optimizer",
    "load_model",
    "reducescatter",
]


def create_distributed_optimizer(
    keras: Any,
    optimizer: Any,
    name: str | None,
    device_dense: str,
    device_sparse: str,
    compression: Any,
    sparse_as_dense: bool,
    gradient_predivide_factor: float,
    op: int,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """As ``hvd.keras.DistributedOptimizer``.

    >>> import keras
    >>> sgd = keras.optimizers.SGD(0.1)
    >>> create_distributed_optimizer(keras, sgd, None, "", "", None, False, 1.0, 0) is sgd
    True
    """
    return _ours.DistributedOptimizer(
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        groups=groups,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def broadcast_global_variables(backend: Any, root_rank: int) -> Any:
    """As ``hvd.keras.broadcast_global_variables``."""
    return _ours.broadcast_global_variables(root_rank)


def allreduce(
    backend: Any,
    value: Any,
    name: str | None,
    average: bool | None,
    prescale_factor: float,
    postscale_factor: float,
    op: int | None,
    compression: Any,
) -> Any:
    """As ``hvd.keras.allreduce``."""
    return _ours.allreduce(value, name, average, prescale_factor, postscale_factor, op, compression)


def allgather(backend: Any, value: Any, name: str | None) -> Any:
    """As ``hvd.keras.allgather``."""
    return _ours.allgather(value, name)


def broadcast(backend: Any, value: Any, root_rank: int, name: str | None) -> Any:
    """As ``hvd.keras.broadcast``."""
    return _ours.broadcast(value, root_rank, name)


def reducescatter(backend: Any, value: Any, name: str | None, op: int) -> Any:
    """As ``hvd.keras.reducescatter``."""
    return _ours.reducescatter(value, name, op)


def load_model(
    keras: Any,
    wrap_optimizer: Any,
    filepath: Any,
    custom_optimizers: Any,
    custom_objects: Any,
    legacy_opts: bool = False,
) -> Any:
    """As ``hvd.keras.load_model``, which wraps the optimizer itself."""
    return _ours.load_model(filepath, custom_optimizers, custom_objects, legacy_opts=legacy_opts)
