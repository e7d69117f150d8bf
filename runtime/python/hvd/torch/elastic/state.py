# SPDX-License-Identifier: Apache-2.0
"""The state of a PyTorch training: models, optimizers, samplers and plain objects."""

from __future__ import annotations

import copy
from typing import Any

import torch

from hvd.state_handlers import (
    HANDLERS,
    CopiedStateHandler,
    HandledState,
    Registry,
    SamplerStateHandler,
    Stateful,
    StatefulHandler,
    StateHandler,
)
from hvd.torch.state import broadcast_module, broadcast_optimizer_state

__all__ = [
    "CompressionState",
    "CopiedStateHandler",
    "ModelStateHandler",
    "OptimizerStateHandler",
    "SamplerStateHandler",
    "StatefulHandler",
    "StateHandler",
    "TorchState",
    "get_handler_registry",
    "set_handler_registry",
]


class TorchState(HandledState):
    """Models, optimizers and samplers that survive a reset, and plain objects as well.

    Parameters
    ----------
    model, optimizer
        The usual two; more may be among the keywords, under any names.
    **kwargs
        Name and first value of each attribute. Modules, optimizers, ``ElasticSampler`` and what else
        has ``state_dict()`` and ``load_state_dict()`` (schedulers of learning rates, scalers) are
        saved through these, other values by deepcopy.

    >>> TorchState(torch.nn.Linear(1, 1), epoch=2).epoch
    2
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.update({"model": model, "optimizer": optimizer})
        super().__init__(_registry, **kwargs)


class ModelStateHandler(CopiedStateHandler):
    """Parameters and buffers of a module, and its ``get_extra_state()``.

    Parameters
    ----------
    model
        A copy of its state is kept.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)

    def read(self) -> dict[str, Any]:
        return self.value.state_dict()

    def write(self, kept: dict[str, Any]) -> None:
        self.value.load_state_dict(kept)

    def sync(self) -> None:
        broadcast_module(self.value)


class OptimizerStateHandler(CopiedStateHandler):
    """State of an optimizer, learning rates included, and what compression keeps on this rank.

    Parameters
    ----------
    optimizer
        A copy of its state is kept.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer)

    def read(self) -> dict[str, Any]:
        kept = {"optimizer": self.value.state_dict()}
        if hasattr(self.value, "save_compression"):
            kept["compression"] = self.value.save_compression()
        return kept

    def write(self, kept: dict[str, Any]) -> None:
        _end_step(self.value)
        # Some optimizers take the tensors that they are given, and would write to the copy.
        self.value.load_state_dict(copy.deepcopy(kept["optimizer"]))
        if "compression" in kept:
            self.value.load_compression(kept["compression"])
        self.value.zero_grad()

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)


class CompressionState:
    """What top-k and PowerSGD keep on this rank, as a value of an elastic state.

    A process that takes the place of a lost rank begins without it, and what that rank had left out of
    its gradients is lost, except with ``residuals=hvd.elastic.PerRank(CompressionState(optimizer))``.
    That sends about as many bytes as the model has to the partner, at each commit.

    Parameters
    ----------
    optimizer
        A ``DistributedOptimizer`` with such a compression.

    >>> import hvd.torch as hvd
    >>> model = torch.nn.Linear(64, 64)
    >>> optimizer = hvd.DistributedOptimizer(
    ...     torch.optim.SGD(model.parameters(), 0.1), compression=hvd.Compression.top_k()
    ... )
    >>> list(CompressionState(optimizer).state_dict())
    ['compression']
    """

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def state_dict(self) -> dict[str, Any]:
        """What is kept, as bytes."""
        return {"compression": self.optimizer.save_compression()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes it over.

        Parameters
        ----------
        state
            What ``state_dict()`` gave, of the same model and method, or ``fresh_state()``.
        """
        if state["compression"]:
            self.optimizer.load_compression(state["compression"])
            return
        for reducer in self.optimizer._hvd_reducers:
            reducer.begin_compression()

    def fresh_state(self, rank: int, size: int) -> dict[str, bytes]:
        """The state of a rank that has come to a job at work: nothing.

        Parameters
        ----------
        rank, size
            Its number, and how many ranks there are.
        """
        return {"compression": b""}


def _end_step(optimizer: Any) -> None:
    """What is on its way belongs to the job that has failed."""
    for reducer in getattr(optimizer, "_hvd_reducers", ()):
        reducer.abandon()
    if hasattr(optimizer, "_hvd_end_step"):
        optimizer._hvd_end_step()


_registry: Registry = [
    *HANDLERS,
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (Stateful, StatefulHandler),
]


def get_handler_registry() -> Registry:
    """Pairs of a type and its handler; the first that fits a value counts.

    >>> len(get_handler_registry()) >= 3
    True
    """
    return _registry


def set_handler_registry(registry: Registry) -> None:
    """Replaces the pairs, for states made from now on.

    Parameters
    ----------
    registry
        Pairs of a type and its handler.

    >>> set_handler_registry(get_handler_registry())
    """
    global _registry
    _registry = registry
