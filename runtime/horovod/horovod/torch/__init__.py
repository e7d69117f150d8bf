# SPDX-License-Identifier: Apache-2.0
"""Horovod's interface for PyTorch.

import horovod.torch as hvd
hvd.init()
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
"""

import sys

from horovod.common.util import check_extension

check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2")

from horovod import _dropped  # noqa: E402 (the check comes first, as in every binding)
from horovod.torch import elastic, mpi_ops  # noqa: E402
from horovod.torch.compression import Compression  # noqa: E402
from horovod.torch.functions import (  # noqa: E402
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from horovod.torch.mpi_ops import *  # noqa: E402, F403 (the same names)
from horovod.torch.optimizer import DistributedOptimizer  # noqa: E402
from horovod.torch.sync_batch_norm import SyncBatchNorm  # noqa: E402

__getattr__ = _dropped.late_names(sys.modules[__name__])

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "SyncBatchNorm",
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "check_extension",
    "elastic",
]
__all__ += mpi_ops.__all__
