# SPDX-License-Identifier: Apache-2.0
"""Making all ranks equal, where Horovod has it."""

from __future__ import annotations

from typing import Any

import torch

import hvd.torch
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import allgather_object, broadcast_object, broadcast_parameters

__all__ = [
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
]


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: Any = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Replaces the state of an optimizer by that of rank `root_rank`.

    Parameters
    ----------
    model
        For Horovod's scripts; an optimizer that never stepped needs no model to make a state.

    >>> hvd.torch.init()
    >>> optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)
    >>> broadcast_optimizer_state(optimizer, root_rank=0)
    """
    hvd.torch.broadcast_optimizer_state(optimizer, root_rank, model, process_set)
