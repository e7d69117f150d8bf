# SPDX-License-Identifier: Apache-2.0
"""What makes an optimizer of Keras distributed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvd.keras import files
from hvd.keras.reducer import GradientReducer
from hvd.keras.registry import store_as

# The class that an optimizer of each class gets: one, so that two of a class stay of one class.
_classes: dict[type, type] = {}


class Distributed:
    """Stands before the class of an optimizer, and gives it the gradients of all ranks.

    They are reduced where ``apply()`` begins: what Keras then does, as clipping, sees those of all
    ranks. With ``gradient_accumulation_steps`` they are reduced where Keras is about to clip the
    sum of many steps, so once for each update.
    """

    _hvd: GradientReducer

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An optimizer that is made by this class, as by ``type(optimizer)(0.1)``: a plain one."""
        return _given_of(cls)(*args, **kwargs)

    @classmethod
    def from_config(cls, *args: Any, **kwargs: Any) -> Any:
        """A plain optimizer from what ``get_config()`` returned."""
        return _given_of(cls).from_config(*args, **kwargs)

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Updates variables with the gradients of all ranks."""
        gradients = list(grads)
        if gradients and not accumulates(self) and not is_distributed(inner_of(self)):
            given = None if trainable_variables is None else list(trainable_variables)
            trainable_variables = given
            gradients = self._hvd_reduce(gradients, given or self._trainable_variables)  # type: ignore[attr-defined]
        return super().apply(gradients, trainable_variables)  # type: ignore[misc]

    def _backend_apply_gradients(self, grads: Any, trainable_variables: Any) -> Any:
        self._hvd.updated = trainable_variables
        return super()._backend_apply_gradients(grads, trainable_variables)  # type: ignore[misc]

    def _clip_gradients(self, grads: Any) -> Any:
        if accumulates(self):
            grads = self._hvd_reduce(grads, self._hvd.updated)
        return super()._clip_gradients(grads)  # type: ignore[misc]

    def _hvd_reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        # An optimizer is built with the variables of the first step, in their order.
        known = getattr(self, "_trainable_variables_indices", {})
        places = [
            known.get(self._var_key(variable), place)  # type: ignore[attr-defined]
            for place, variable in enumerate(variables)
        ]
        return self._hvd.reduce(gradients, variables, places)

    def save_assets(self, inner_path: str) -> None:
        """Puts beside the model, in a folder of its file, what ``hvd.keras.load_model()`` needs."""
        given = getattr(super(), "save_assets", None)
        if given is not None:
            given(inner_path)
        arguments = self._hvd.arguments(self._trainable_variables)  # type: ignore[attr-defined]
        files.write(inner_path, arguments)

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays on its rank."""
        self._hvd.keep_local(var)


def is_distributed(optimizer: Any) -> bool:
    """True for an optimizer of ours."""
    return isinstance(optimizer, Distributed)


def accumulates(optimizer: Any) -> bool:
    """True for one that updates once in several steps."""
    return bool(getattr(optimizer, "gradient_accumulation_steps", None))


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
    object.__setattr__(optimizer, "__class__", _class_for(type(optimizer)))


def _given_of(kind: type) -> Any:
    """The class that an optimizer had before it was distributed."""
    order = kind.__mro__
    return order[order.index(Distributed) + 1]


def _class_for(given: type) -> type:
    kind = _classes.get(given)
    if kind is None:
        attributes = {
            "__module__": given.__module__,
            "__qualname__": given.__qualname__,
            "__doc__": given.__doc__,
        }
        kind = _classes[given] = type(given.__name__, (Distributed, given), attributes)
        store_as(kind, given)
    return kind
