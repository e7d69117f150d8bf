# SPDX-License-Identifier: Apache-2.0
"""Horovod's interface for Keras, where scripts have it from TensorFlow.

import horovod.tensorflow.keras as hvd
hvd.init()
model.compile(optimizer=hvd.DistributedOptimizer(optimizer), loss=loss)
model.fit(data, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
"""

import sys

from horovod.common.util import check_extension

check_extension("horovod.keras", "HOROVOD_WITH_TENSORFLOW", __file__, "mpi_lib")

from horovod import _dropped, _job  # noqa: E402 (the check comes first, as in every binding)
from horovod._job import *  # noqa: E402, F403 (the same names)
from horovod.tensorflow.keras import callbacks, elastic  # noqa: E402
from hvd.tensorflow.keras import (  # noqa: E402
    Compression,
    DistributedOptimizer,
    PartialDistributedOptimizer,
    allgather,
    allreduce,
    broadcast,
    broadcast_global_variables,
    load_model,
    reducescatter,
)

_dropped.adapt_tensorflow_keras()
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
