# SPDX-License-Identifier: Apache-2.0
"""The callbacks of ``hvd.keras.callbacks``."""

from hvd.keras.callbacks import *  # noqa: F403 (all of its names)
from hvd.keras.callbacks import __all__ as __all__
