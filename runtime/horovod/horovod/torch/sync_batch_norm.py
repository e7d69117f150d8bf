# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over all ranks, where Horovod has it."""

from hvd.torch import SyncBatchNorm

__all__ = ["SyncBatchNorm"]
