# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of models and optimizers, in torch's own format."""

from __future__ import annotations

import functools
import os
import socket
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from hvd import checkpoints, objects
from hvd._core import api, newcomers
from hvd.errors import CheckpointError
from hvd.torch import part_files, shards
from hvd.torch.checkpoint_files import Files
from hvd.torch.host_copies import HostCopies
from hvd.torch.state import broadcast_module, broadcast_optimizer_state


class _Found(NamedTuple):
    step: int
    extra: dict[str, Any]


class Resumed(_Found):
    """What ``resume()`` found beside the model and the optimizer: its step, and the extras of ``save()``.

    ``shards`` is what each rank saved as its own, or None.
    """

    shards: shards.Shards | None = None


class _Report(NamedTuple):
    """What a rank says of itself where all meet."""

    written: str | None  # whose part is on the disk: the folder
    completes: bool  # it was rank 0 when that was begun
    trouble: str | None
    value: Any


class _Before:
    """What a model and an optimizer were, in memory of the host."""

    def __init__(
        self, model: torch.nn.Module | None, optimizer: torch.optim.Optimizer | None
    ) -> None:
        targets: list[Any] = [one for one in (model, optimizer) if one is not None]
        self._kept = [(one, HostCopies().take(one.state_dict())) for one in targets]

    def bring_back(self) -> None:
        for target, state in self._kept:
            target.load_state_dict(state)


