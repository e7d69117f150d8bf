# SPDX-License-Identifier: Apache-2.0
"""Gradients that an optimizer with ``gradient_accumulation_steps`` has added up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hvd import objects
from hvd.keras import generations
from hvd.keras.distributed import inner_of


def to_make_equal(variables: Sequence[Any], optimizers: Iterable[Any]) -> list[Any]:
    """The variables that all ranks shall have alike; all ranks ask at once.

    What a rank has added up is its own, and a part of the next update. Only where ranks are at
    different steps it is not what that update lacks.
    """
    steps, sums = _accumulated(optimizers)
    if any(others != steps for others in objects.allgather_object(steps, "keras.steps")):
        return list(variables)
    own = {id(variable) for variable in sums}
    return [variable for variable in variables if id(variable) not in own]


def _accumulated(optimizers: Iterable[Any]) -> tuple[list[int], list[Any]]:
    """The steps of the optimizers that update once in several, and the variables that add up."""
    steps: list[int] = []
    sums: list[Any] = []
    for optimizer in optimizers:
        adding = inner_of(optimizer) or optimizer
        for part in getattr(adding, "optimizers", [adding]):
            found = generations.of(part).sums(part)
            if found is not None:
                steps.append(found[0])
                sums.extend(found[1])
    return steps, sums
