# SPDX-License-Identifier: Apache-2.0
"""Operations on tensors, and the job, where Horovod has them; those of ``hvd.tensorflow`` themselves."""

from __future__ import annotations

import sys

from horovod import _job
from horovod._job import *  # noqa: F403 (the same names)
from horovod.common.exceptions import HorovodInternalError
from horovod.common.util import get_average_backwards_compatibility_fun
from hvd.tensorflow import (
    allgather,
    alltoall,
    broadcast,
    broadcast_,
    grouped_allgather,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)

__all__ = [
    "HorovodInternalError",
    "allgather",
    "alltoall",
    "broadcast",
    "broadcast_",
    "check_num_rank_power_of_2",
    "grouped_allgather",
    "handle_average_backwards_compatibility",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank_op",
    "size_op",
]
__all__ += _job.__all__

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(
    sys.modules[__name__]
)


def check_num_rank_power_of_2(num_rank: int) -> None:
    """Does nothing: Adasum takes any number of ranks here.

    >>> check_num_rank_power_of_2(3)
    """