class Checkpoints:
    """The checkpoints of a training, in a folder that rank 0 sees.

    A file is what ``torch.save`` makes of a dict with the keys model, optimizer and extra, and with
    parts, the folder of what each rank saved as its own. Like every pickle it runs code when it is
    loaded: load only what you trust. At its end there is a checksum, which resume() compares.

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
        self.files = Files(folder, keep, name)
        self._copies = HostCopies()
        self._attempt: part_files.Attempt | None = None  # with parts, of whatever membership

    def save(
        self,
        step: int,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        shard: Any = None,
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
        shard
            What this rank has of its own, in dicts, lists and tuples; a :class:`Slice` in them is a
            piece of a flat tensor that is cut between ranks. Either all ranks give one, if only ``{}``,
            or none; the folder must then be one that all ranks see.
        **extra
            Whatever else is to be found again, under names of your own.

        Raises
        ------
        CheckpointError
            On every rank, with what went wrong on one, here or in an earlier ``save_async()``; or a
            ``state_dict()`` raised on one, or one does not see the folder.
        """
        self._save(step, {"model": model, "optimizer": optimizer}, shard, extra, False)

    def save_async(
        self,
        step: int,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        shard: Any = None,
        **extra: Any,
    ) -> None:
        """Begins a checkpoint, which is written while training goes on; every rank calls it.

        It copies the state into memory of the host, which the next one uses again, and returns.
        While an earlier one is being written, it waits for that. A write that fails is an error of
        the next ``save()``, ``save_async()``, ``resume()`` or ``wait()``. The program does not end
        before what was begun is written.

        Parameters
        ----------
        step, model, optimizer, shard, **extra
            As for ``save()``; what becomes of them later is not in the checkpoint.

        Raises
        ------
        CheckpointError
            On every rank: an earlier one could not be written, or one rank cannot give its state. This
            one is not begun.
        """
        self._save(step, {"model": model, "optimizer": optimizer}, shard, extra, True)

    def wait(self) -> None:
        """Waits until what ``save_async()`` began is on the disk; every rank calls it.

        Raises
        ------
        CheckpointError
            On every rank: it could not be written.
        """
        what = "a checkpoint that was begun is not there"
        self._meet(lambda: None, what, "a wait")
        self.files.on_root(self._settle, what, "a wait")

    def _save(
        self, step: int, given: dict[str, Any], shard: Any, extra: dict[str, Any], is_async: bool
    ) -> None:
        self.files.check_step(step)
        what = f"checkpoint {self.files.path(step)} could not be written"
        kind = ", sharded" if shard is not None else ""
        key = f"step {step}{kind}{', async' if is_async else ''}"
        state: dict[str, Any] = {"model": None, "optimizer": None, "extra": extra}
        own: list[Any] = []  # the shard as it is written

        def ask() -> dict[str, shards.Row]:
            for name, one in given.items():
                if one is not None:
                    state[name] = one.state_dict()
            plain, rows = shards.taken_apart(shard)
            own.append(plain)
            if kind == "" and is_async and api.rank() == 0:
                state.update(self._copies.take(state))
            return rows

        tables = self._meet(ask, what, key)
        if kind:
            self._write_parts(step, state, own[0], tables, is_async)
            return

        def write() -> None:
            self._settle()
            put = functools.partial(self.files._write, state)
            (self.files.begin if is_async else self.files._put)(step, put)

        self.files.on_root(write, what, key)

    def _write_parts(
        self,
        step: int,
        state: dict[str, Any],
        own: Any,
        tables: list[dict[str, shards.Row]],
        is_async: bool,
    ) -> None:
        files, path = self.files, self.files.path(step)
        what = f"checkpoint {path} could not be written"
        key = f"step {step}, sharded"

        def prepare() -> str:
            self._settle()
            mistake = shards.mistake_in(tables)
            if mistake:
                raise ValueError(mistake)
            return files.make_folder(step)

        name = objects.broadcast_object(files.on_root(prepare, what, key), 0, "checkpoint.parts")
        is_root, host = api.rank() == 0, socket.gethostname()
        host_of_root = objects.broadcast_object(host, 0, "checkpoint.host")
        kept: list[Any] = []

        def see_and_copy() -> None:
            if not part_files.is_seen(files.folder / name, part_files.FOLDER_SECONDS):
                raise FileNotFoundError(
                    f"{host} does not see {files.folder.absolute() / name}, which rank 0 made on "
                    f"{host_of_root}: with shard= the folder must be on a file system of all ranks"
                )
            state["parts"] = name
            both = self._copies.take({"main": state if is_root and is_async else None, "own": own})
            kept.extend((both["main"] or state, both["own"]))

        attempt = part_files.Attempt(files.folder / name, api.rank(), api.size())
        try:
            files.on_all(see_and_copy, what, key)
        except CheckpointError:
            if is_root:
                attempt.clean_up()
            raise
        main, copied = kept
        write = functools.partial(files._write, copied)
        write_main = functools.partial(files._write, main) if is_root else None
        files.note(attempt.begin(path, write, write_main))
        if is_root:
            attempt.begin_commit(path, tables, lambda: files.complete(step, name))
        self._attempt = attempt
        if not is_async:
            self.wait()

    def _meet(self, act: Callable[[], Any], what: str, key: str) -> list[Any]:
        """Acts on all ranks that write no more, and decides what becomes of the parts they wrote."""
        attempt = self._attempt
        completes = attempt is not None and attempt.commit is not None
        cause: list[Exception] = []

        def settle_and_act() -> _Report:
            written = None
            try:
                self.files.settle()
                written = attempt.folder.name if attempt else None
                return _Report(written, completes, None, act())
            except Exception as error:  # an interrupt leaves the attempt for another call
                cause.append(error)
                trouble = f"rank {api.rank()}: {what}: {checkpoints.named(error)}"
                return _Report(written, completes, trouble, None)

        met: list[_Report] = self.files.on_all(settle_and_act, what, key)
        troubles = [one.trouble for one in met if one.trouble]
        if attempt:
            written = [one.written for one in met]
            attempt.decide(part_files.patience(written, attempt.folder.name, attempt.size))
            if troubles or api.rank() != 0:
                self._settle(is_told=bool(troubles))
        if any(one.completes for one in met[1:]):
            # What was rank 0 once may clear up where rank 0 begins now.
            self.files.on_all(lambda: None, what, key)
        if troubles:
            raise CheckpointError(met[api.rank()].trouble or troubles[0]) from next(
                iter(cause), None
            )
        return [one.value for one in met]

    def _settle(self, is_told: bool = False) -> None:
        """Waits until an attempt that was decided is complete or given up."""
        attempt, self._attempt = self._attempt, None
        if attempt is None or attempt.commit is None:
            return
        error = attempt.commit.outcome()
        attempt.clean_up()
        if error is None:
            return
        trouble = f"{attempt.commit.what} failed: {type(error).__name__}: {error}"
        is_incomplete = isinstance(error, part_files.IncompleteError)
        if not is_told and not is_incomplete and api.rank() == 0:
            raise CheckpointError(trouble) from error
        if not (is_told and is_incomplete):
            warnings.warn(f"rank {api.rank()}: {trouble}", stacklevel=4)

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
            Its step, and the extras of ``save()``; and ``shards``, what each rank saved as its own,
            which this rank may read: :class:`Shards`.

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
        self._meet(lambda: None, what, "resume")
        self.files.on_root(self._settle, what)
        found, parts = self._find(list(given), what)

        def load() -> _Found | None:
            if found is None:
                return None
            for name, target in given.items():
                target.load_state_dict(found.state[name])
            return _Found(found.step, found.state["extra"])

        before = _Before(model, optimizer)
        try:
            loaded = self.files.on_root(load, what)
            self._make_equal(model, optimizer)
            loaded = objects.broadcast_object(loaded, 0, "checkpoint")
        except Exception:
            before.bring_back()
            raise
        if loaded is None:
            return None
        resumed = Resumed(*loaded)
        resumed.shards = parts
        return resumed

    def _find(
        self, names: list[str], what: str
    ) -> tuple[checkpoints.Checkpoint | None, shards.Shards | None]:
        """The newest that is whole, on rank 0, and on all what ranks saved as their own."""
        troubles: list[str] = []
        below = None
        while True:
            found, head = self.files.on_root(
                functools.partial(self.files.read_head, names, below, troubles), what
            ) or (None, None)
            head = objects.broadcast_object(head, 0, "checkpoint.head")
            if head is None:
                return found, None
            below, folder, parts = head
            damages = self.files.on_all(functools.partial(self.files.damage, folder, parts), what)
            found_damage = next(filter(None, damages), None)
            if found_damage is None:
                read = functools.partial(self.files.read_part, folder, parts)
                return found, shards.Shards(parts, api.rank(), api.size(), read)
            troubles.append(found_damage)
            if api.rank() == 0:
                self.files.warn(found_damage)

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
