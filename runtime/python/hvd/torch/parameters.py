# SPDX-License-Identifier: Apache-2.0
"""What an optimizer trains: the names of its parameters, and the groups that leave together."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Union

import torch

Named = list[tuple[str, torch.nn.Parameter]]
Groups = Union[int, Sequence[Sequence[torch.Tensor]], None]


def checked_names(
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None,
) -> dict[int, str] | None:
    """The names that the caller gives, by the id of the parameter."""
    if named_parameters is None:
        return None
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced "
            "by model.named_parameters()."
        )
    counts = Counter(name for name, _ in pairs)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    if repeated:
        raise ValueError(f"Parameter names in named_parameters must be unique: {repeated}")
    return {id(parameter): name for name, parameter in pairs}


def trained(optimizer: torch.optim.Optimizer, names: dict[int, str] | None) -> Named:
    """Name and parameter of all that the optimizer has, in its order, each once."""
    # An optimizer of float32 copies says which parameters of the model they stand for.
    groups = getattr(optimizer, "_hvd_model_groups", None)
    if groups is None:
        groups = [group["params"] for group in optimizer.param_groups]
    places = {
        id(parameter): (f"{number}.{place}", parameter)
        for number, group in enumerate(groups)
        for place, parameter in enumerate(group)
    }
    if names is None:
        return list(places.values())
    unnamed = [
        place
        for key, (place, parameter) in places.items()
        if key not in names and parameter.requires_grad
    ]
    if unnamed:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named: "
            f"{len(unnamed)} of {len(places)} (group.place: {', '.join(unnamed[:5])})"
        )
    return [(names.get(key, place), parameter) for key, (place, parameter) in places.items()]


def chosen_groups(num_groups: int, groups: Groups) -> Groups:
    """What the arguments `num_groups`, of old scripts, and `groups` say."""
    if num_groups != 0:
        warnings.warn(
            "num_groups is now called groups: DistributedOptimizer(groups=...)",
            DeprecationWarning,
            stacklevel=3,
        )
        groups = num_groups if groups is None else groups
    if groups is None or (isinstance(groups, int) and groups >= 0):
        return groups
    if not isinstance(groups, (list, tuple)):
        raise ValueError(
            "groups should be a non-negative integer or a list of list of torch.Tensor: it is "
            f"{groups!r}"
        )
    seen: set[int] = set()
    for group in groups:
        if not isinstance(group, (list, tuple)) or not all(
            isinstance(member, torch.Tensor) for member in group
        ):
            raise ValueError("groups must consist of lists of torch.Tensor, the parameters")
        for member in group:
            if id(member) in seen:
                raise ValueError("A parameter can only appear once in groups.")
            seen.add(id(member))
    return groups


def grouped_indices(groups: Groups, parameters: Sequence[Any]) -> list[list[int]]:
    """The groups of two and more, as indices into `parameters`.

    >>> grouped_indices(2, ["a", "b", "c", "d", "e"])
    [[0, 1, 2], [3, 4]]
    """
    if not groups:
        return []
    if isinstance(groups, int):
        count = min(groups, len(parameters))
        parts: list[list[int]] = []
        begin = 0
        for number in range(count):
            end = begin + len(parameters) // count + (number < len(parameters) % count)
            parts.append(list(range(begin, end)))
            begin = end
    else:
        places = {id(parameter): index for index, parameter in enumerate(parameters)}
        parts = [[places[id(p)] for p in group if id(p) in places] for group in groups]
    return [part for part in parts if len(part) > 1]
