# SPDX-License-Identifier: Apache-2.0
"""Communication hooks of DistributedDataParallel."""

from typing import Any

import torch
import torch.distributed as dist


# DDP looks at these types, which must therefore be no strings.
def average_hook(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages a bucket in one pass; without it DDP divides the gradients in a pass of its own.

    ``model.register_comm_hook(None, hvd.torch.distributed.average_hook)``

    Parameters
    ----------
    group
        A process group; None: all ranks.
    bucket
        What DDP gives: a ``torch.distributed.GradBucket``.
    """
    work = dist.all_reduce(bucket.buffer(), dist.ReduceOp.AVG, group, async_op=True)
    return work.get_future().then(_first)


def _first(future: torch.futures.Future) -> torch.Tensor:
    return future.value()[0]
