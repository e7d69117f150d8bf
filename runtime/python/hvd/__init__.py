# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training over many processes; see ``hvd.torch`` for PyTorch."""

from typing import TYPE_CHECKING

from hvd._core import tracebacks
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
    join,
    process_set_ids,
    process_set_ranks,
    remove_process_set,
)
from hvd.version import __version__

if TYPE_CHECKING:
    from hvd.launch import run
    from hvd.objects import allgather_object, broadcast_object
    from hvd.stopping import should_stop, time_left

__all__ = [
    "AbortedError",
    "CheckpointError",
    "DeadlineError",
    "HostsUpdatedInterrupt",
    "HvdError",
    "InternalError",
    "InvalidArgumentError",
    "MismatchError",
    "NotInitializedError",
    "OperatingSystemError",
    "PeerLostError",
    "ProcessSet",
    "RankFailedError",
    "ReplicasDifferError",
    "Statistics",
    "UnsupportedError",
    "__version__",
    "add_process_set",
    "allgather_object",
    "barrier",
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
    "local_rank",
    "local_size",
    "process_set_ids",
    "process_set_ranks",
    "rank",
    "remove_process_set",
    "run",
    "should_stop",
    "shutdown",
    "size",
    "start_timeline",
    "statistics",
    "stop_timeline",
    "time_left",
]

tracebacks.install()

# What few programs need is imported when it is first asked for.
_LATER = {
    "allgather_object": "hvd.objects",
    "broadcast_object": "hvd.objects",
    "run": "hvd.launch",
    "should_stop": "hvd.stopping",
    "time_left": "hvd.stopping",
}
__getattr__, __dir__ = late_attributes(
    __name__, _LATER, ("checkpoints", "data", "elastic", "metrics", "seeds")
)
