# SPDX-License-Identifier: Apache-2.0
"""What Keras computes with: one module for each, with the same functions.

VARIABLES
    The classes that it has for variables.
Compression
    The choices for the argument `compression`.
reduce_gradients(gradients, settings, variables, names)
    The gradients of all ranks; None stays None.
guard(settings, named)
    What compares over ranks the variables that a function gives with their names; its ``after()``
    passes the gradients of an update on.
scaled(gradient, factor)
    A gradient times a number.
all_true(flag, name, process_set)
    True where the flag is true on every rank.
broadcast(variables, root_rank, process_set)
    Gives variables of Keras the values of one rank.
broadcast_global_variables(root_rank)
    The same of all variables that there are, where a framework keeps a list of them.
use_own_gpu()
    The GPU of this rank is the one that it computes on; without any it does nothing.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from hvd.errors import UnsupportedError
from hvd.keras import generations

_NAMES = ("tensorflow", "torch")


def chosen(given: Any = None) -> ModuleType:
    """The module of this folder for what Keras computes with; no other is imported.

    Parameters
    ----------
    given
        An object of the Keras that is meant; that of the callbacks unless given.

    Raises
    ------
    UnsupportedError
        Keras computes with something else.
    """
    generation = generations.default() if given is None else generations.of(given)
    name = generation.backend()
    if name not in _NAMES:
        raise UnsupportedError(
            f"hvd.keras: Keras computes with {name} here: set the environment variable "
            "KERAS_BACKEND to tensorflow or torch before Keras is imported"
        )
    return importlib.import_module(f"hvd.keras.backends.{name}")
