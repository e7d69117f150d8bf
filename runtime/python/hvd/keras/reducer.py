# SPDX-License-Identifier: Apache-2.0
"""How one optimizer of Keras reduces its gradients."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from hvd._core import api
from hvd._core.settings import Settings, is_shared
from hvd._core.work import Average
from hvd.keras import backends
from hvd.process_sets import global_process_set

# The names that are taken, each in a process set.
_taken: set[tuple[int, str]] = set()


def plain(variable: Any) -> Any:
    """What the framework has for a variable of Keras."""
    of_keras = getattr(sys.modules.get("keras"), "Variable", ())
    return variable.value if isinstance(variable, of_keras) else variable


def key(variable: Any) -> int:
    """Equal for a variable of Keras and what the framework has for it."""
    return id(plain(variable))


def _new_name(process_set: int, name: str) -> str:
    """The name, with a number appended if it is taken."""
    number, found = 0, name
    while (process_set, found) in _taken:
        number += 1
        found = f"{name}.{number}"
    _taken.add((process_set, found))
    return found


class GradientReducer:
    """What a distributed optimizer knows of the other ranks; one thread at a time.

    Parameters
    ----------
    optimizer
        Whose gradients they are.
    settings
        How gradients are reduced.
    name
        What the names of the operations begin with.
    factor
        What each gradient is multiplied by at the end.
    local_layers
        Layers whose gradients stay on their rank.
    scales_local
        Gradients that stay are divided by the number of ranks, as those are that are averaged.
    """

    def __init__(
        self,
        optimizer: Any,
        settings: Settings,
        name: str | None,
        factor: float = 1.0,
        local_layers: Iterable[Any] = (),
        scales_local: bool = True,
    ) -> None:
        self.settings = settings
        self.backend = backends.chosen(optimizer)
        self.updated: Sequence[Any] = ()  # the variables of the update that Keras does now
        # Those made after a reset have other names than those made before it, which some ranks may
        # not have used, or not even made.
        joins = api.joins()
        self._given_name = name
        self._name = (name or "optimizer") + (f".job{joins}" if joins > 1 else "")
        self._factor = factor
        self._local: dict[int, Any] = {}
        self._local_layers = list(local_layers)
        self._scales_local = scales_local
        self._prefix = ""
        self.guard: Any = None  # compares replicas

    def keep_local(self, variable: Any) -> None:
        """The gradient of this variable stays on its rank."""
        self._local[key(variable)] = variable

    @property
    def has_local(self) -> bool:
        """True when gradients stay on their rank."""
        return bool(self._local or self._local_layers)

    def prefix(self) -> str:
        """What the names of the operations begin with.

        Two optimizers must not share it: where a graph does not order them, ranks might. Equal on
        all ranks that use those made in a job for the first time in the same order. It stays
        through later jobs, for graphs have it inside.
        """
        if not self._prefix:
            self._prefix = _new_name(self.settings.reduction.process_set, self._name)
        return self._prefix

    def arguments(self, variables: Sequence[Any]) -> dict[str, Any]:
        """What another optimizer must be told to reduce alike, as far as a file can keep it.

        Arguments of ``DistributedOptimizer`` that are not the defaults; ``ranks`` of a process set; and
        ``local``, the places of what stays among these variables, -1 where it is not among them.
        """
        reduction, process_set = self.settings.reduction, self.settings.process_set
        places = {key(variable): place for place, variable in enumerate(variables)}
        ranks = None if process_set is global_process_set else process_set.ranks
        # Each with its default.
        found: dict[str, tuple[Any, Any]] = {
            "op": (reduction.op, Average),
            "gradient_predivide_factor": (reduction.predivide, 1.0),
            "backward_passes_per_step": (reduction.passes_per_step, 1),
            "average_aggregated_gradients": (self.settings.averages_passes, False),
            "sparse_as_dense": (self.settings.sparse_as_dense, False),
            "scale_local_gradients": (self._scales_local, True),
            "name": (self._given_name, None),
            "ranks": (ranks, None),
            "local": (sorted(places.get(one, -1) for one in self.staying()), []),
        }
        return {name: value for name, (value, default) in found.items() if value != default}

    def reduce(
        self, gradients: Sequence[Any], variables: Sequence[Any], places: Sequence[int]
    ) -> list[Any]:
        """The gradients to apply.

        Parameters
        ----------
        gradients
            Of this rank; None where a variable has none.
        variables
            Theirs, in the same order.
        places
            The number of each among all variables of the optimizer: its name on all ranks.
        """
        result = list(gradients)
        stay = self.staying()
        travel = [index for index, variable in enumerate(variables) if key(variable) not in stay]
        reduced = self.backend.reduce_gradients(
            [result[index] for index in travel],
            self.settings,
            [variables[index] for index in travel],
            [f"{self.prefix()}.gradient.{places[index]}" for index in travel],
        )
        for index, gradient in zip(travel, reduced):
            result[index] = gradient
        share = self._share() if stay else 1.0
        factors = [self._factor * (share if key(one) in stay else 1.0) for one in variables]
        result = [
            one if one is None or factor == 1.0 else self.backend.scaled(one, factor)
            for one, factor in zip(result, factors)
        ]
        return result if self.guard is None else self.guard.after(result)

    def all_true(self, flag: Any) -> Any:
        """True where the flag, a tensor, is true on every rank."""
        return self.backend.all_true(flag, f"{self.prefix()}.finite", self.settings.process_set)

    def _share(self) -> float:
        """What a gradient that stays is multiplied by; one of a rank that steps by itself is whole."""
        process_set = self.settings.process_set
        return 1 / process_set.size() if self._scales_local and is_shared(process_set) else 1.0

    def staying(self) -> set[int]:
        """The keys of the variables whose gradients stay; layers may have been built since."""
        layers = {key(one) for layer in self._local_layers for one in layer.trainable_variables}
        return layers | self._local.keys()
