# SPDX-License-Identifier: Apache-2.0
"""The distributed optimizer, where Horovod has it."""

from hvd.torch import DistributedOptimizer

__all__ = ["DistributedOptimizer"]
