# SPDX-License-Identifier: Apache-2.0
"""Horovod's interface for Keras.

import horovod.keras as hvd
hvd.init()
model.compile(optimizer=hvd.DistributedOptimizer(optimizer), loss=loss)
model.fit(data, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
"""

from __future__ import annotations

import sys
from typing import Any

from horovod.common.util import check_extension

check_extension("horovod.keras", "HOROVOD_WITH_TENSORFLOW", __file__, "mpi_lib")

import hvd.keras as _ours  # noqa: E402 (the check comes first, as in every binding)
from horovod import _dropped, _job  # noqa: E402
from horovod._job import *  # noqa: E402, F403 (the same names)
from horovod.keras import callbacks, elastic  # noqa: E402
from hvd.keras import (  # noqa: E402
    Compression,
    DistributedOptimizer,
    PartialDistributedOptimizer,
    allgather,
    broadcast,
    broadcast_global_variables,
    load_model,
    reducescatter,
)

_dropped.adapt()
__getattr__ = _dropped.late_names(sys.modules[__name__])

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "PartialDistributedOptimizer",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "elastic",
    "load_model",
    "reducescatter",
]
__all__ += _job.__all__


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = True,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = Compression.none,
) -> Any:
    """As ``hvd.keras.allreduce``; `op` may be given without ``average=None``.

    >>> allreduce([1.0, 3.0], op=Average).tolist()  # on any number of ranks
    [1.0, 3.0]
    """
    if op is not None and average is True:  # the default, which Horovod refuses beside `op`
        average = None
    return _ours.allreduce(value, name, average, prescale_factor, postscale_factor, op, compression)
