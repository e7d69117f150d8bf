# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of models and optimizers, in torch's own format."""

from __future__ import annotations

import copy
import inspect
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch

from hvd import checkpoints, objects
from hvd._core import newcomers
from hvd.torch.state import broadcast_module, broadcast_optimizer_state


class Resumed(NamedTuple):
    """What ``resume()`` found beside the model and the optimizer."""

    step: int
    extra: dict[str, Any]


class _Remembering:
    """A file whose write never fails: the first error is kept.

    In PyTorch 1.13 the writer that met an error meets it again in its destructor, which ends the
    program, whenever Python frees it.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: BaseException | None = None

    def write(self, data: Any) -> int:
        """For torch.save, as all here."""
        try:
            if self.error is None:
                self._file.write(data)
        except BaseException as error:
            self.error = error
        return len(data)

    def flush(self) -> None:
        try:
            if self.error is None:
                self._file.flush()
        except BaseException as error:
            self.error = error


class _Files(checkpoints.Checkpoints):
    def _write(self, state: Any, file: BinaryIO) -> None:
        remembering = _Remembering(file)
        torch.save(state, remembering)  # type: ignore[arg-type]
        if remembering.error is not None:
            raise remembering.error

    def _read(self, file: BinaryIO) -> Any:
        # Optimizers and the extras hold more than tensors.
        known = "weights_only" in inspect.signature(torch.load).parameters
        options = {"weights_only": False} if known else {}
        return torch.load(file, map_location="cpu", **options)  # type: ignore[arg-type]

    def _is_damaged(self, path: Path, error: Exception) -> bool:
        if super()._is_damaged(path, error):
            return True
        with open(path, "rb") as file:
            begin = file.read(2)
        if begin != b"PK":  # torch.save's older format, or what a crash left of a file
            return begin == b"\0\0"
        try:
            with zipfile.ZipFile(path) as archive:
                return archive.testzip() is not None
        except zipfile.BadZipFile:
            return True


class _Before:
    """What a model and an optimizer were, in memory of the host."""

    def __init__(
        self, model: torch.nn.Module | None, optimizer: torch.optim.Optimizer | None
    ) -> None:
        targets: list[Any] = [one for one in (model, optimizer) if one is not None]
        self._kept = [(one, _on_host(one.state_dict())) for one in targets]

    def bring_back(self) -> None:
        for target, state in self._kept:
            target.load_state_dict(state)


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        result = copy.copy(value)  # with the versions that torch puts beside the entries
        result.update({key: _on_host(entry) for key, entry in value.items()})
        return result
    if type(value) in (list, tuple):
        return type(value)(map(_on_host, value))
    return copy.deepcopy(value)


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
        model
            Its ``state_dict()`` is saved; None: no model.
        optimizer
            Likewise.
        **extra
            Whatever else is to be found again, under names of your own.

        Raises
        ------
        CheckpointError
            On every rank, with what went wrong on rank 0; or a ``state_dict()`` raised on one.
        """
        state: dict[str, Any] = {"model": None, "optimizer": None, "extra": extra}

        def ask() -> None:
            for name, one in (("model", model), ("optimizer", optimizer)):
                if one is not None:
                    state[name] = one.state_dict()

        what = f"checkpoint {self.files.path(step)} could not be written"
        self.files.on_all(ask, what, f"step {step}")
        self.files.save(step, state)

    def resume(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> Resumed | None:
        """Gives every rank the newest checkpoint that rank 0 can read; None when there is none.

        Every rank calls it; what `model` and `optimizer` were is then equal on all ranks, whether
        there was a checkpoint or not: parameters, buffers, what ``get_extra_state()`` gives. A
        process that comes to an elastic job at work gets None, and its state with
        ``hvd.elastic.run``.

        Parameters
        ----------
        model, optimizer
            What to load into; as they were for ``save()``.

        Returns
        -------
        Resumed or None
            Its step, and the extras of ``save()``.

        Raises
        ------
        CheckpointError
            On every rank: there are some, and none fits or can be read. Model and optimizer are what
            they were before, on every rank.
        """
        if newcomers.is_one:
            return None
        what = f"no checkpoint in {self.files.folder} can be used"
        targets = {"model": model, "optimizer": optimizer}
        given = {name: one for name, one in targets.items() if one is not None}
        found: list[checkpoints.Checkpoint] = []

        def read() -> None:
            newest = self.files.read_newest()
            if newest is None:
                return
            for name in given:
                if newest.state[name] is None:
                    raise ValueError(f"{self.files.path(newest.step)} was saved without {name}")
            found.append(newest)

        def load() -> Resumed | None:
            for newest in found:
                for name, target in given.items():
                    target.load_state_dict(newest.state[name])
                return Resumed(newest.step, newest.state["extra"])
            return None

        self.files.on_root(read, what)
        before = _Before(model, optimizer)
        try:
            resumed = self.files.on_root(load, what)
            self._make_equal(model, optimizer)
            return objects.broadcast_object(resumed, 0, "checkpoint")
        except Exception:
            before.bring_back()
            raise

    def _make_equal(
        self, model: torch.nn.Module | None, optimizer: torch.optim.Optimizer | None
    ) -> None:
        acts: list[Callable[[], None]] = []
        if model is not None:
            acts.append(lambda: broadcast_module(model))
        if optimizer is not None:
            acts.append(lambda: broadcast_optimizer_state(optimizer, root_rank=0))
        for act in acts:
            self.files.on_all(act, "what rank 0 has loaded does not fit here")
