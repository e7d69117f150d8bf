# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of models and optimizers, in torch's own format."""

from __future__ import annotations

import inspect
import os
from typing import Any, BinaryIO, NamedTuple

import torch

from hvd import checkpoints, objects
from hvd.torch.state import broadcast_optimizer_state, broadcast_parameters


class Resumed(NamedTuple):
    """What ``resume()`` found beside the model and the optimizer."""

    step: int
    extra: dict[str, Any]


class _Files(checkpoints.Checkpoints):
    def _write(self, state: Any, file: BinaryIO) -> None:
        torch.save(state, file)

    def _read(self, file: BinaryIO) -> Any:
        # Optimizers and the extras hold more than tensors.
        known = "weights_only" in inspect.signature(torch.load).parameters
        options = {"weights_only": False} if known else {}
        return torch.load(file, map_location="cpu", **options)  # type: ignore[arg-type]


class Checkpoints:
    """The checkpoints of a training, in a folder that rank 0 sees.

    A file is what ``torch.save`` makes of a dict with the keys model, optimizer and extra. Like
    every pickle it runs code when it is loaded: load only what you trust.

    Parameters
    ----------
    folder
        Made by the first ``save()``.
    keep
        How many of the newest stay; 0: all.
    name
        Beginning of the names of the files: ``NAME-STEP``.

    >>> import tempfile
    >>> files = Checkpoints(tempfile.mkdtemp())
    >>> model = torch.nn.Linear(2, 1)
    >>> files.save(1, model, best=0.5)
    >>> files.resume(model)
    Resumed(step=1, extra={'best': 0.5})
    """

    def __init__(
        self, folder: str | os.PathLike[str], keep: int = 3, name: str = "checkpoint"
    ) -> None:
        self.files = _Files(folder, keep, name)

    def save(
        self,
        step: int,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **extra: Any,
    ) -> None:
        """Writes a checkpoint of rank 0; every rank calls it, and learns how it went.

        Parameters
        ----------
        step
            Equal on all ranks; any number that grows: steps, or epochs.
        **extra
            Whatever else is to be found again, under names of your own.

        Raises
        ------
        CheckpointError
            On every rank, with what went wrong on rank 0.
        """
        state = {
            "model": None if model is None else model.state_dict(),
            "optimizer": None if optimizer is None else optimizer.state_dict(),
            "extra": extra,
        }
        self.files.save(step, state)

    def resume(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> Resumed | None:
        """Gives every rank the newest checkpoint that rank 0 can read; None when there is none.

        Every rank calls it; what `model` and `optimizer` were is then equal on all ranks, whether
        there was a checkpoint or not.

        Raises
        ------
        CheckpointError
            On every rank: there are some, and none fits or can be read.
        """

        def read() -> Resumed | None:
            found = self.files.read_newest()
            if found is None:
                return None
            for name, target in (("model", model), ("optimizer", optimizer)):
                if target is None:
                    continue
                if found.state[name] is None:
                    raise ValueError(f"{self.files.path(found.step)} was saved without {name}")
                target.load_state_dict(found.state[name])
            return Resumed(found.step, found.state["extra"])

        resumed = self.files.on_root(read, f"no checkpoint in {self.files.folder} can be used")
        if model is not None:
            broadcast_parameters(model.state_dict(), root_rank=0)
        if optimizer is not None:
            broadcast_optimizer_state(optimizer, root_rank=0)
        return objects.broadcast_object(resumed, 0, "checkpoint")
