# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: all ranks skip a step, and scale the loss, alike."""

from __future__ import annotations

import functools
from typing import Any

import keras

from hvd.keras.distributed import is_distributed


def agree_on_finite() -> None:
    """Makes a ``LossScaleOptimizer`` with one of ours ask all ranks whether gradients are finite.

    Keras wraps the optimizer of a mixed_float16 model itself, outside of ours, and looks at the
    gradients of one rank: it would leave the others waiting for those of the rank that skips.
    """
    given = keras.optimizers.LossScaleOptimizer.check_finite
    if hasattr(given, "_hvd_given"):
        return

    @functools.wraps(given)
    def check_finite(self: Any, grads: Any) -> Any:
        finite = given(self, grads)
        inner = self.inner_optimizer
        if is_distributed(inner):
            return inner._hvd.all_true(finite)
        if is_distributed(self) and self._hvd.has_local:
            return self._hvd.all_true(finite)
        return finite  # of reduced gradients: the same on all ranks

    check_finite._hvd_given = given  # type: ignore[attr-defined]
    keras.optimizers.LossScaleOptimizer.check_finite = check_finite
