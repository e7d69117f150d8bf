# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over all ranks, where Horovod has it."""

from hvd.tensorflow import SyncBatchNormalization

__all__ = ["SyncBatchNormalization"]
