# SPDX-License-Identifier: Apache-2.0
"""What of a Keras model and its optimizer must be equal on all ranks."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from hvd.keras import generations
from hvd.keras.distributed import inner_of
from hvd.keras.reducer import GradientReducer, key, plain

_FLOATS = ("float", "bfloat", "complex")


def guard_of(optimizer: Any, reducer: GradientReducer) -> Any:
    """What compares the variables that an optimizer trains, and its own, over ranks."""
    found, of_it = weakref.ref(optimizer), weakref.ref(reducer)

    def named() -> list[tuple[str, Any]]:
        alive, its = found(), of_it()
        return [] if alive is None or its is None else list(compared(alive, its))

    guard = reducer.backend.guard(reducer.settings, named)
    guard.label = reducer.prefix  # that of its gradients
    return guard


def compared(optimizer: Any, reducer: GradientReducer) -> Iterator[tuple[str, Any]]:
    """Variables by names for people: trained ones, without local ones, and the optimizer's floats.

    Gradients that add up for the next update are each rank's own.
    """
    generation = generations.of(optimizer)
    local = reducer.staying()
    trained = generation.trained(optimizer)
    for variable in trained:
        if key(variable) not in local and getattr(variable, "trainable", True):
            yield f"variable '{_name(variable)}'", plain(variable)
    inner = inner_of(optimizer)
    both = [optimizer] if inner is None else [optimizer, inner]
    seen = {key(one) for one in trained}
    for one in both:
        seen.update(key(added) for added in (generation.sums(one) or (0, ()))[1])
    for one in both:
        for slot in generation.variables(one):
            owner = generation.owner(one, slot, trained) if local else None
            is_own = owner is not None and key(owner) in local
            if key(slot) not in seen and not is_own and _is_float(slot):
                yield f"variable '{_name(slot)}' of the optimizer", plain(slot)
            seen.add(key(slot))


def _is_float(variable: Any) -> bool:
    return str(getattr(variable.dtype, "name", variable.dtype)).startswith(_FLOATS)


def _name(variable: Any) -> str:
    return str(getattr(variable, "path", None) or variable.name)


def pause(optimizer: Any, is_paused: bool = True) -> None:
    """Has an optimizer compare nothing until a broadcast has made the ranks equal."""
    for one in (optimizer, inner_of(optimizer)):
        reducer = getattr(one, "_hvd", None)
        if reducer is not None and reducer.guard is not None:
            reducer.guard.pause(is_paused)
