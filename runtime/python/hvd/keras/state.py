# SPDX-License-Identifier: Apache-2.0
"""The state of a Keras training: a model, its optimizer and plain objects."""

from __future__ import annotations

from typing import Any

from hvd._core.refusals import refused
from hvd.elastic import ObjectState
from hvd.keras import backends, generations
from hvd.keras.accumulation import to_make_equal
from hvd.process_sets import global_process_set


class KerasState(ObjectState):
    """A Keras model and its optimizer that survive a reset, and plain objects as well.

    Weights, slots, iterations and the learning rate of the optimizer are those of rank 0 after
    ``sync()``. The seeds of dropout are saved and restored, and stay different between ranks; so do
    the gradients that an optimizer with ``gradient_accumulation_steps`` has added up, where all ranks
    are at the same step.

    Parameters
    ----------
    model
        With variables: call it on a batch, or ``model.build(shape)``, before.
    optimizer
        That of ``model.compile`` unless given; it is built if it is not yet.
    **kwargs
        Name and first value of each attribute; they are saved by deepcopy.

    Raises
    ------
    InvalidArgumentError
        The model has no variables yet.

    >>> import keras
    >>> model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    >>> state = KerasState(model, keras.optimizers.SGD(), epoch=2)
    >>> _ = model.layers[0].bias.assign([1.0])
    >>> state.restore()
    >>> float(model.layers[0].bias.numpy()[0])
    0.0
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        self.model = model
        self.optimizer = optimizer
        super().__init__(None, None, **kwargs)

    def sync(self) -> None:
        groups = self._of_optimizers()
        shared = to_make_equal(_distinct([self.model.weights, *groups]), self._optimizers())
        backends.chosen(self.model).broadcast(shared, 0, global_process_set)
        super().sync()

    def _copies(self, old: dict[str, Any] | None) -> dict[str, Any]:
        # Arrays that are read are new ones; written to again they could change what was assigned.
        return {"variables": self._read(), **super()._copies(old)}

    def _bring_back_shared(self, parts: dict[str, Any]) -> None:
        for variable, value in parts["variables"]:
            variable.assign(value)
        super()._bring_back_shared(parts)

    def _read(self) -> list[tuple[Any, Any]]:
        """All variables, and what they are now."""
        found = _distinct([self.model.variables, *self._of_optimizers()])
        return [(variable, variable.numpy()) for variable in found]

    def _of_optimizers(self) -> list[list[Any]]:
        if not self.model.weights:
            raise refused(
                f"{type(self).__name__}: model {self.model.name!r} has no variables yet: call it "
                "on a batch, or model.build(shape), before"
            )
        found = self._optimizers()
        for optimizer in found:
            generations.of(optimizer).build(optimizer, self.model.trainable_variables)
        return [generations.of(optimizer).variables(optimizer) for optimizer in found]

    def _optimizers(self) -> list[Any]:
        # compile() may have put another one around the one that is given.
        given = (getattr(self.model, "optimizer", None), self.optimizer)
        return [one for one in given if one is not None]


def _distinct(groups: list[list[Any]]) -> list[Any]:
    return list({id(variable): variable for group in groups for variable in group}.values())
