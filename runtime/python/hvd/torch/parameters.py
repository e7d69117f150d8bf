# SPDX-License-Identifier: Apache-2.0
"""What an optimizer trains: parameters and their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch

from hvd._core.refusals import refused

Named = list[tuple[str, torch.nn.Parameter]]


def checked_names(
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None,
) -> dict[int, str] | None:
    """The names that the caller gives, by the id of the parameter."""
    if named_parameters is None:
        return None
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise refused(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced "
            "by model.named_parameters()."
        )
    counts = Counter(name for name, _ in pairs)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    if repeated:
        raise refused(
            f"Parameter names in named_parameters must be unique: {repeated}; those of "
            "model.named_parameters() are"
        )
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
        raise refused(
            "named_parameters was specified, but one or more model parameters were not named: "
            f"{len(unnamed)} of {len(places)} (group.place: {', '.join(unnamed[:5])}); "
            "name all of them, or none"
        )
    return [(names.get(key, place), parameter) for key, (place, parameter) in places.items()]
