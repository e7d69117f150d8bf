# SPDX-License-Identifier: Apache-2.0
"""Horovod's interface for TensorFlow.

import horovod.tensorflow as hvd
hvd.init()
tape = hvd.DistributedGradientTape(tape)
hvd.broadcast_variables(model.variables, root_rank=0)
"""

import sys

from horovod.common.util import check_extension, gpu_available, split_list

check_extension("horovod.tensorflow", "HOROVOD_WITH_TENSORFLOW", __file__, "mpi_lib")

from horovod import _dropped  # noqa: E402 (the check comes first, as in every binding)
from horovod.tensorflow import elastic, mpi_ops  # noqa: E402
from horovod.tensorflow.compression import Compression  # noqa: E402
from horovod.tensorflow.functions import (  # noqa: E402
    allgather_object,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper  # noqa: E402
from horovod.tensorflow.mpi_ops import *  # noqa: E402, F403 (the same names)
from horovod.tensorflow.sync_batch_norm import SyncBatchNormalization  # noqa: E402
from horovod.tensorflow.util import refs_to_vars, vars_to_refs  # noqa: E402
from hvd.tensorflow import (  # noqa: E402
    BroadcastGlobalVariablesHook,
    DistributedGradientTape,
    DistributedOptimizer,
    PartialDistributedGradientTape,
    allreduce,
    broadcast_global_variables,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)

_dropped.adapt_tensorflow_keras()
__getattr__ = _dropped.late_names(sys.modules[__name__])

__all__ = [
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "LocalGradientAggregationHelper",
    "PartialDistributedGradientTape",
    "SyncBatchNormalization",
    "allgather_object",
    "allreduce",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "check_extension",
    "elastic",
    "gpu_available",
    "grouped_allreduce",
    "grouped_reducescatter",
    "reducescatter",
    "refs_to_vars",
    "split_list",
    "vars_to_refs",
]
__all__ += mpi_ops.__all__
