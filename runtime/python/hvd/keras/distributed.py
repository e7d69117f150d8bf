# SPDX-License-Identifier: Apache-2.0
"""What makes an optimizer of Keras distributed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvd.keras import files, generations
from hvd.keras.reducer import GradientReducer

# The class that an optimizer of each class gets: one, so that two of a class stay of one class.
_classes: dict[type, type] = {}


class Distributed:
    """Stands before the class of an optimizer, and gives it the gradients of all ranks.

    Where in an update that happens is for the Keras that the optimizer is of: ``generations``.
    """

    _hvd: GradientReducer
    # The number of each among all variables of the optimizer: equal on all ranks.
    _hvd_places: Callable[[Sequence[Any]], list[int]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An optimizer that is made by this class, as by ``type(optimizer)(0.1)``: a plain one."""
        return _given_of(cls)(*args, **kwargs)

    @classmethod
    def from_config(cls, *args: Any, **kwargs: Any) -> Any:
        """A plain optimizer from what ``get_config()`` returned."""
        return _given_of(cls).from_config(*args, **kwargs)

    def _hvd_reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        return self._hvd.reduce(gradients, variables, self._hvd_places(variables))

    def save_assets(self, inner_path: str) -> None:
        """Puts beside the model, in a folder of its file, what ``hvd.keras.load_model()`` needs."""
        given = getattr(super(), "save_assets", None)
        if given is not None:
            given(inner_path)
        files.write(inner_path, self._hvd.arguments(generations.of(self).trained(self)))

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays on its rank."""
        self._hvd.keep_local(var)


def is_distributed(optimizer: Any) -> bool:
    """True for an optimizer of ours."""
    return isinstance(optimizer, Distributed)


def inner_of(optimizer: Any) -> Any:
    """The optimizer that one of mixed precision has inside; None of another."""
    return getattr(optimizer, "inner_optimizer", None)


def reaches_ranks(optimizer: Any) -> bool:
    """True for an optimizer of ours, and for one that Keras has put around it."""
    return is_distributed(optimizer) or is_distributed(inner_of(optimizer))


def make_distributed(optimizer: Any, reducer: GradientReducer) -> None:
    """Gives an optimizer the class that it needs; its state stays as it is."""
    # Past the tracking of attributes: neither is a variable to save.
    optimizer.__dict__["_hvd"] = reducer
    object.__setattr__(optimizer, "__class__", _class_for(type(optimizer), optimizer))


def _given_of(kind: type) -> Any:
    """The class that an optimizer had before it was distributed."""
    order = kind.__mro__
    return order[order.index(Distributed) + 1]


def _class_for(given: type, optimizer: Any) -> type:
    kind = _classes.get(given)
    if kind is None:
        generation = generations.of(optimizer)
        attributes = {
            "__module__": given.__module__,
            "__qualname__": given.__qualname__,
            "__doc__": given.__doc__,
        }
        kind = type(given.__name__, (generation.Distributed, given), attributes)
        _classes[given] = kind
        generation.store_as(kind, given)
    return kind
