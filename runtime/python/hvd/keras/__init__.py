# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 (the check comes first)
"""Data-parallel training with Keras 3, on TensorFlow or PyTorch, and with Keras 2 (``tf_keras``).

Four lines make a script distributed::

    import hvd.keras as hvd
    hvd.init()
    model.compile(hvd.DistributedOptimizer(optimizer), loss)
    model.fit(data, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
"""

from typing import TYPE_CHECKING, Any

from hvd._core.frameworks import check_framework

check_framework("hvd.keras", "keras")

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
from hvd._core.work import Adasum, Average, Max, Min, Product, Sum
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
from hvd.keras.optimizer import DistributedOptimizer, PartialDistributedOptimizer
from hvd.keras.own_gpu import use_own_gpu
from hvd.keras.saving import load_model
from hvd.keras.values import (
    allgather,
    allreduce,
    broadcast,
    broadcast_global_variables,
    reducescatter,
)
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
from hvd.version import __version__

if TYPE_CHECKING:
    from hvd.objects import allgather_object, broadcast_object
    from hvd.stopping import should_stop, time_left

    Compression: Any

__all__ = [
    "AbortedError",
    "Adasum",
    "Average",
    "CheckpointError",
    "Compression",
    "DeadlineError",
    "DistributedOptimizer",
    "HostsUpdatedInterrupt",
    "HvdError",
    "InternalError",
    "InvalidArgumentError",
    "Max",
    "Min",
    "MismatchError",
    "NotInitializedError",
    "OperatingSystemError",
    "PartialDistributedOptimizer",
    "PeerLostError",
    "ProcessSet",
    "Product",
    "RankFailedError",
    "ReplicasDifferError",
    "Statistics",
    "Sum",
    "UnsupportedError",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "build_info",
    "cross_rank",
    "cross_size",
    "describe",
    "global_process_set",
    "init",
    "is_initialized",
    "join",
    "learning_rate",
    "load_model",
    "local_rank",
    "local_size",
    "process_set_ids",
    "process_set_ranks",
    "rank",
    "reducescatter",
    "remove_process_set",
    "should_stop",
    "shutdown",
    "size",
    "start_timeline",
    "statistics",
    "stop_timeline",
    "time_left",
    "use_own_gpu",
]

_find, __dir__ = late_attributes(
    __name__,
    {
        "allgather_object": "hvd.objects",
        "broadcast_object": "hvd.objects",
        "should_stop": "hvd.stopping",
        "time_left": "hvd.stopping",
    },
    ("callbacks", "elastic", "schedules"),
)


def __getattr__(name: str) -> Any:
    if name == "Compression":  # of what Keras computes with
        from hvd.keras import backends

        return backends.chosen().Compression
    return _find(name)
