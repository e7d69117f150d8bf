# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 (the check comes first)
"""Data-parallel training with PyTorch.

Five lines make a script distributed::

    import hvd.torch as hvd
    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    sampler = DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
"""

from typing import TYPE_CHECKING

from hvd._core.frameworks import check_framework

check_framework("hvd.torch", "torch")

from hvd._core.api import (
    build_info,
    cross_rank,
    cross_size,
    describe,
    is_initialized,
    learning_rate,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
    start_timeline,
    statistics,
    stop_timeline,
)
from hvd._core.attributes import late_attributes
from hvd._core.handles import poll, synchronize
from hvd._core.work import Adasum, Average, BitAnd, BitOr, BitXor, Max, Min, Product, Sum
from hvd.errors import CheckpointError, HvdError
from hvd.process_sets import (
    ProcessSet,
    add_process_set,
    barrier,
    global_process_set,
    init,
    join,
    process_set_ids,
    process_set_ranks,
    remove_process_set,
)
from hvd.torch.compression import Compression
from hvd.torch.devices import device
from hvd.torch.ops.allgather import (
    allgather,
    allgather_async,
    grouped_allgather,
    grouped_allgather_async,
)
from hvd.torch.ops.allreduce import allreduce, allreduce_, allreduce_async, allreduce_async_
from hvd.torch.ops.alltoall import alltoall, alltoall_async
from hvd.torch.ops.broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from hvd.torch.ops.gather import gather, gather_async
from hvd.torch.ops.grouped_allreduce import (
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from hvd.torch.ops.reduce import reduce, reduce_async
from hvd.torch.ops.reducescatter import (
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from hvd.torch.ops.scatter import scatter, scatter_async
from hvd.torch.ops.sparse import sparse_allreduce, sparse_allreduce_async
from hvd.torch.optimizer import DistributedOptimizer
from hvd.torch.replicas import check_replicas
from hvd.torch.state import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from hvd.torch.sync_batch_norm import SyncBatchNorm

if TYPE_CHECKING:
    from hvd.stopping import should_stop, time_left
    from hvd.torch.checkpoints import Checkpoints
    from hvd.torch.samplers import DistributedSampler
    from hvd.torch.schedules import WarmupSchedule
    from hvd.torch.shards import Shards, Slice

__all__ = [
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "CheckpointError",
    "Checkpoints",
    "Compression",
    "DistributedOptimizer",
    "DistributedSampler",
    "HvdError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Shards",
    "Slice",
    "Sum",
    "SyncBatchNorm",
    "WarmupSchedule",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "build_info",
    "check_replicas",
    "cross_rank",
    "cross_size",
    "describe",
    "device",
    "gather",
    "gather_async",
    "global_process_set",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_initialized",
    "join",
    "learning_rate",
    "local_rank",
    "local_size",
    "poll",
    "process_set_ids",
    "process_set_ranks",
    "rank",
    "reduce",
    "reduce_async",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "scatter",
    "scatter_async",
    "should_stop",
    "shutdown",
    "size",
    "sparse_allreduce",
    "sparse_allreduce_async",
    "start_timeline",
    "statistics",
    "stop_timeline",
    "synchronize",
    "time_left",
]

# What few programs need is imported when it is first asked for.
_LATER = {
    "AdaSum": "hvd._core.work",
    "Checkpoints": "hvd.torch.checkpoints",
    "DistributedSampler": "hvd.torch.samplers",
    "Shards": "hvd.torch.shards",
    "Slice": "hvd.torch.shards",
    "WarmupSchedule": "hvd.torch.schedules",
    "should_stop": "hvd.stopping",
    "time_left": "hvd.stopping",
}
__getattr__, __dir__ = late_attributes(__name__, _LATER, ("elastic", "optim"))
