# SPDX-License-Identifier: Apache-2.0
"""Elastic training as ``hvd.keras.elastic`` has it."""

from hvd.keras.elastic import *  # noqa: F403 (all of its names)
from hvd.keras.elastic import __all__ as __all__
