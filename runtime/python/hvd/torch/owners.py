# SPDX-License-Identifier: Apache-2.0
"""Which optimizer reduces the gradient of a parameter: the one that was made last."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from hvd._core import api
from hvd.errors import BackwardPassError
from hvd.torch.backward import on_gradient


class Owner(Protocol):
    """What reduces the gradients of some parameters."""

    name: str
    parameters: list[torch.nn.Parameter]

    def give_way(self, newer: Owner) -> None:
        """`newer` reduces gradients of the same parameters from now on."""


# The parameter and its newest owner, by the id of the parameter.
_owners: dict[int, tuple[weakref.ref[torch.Tensor], weakref.ref[Any]]] = {}


def take_over(owner: Owner) -> None:
    """Tells those who had a parameter of this owner before, and still live."""
    for parameter in owner.parameters:
        found = _owners.get(id(parameter))
        before = found[1]() if found is not None and found[0]() is parameter else None
        if before is not None and before is not owner:
            before.give_way(owner)
        _owners[id(parameter)] = weakref.ref(parameter), weakref.ref(owner)


def leave(owner: Owner) -> None:
    """The owner ends."""
    for parameter in owner.parameters:
        found = _owners.get(id(parameter))
        if found is not None and found[1]() in (None, owner):
            del _owners[id(parameter)]


def refusing_hooks(older: Owner, newer: Owner) -> Sequence[tuple[Any, Any]]:
    """Hooks that fail a backward pass while the older owner lives, as ``on_gradient()`` has them."""
    lives = weakref.ref(older)
    text = (
        f"{newer.name} and {older.name} train the same parameters, and each would reduce their "
        "gradients: del the one that you no longer need, or make one optimizer of both"
    )

    def refuse(parameter: torch.Tensor) -> None:
        gc.collect()  # what only a circle of references keeps is not in use
        if lives() is not None:
            raise BackwardPassError(f"rank {api.rank()}: {text}")

    hook: Callable[[torch.Tensor], None] = refuse
    return [on_gradient(parameter, hook) for parameter in older.parameters]
