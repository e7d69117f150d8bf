# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 (the check comes first)
"""Data-parallel training with TensorFlow 2.

Five lines make a script distributed::

    import hvd.tensorflow as hvd
    hvd.init()
    with tf.GradientTape() as tape:
        loss = loss_of(model(images), labels)
    tape = hvd.DistributedGradientTape(tape)
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    hvd.broadcast_variables(variables, root_rank=0)  # after the first step
"""

from typing import TYPE_CHECKING

from hvd._core.frameworks import check_framework

check_framework("hvd.tensorflow", "tensorflow")

from hvd._core.api import (
    Statistics,
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
from hvd._core.work import Adasum, Average, BitAnd, BitOr, BitXor, Max, Min, Product, Sum
from hvd.errors import (
    AbortedError,
    CheckpointError,
    DeadlineError,
    HostsUpdatedInterrupt,
    HvdError,
    InternalError,
    InvalidArgumentError,
    MismatchError,
    NotInitializedError,
    OperatingSystemError,
    PeerLostError,
    RankFailedError,
    ReplicasDifferError,
    UnsupportedError,
)
from hvd.process_sets import (
    ProcessSet,
    add_process_set,
    barrier,
    global_process_set,
    init,
    process_set_ids,
    process_set_ranks,
    remove_process_set,
)
from hvd.tensorflow.broadcasts import broadcast_, broadcast_global_variables, broadcast_variables
from hvd.tensorflow.compression import Compression
from hvd.tensorflow.gradient_accumulator import GradientAccumulator
from hvd.tensorflow.hooks import BroadcastGlobalVariablesHook, CheckReplicasHook
from hvd.tensorflow.objects import allgather_object, broadcast_object, broadcast_object_fn
from hvd.tensorflow.ops.allgather import allgather, grouped_allgather
from hvd.tensorflow.ops.allreduce import allreduce, grouped_allreduce
from hvd.tensorflow.ops.alltoall import alltoall
from hvd.tensorflow.ops.broadcast import broadcast
from hvd.tensorflow.ops.gather import gather
from hvd.tensorflow.ops.reduce import reduce
from hvd.tensorflow.ops.reducescatter import grouped_reducescatter, reducescatter
from hvd.tensorflow.ops.scatter import scatter
from hvd.tensorflow.optimizer import DistributedOptimizer
from hvd.tensorflow.own_gpu import use_own_gpu
from hvd.tensorflow.queries import (
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)
from hvd.tensorflow.replicas import check_replicas
from hvd.tensorflow.sync_batch_norm import SyncBatchNormalization
from hvd.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape
from hvd.version import __version__

if TYPE_CHECKING:
    from hvd.stopping import should_stop, time_left

__all__ = [
    "AbortedError",
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "BroadcastGlobalVariablesHook",
    "CheckReplicasHook",
    "CheckpointError",
    "Compression",
    "DeadlineError",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "GradientAccumulator",
    "HostsUpdatedInterrupt",
    "HvdError",
    "InternalError",
    "InvalidArgumentError",
    "Max",
    "Min",
    "MismatchError",
    "NotInitializedError",
    "OperatingSystemError",
    "PartialDistributedGradientTape",
    "PeerLostError",
    "ProcessSet",
    "Product",
    "RankFailedError",
    "ReplicasDifferError",
    "Statistics",
    "Sum",
    "SyncBatchNormalization",
    "UnsupportedError",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "build_info",
    "check_replicas",
    "cross_rank",
    "cross_size",
    "describe",
    "gather",
    "global_process_set",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "init",
    "is_initialized",
    "join",
    "learning_rate",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "process_set_ids",
    "process_set_included_op",
    "process_set_ranks",
    "rank",
    "rank_op",
    "reduce",
    "reducescatter",
    "remove_process_set",
    "scatter",
    "should_stop",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "statistics",
    "stop_timeline",
    "time_left",
    "use_own_gpu",
]

_LATER = {"AdaSum": "hvd._core.work", "should_stop": "hvd.stopping", "time_left": "hvd.stopping"}
__getattr__, __dir__ = late_attributes(__name__, _LATER, ("elastic",))
