# SPDX-License-Identifier: Apache-2.0
"""XLA: it cannot compile a step that waits for other ranks."""

from __future__ import annotations

import functools
from typing import Any

from hvd.keras.distributed import reaches_ranks


def switch_off_jit() -> None:
    """Makes ``Model.compile(jit_compile=...)``, "auto" and True, False with an optimizer of ours.

    Under mixed precision Keras has put its own around ours by then. Keras warns when it was True, as
    of a layer that does not support it.
    """
    from keras.src.trainers import trainer

    given = trainer.model_supports_jit
    if hasattr(given, "_hvd_given"):
        return

    @functools.wraps(given)
    def model_supports_jit(model: Any) -> bool:
        return not reaches_ranks(getattr(model, "optimizer", None)) and given(model)

    model_supports_jit._hvd_given = given  # type: ignore[attr-defined]
    trainer.model_supports_jit = model_supports_jit
