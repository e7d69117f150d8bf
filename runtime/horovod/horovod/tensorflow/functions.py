# SPDX-License-Identifier: Apache-2.0
"""Making all ranks equal, where Horovod has it."""

from hvd.tensorflow import (
    allgather_object,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)

__all__ = [
    "allgather_object",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
]
