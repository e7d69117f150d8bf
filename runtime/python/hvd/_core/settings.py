# SPDX-License-Identifier: Apache-2.0
"""What an optimizer was told about the gradients that it reduces, for any framework."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from hvd._core.arguments import checked_op
from hvd._core.gradients import Reduction
from hvd._core.groups import Groups
from hvd._core.refusals import refused
from hvd._core.work import Adasum, Average
from hvd.process_sets import ProcessSet, process_set_id
from hvd.replicas import checked_interval


class Settings(NamedTuple):
    """How the gradients of an optimizer are reduced.

    Attributes
    ----------
    compression
        How they travel: an object of the framework's, with ``compress()`` and ``decompress()`` or
        with a ``method``.
    reduction
        The reduction, and how many backward passes add up before it.
    process_set
        The ranks that train together.
    sparse_as_dense
        Sparse gradients are made dense first.
    groups
        Which leave together, as ``hvd._core.groups.chosen_groups()`` returns it.
    averages_passes
        Passes are averaged on each rank where they add up; else summed.
    check_replicas
        Steps from one comparison of parameters and state over ranks to the next; 0: none.
    """

    compression: Any
    reduction: Reduction
    process_set: ProcessSet
    sparse_as_dense: bool
    groups: Groups
    averages_passes: bool
    check_replicas: int

    @property
    def reduces(self) -> bool:
        """False where a rank steps by itself, with its gradients as they are.

        A compression with momentum takes that of the optimizer, and so works on one rank, too.
        """
        if is_shared(self.process_set):
            return True
        return bool(getattr(self.compression, "momentum", 0)) and self.process_set.included()


def checked_settings(
    *,
    compression: Any,
    op: int,
    process_set: ProcessSet,
    gradient_predivide_factor: float = 1.0,
    backward_passes_per_step: int = 1,
    sparse_as_dense: bool = False,
    groups: Groups = None,
    average_aggregated_gradients: bool = False,
    check_replicas: int | None = None,
) -> Settings:
    """The settings that the arguments of a ``DistributedOptimizer`` mean, under Horovod's names.

    Raises
    ------
    InvalidArgumentError
        An argument is wrong, or does not go with another.

    >>> from hvd.process_sets import global_process_set
    >>> class Whole: method = 0
    >>> checked_settings(
    ...     compression=Whole, op=Average, process_set=global_process_set
    ... ).reduction.passes_per_step
    1
    """
    checked_op(op)
    if not hasattr(compression, "compress") and not hasattr(compression, "method"):
        raise refused(
            f"compression is {compression!r}: give one of hvd.Compression, such as "
            "hvd.Compression.fp16"
        )
    check_passes(backward_passes_per_step)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise refused(
            f"gradient_predivide_factor={gradient_predivide_factor!r} not supported with "
            "op != Average: leave it out, or pass op=hvd.Average"
        )
    if not math.isfinite(gradient_predivide_factor) or gradient_predivide_factor <= 0:
        raise refused(
            f"gradient_predivide_factor is {gradient_predivide_factor!r}: it must be above 0; 1 "
            "has no effect"
        )
    if average_aggregated_gradients and op == Adasum:
        raise refused(
            "Adasum does not support average_aggregated_gradients == True: leave it out, for "
            "Adasum chooses the scale itself"
        )
    number = process_set_id(process_set)
    return Settings(
        compression,
        Reduction(op, gradient_predivide_factor, backward_passes_per_step, number),
        process_set,
        sparse_as_dense,
        groups,
        average_aggregated_gradients,
        checked_interval(check_replicas),
    )


def check_passes(passes: int) -> None:
    """Refuses a number of backward passes for each step that is below 1.

    >>> check_passes(1)
    """
    if passes <= 0:
        raise refused(f"backward_passes_per_step is {passes!r}: it must be > 0; 1 has no effect")


def check_momentum(compression: Any, optimizer: Any) -> None:
    """Refuses an optimizer with momentum of its own under a compression that has one.

    Parameters
    ----------
    compression
        What a user chose; most have no momentum.
    optimizer
        An optimizer of torch, or what has its ``param_groups``.

    Raises
    ------
    InvalidArgumentError
        A group has a momentum or betas, or is not of float32, which such a compression takes alone.

    >>> class Plain: param_groups = [{"params": [], "momentum": 0}]
    >>> check_momentum(None, Plain)
    """
    momentum = getattr(compression, "momentum", 0)
    if not momentum:
        return
    for number, group in enumerate(optimizer.param_groups):
        for name in ("momentum", "betas"):
            if group.get(name):
                raise refused(
                    f"compression has momentum={momentum!r}, and parameter group {number} of the "
                    f"optimizer has {name}={group[name]!r}: give torch.optim.SGD without momentum, "
                    "or a compression without"
                )
        for parameter in group["params"]:
            if str(parameter.dtype) != "torch.float32":
                raise refused(
                    f"compression has momentum={momentum!r}, and parameter group {number} has a "
                    f"parameter of {parameter.dtype}, which would train without momentum: it is for "
                    "float32; give a compression without momentum"
                )


def is_shared(process_set: ProcessSet) -> bool:
    """False where a rank steps by itself: alone, or not in the set."""
    return process_set.included() and process_set.size() > 1
