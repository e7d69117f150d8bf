# SPDX-License-Identifier: Apache-2.0
"""Keras that computes with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import hvd.torch
from hvd._core import api
from hvd._core.local_device import local_device
from hvd._core.replica_guard import Guard
from hvd._core.settings import Settings, is_shared
from hvd._core.work import Min
from hvd.errors import UnsupportedError
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import replicas
from hvd.torch.compression import Compression

VARIABLES = (torch.nn.Parameter,)

__all__ = [
    "VARIABLES",
    "Compression",
    "all_true",
    "broadcast",
    "broadcast_global_variables",
    "guard",
    "reduce_gradients",
    "scaled",
    "use_own_gpu",
]


def reduce_gradients(
    gradients: Sequence[Any], settings: Settings, variables: Sequence[Any], names: Sequence[str]
) -> list[Any]:
    """The gradients of all ranks, which travel as one group whatever groups there are.

    None stays None, sparse gradients are made dense. A method of compression that keeps state is refused.
    """
    if not hasattr(settings.compression, "compress") or hasattr(settings.compression, "method"):
        raise UnsupportedError(
            f"rank {api.rank()}: compression={settings.compression!r} is not a choice for an "
            "optimizer of Keras: use hvd.Compression.fp16 or hvd.Compression.bf16"
        )
    present = [index for index, gradient in enumerate(gradients) if gradient is not None]
    if not present or not is_shared(settings.process_set):
        return list(gradients)
    with torch.no_grad():
        tensors = [gradients[index].detach() for index in present]
        tensors = [one.to_dense() if one.is_sparse else one for one in tensors]
        reduced = hvd.torch.grouped_allreduce(
            tensors,
            name=names[present[0]],
            compression=settings.compression,
            op=settings.reduction.op,
            prescale_factor=1 / settings.reduction.predivide,
            postscale_factor=settings.reduction.predivide,
            process_set=settings.process_set,
        )
    result = list(gradients)
    for index, gradient in zip(present, reduced):
        result[index] = gradient
    return result


class _TensorsGuard(Guard):
    """Compares where gradients have been reduced, before they are applied; without a wait."""

    def after(self, gradients: list[Any]) -> list[Any]:
        """The reduced gradients, after what is due."""
        if is_shared(self._process_set):
            self.reductions += 1
            self.act()
        return gradients


def guard(settings: Settings, named: Callable[[], list[tuple[str, Any]]]) -> Guard:
    """What compares these tensors over ranks; for the first time after the first update."""
    return _TensorsGuard(
        settings.check_replicas,
        settings.process_set,
        lambda: replicas.reading_of([tensor for _, tensor in named()]),
        lambda: replicas.entries_of(named()),
        first=2,
    )


def scaled(gradient: Any, factor: float) -> Any:
    """The gradient times a number."""
    return gradient * factor


def all_true(flag: Any, name: str, process_set: ProcessSet = global_process_set) -> Any:
    """True where the flag is true on every rank."""
    if not is_shared(process_set):
        return flag
    number = torch.as_tensor(flag).to("cpu", torch.int32)
    return hvd.torch.allreduce(number, name=name, op=Min, process_set=process_set).bool()


def broadcast(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Gives variables of Keras, or tensors, the values of one rank."""
    tensors = [getattr(variable, "value", variable) for variable in variables]
    if not tensors or not is_shared(process_set):
        return
    with torch.no_grad():
        handles = [
            hvd.torch.broadcast_async_(tensor.detach(), root_rank, f"variable.{place}", process_set)
            for place, tensor in enumerate(tensors)
        ]
        for handle in handles:
            hvd.torch.synchronize(handle)


def broadcast_global_variables(root_rank: int) -> None:
    """Raises: PyTorch keeps no list of all variables."""
    raise UnsupportedError(
        "broadcast_global_variables: Keras on torch keeps no list of all variables: give model.fit "
        f"hvd.keras.callbacks.BroadcastGlobalVariablesCallback({root_rank})"
    )


def use_own_gpu() -> None:
    """Tensors without a device of their own are made on the GPU of this rank."""
    if torch.cuda.is_available():
        torch.cuda.set_device(local_device(torch.cuda.device_count()))
