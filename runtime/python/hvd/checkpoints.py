# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that rank 0 writes and reads, and all ranks take part in: never half a file."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import socket
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from hvd import objects
from hvd._core import api, newcomers
from hvd._core.background import Task
from hvd._core.whole_files import (
    DamagedError,
    save_atomically,
    verify,
    write_atomically,
    write_sealed,
)
from hvd.errors import CheckpointError, InvalidArgumentError

__all__ = ["Checkpoint", "CheckpointError", "Checkpoints", "save_atomically", "write_atomically"]

# What reading a file raises that was cut short or overwritten, and nothing else does.
_DAMAGE = (DamagedError, pickle.UnpicklingError, EOFError, zipfile.BadZipFile)
# Nobody writes for so long without a change of the file.
OLD_SECONDS = 86400


class Checkpoint(NamedTuple):
    """What was found."""

    step: int
    state: Any


class Checkpoints:
    """The checkpoints of a training, in a folder that rank 0 sees.

    Parameters
    ----------
    folder
        Made by the first ``save()``.
    keep
        How many of the newest stay; 0: all.
    name
        Beginning of the names of the files: ``NAME-STEP``.

    Raises
    ------
    InvalidArgumentError
        `keep` is negative, or `name` is not a plain name.

    >>> import tempfile
    >>> checkpoints = Checkpoints(tempfile.mkdtemp())
    >>> checkpoints.load() is None
    True
    >>> path = checkpoints.save(7, {"loss": 0.5})
    >>> checkpoints.load()
    Checkpoint(step=7, state={'loss': 0.5})
    """

    def __init__(
        self, folder: str | os.PathLike[str], keep: int = 3, name: str = "checkpoint"
    ) -> None:
        if keep < 0 or not name or "/" in name:
            raise InvalidArgumentError(
                f"Checkpoints: keep is {keep}, name is {name!r}; 0 or more, and a plain name"
            )
        self.folder = Path(folder)
        self.keep = keep
        self.name = name
        self._tasks: list[Task] = []  # what this process has begun to write

    def save(self, step: int, state: Any) -> Path:
        """Writes a checkpoint; every rank calls it, rank 0 writes its state, all learn how it went.

        Parameters
        ----------
        step
            0 or more; one that is there is replaced. Equal on all ranks.
        state
            What pickle can take; only that of rank 0 is used.

        Raises
        ------
        CheckpointError
            On every rank, with what went wrong on rank 0, here or in an earlier ``save_async()``; an
            interrupt as well, which rank 0 raises itself. The older checkpoints are there.
        """
        self.check_step(step)
        self._settle_beside_root()

        def write() -> None:
            self.settle()
            self._put(step, lambda file: self._write(state, file))

        what = f"checkpoint {self.path(step)} could not be written"
        self.on_root(write, what, f"step {step}")
        return self.path(step)

    def save_async(self, step: int, state: Any) -> Path:
        """Begins a checkpoint, which a thread of rank 0 writes; every rank calls it and goes on.

        What pickle makes of the state stays in memory until it is written. While an earlier one is
        being written, it waits for that. A write that fails is an error of the next ``save()``,
        ``save_async()``, ``load()`` or ``wait()``. The program does not end before it is done.

        Parameters
        ----------
        step, state
            As for ``save()``; what becomes of the state later is not in the checkpoint.

        Raises
        ------
        CheckpointError
            On every rank: rank 0 could not write an earlier one, or pickle does not take this one.
            This one is not begun.
        """
        self.check_step(step)
        self._settle_beside_root()

        def begin() -> None:
            self.settle()
            content = pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL)
            self.begin(step, lambda file: file.write(content))

        what = f"checkpoint {self.path(step)} could not be begun"
        self.on_root(begin, what, f"step {step}, async")
        return self.path(step)

    def wait(self) -> None:
        """Waits until what ``save_async()`` began is on the disk; every rank calls it.

        Raises
        ------
        CheckpointError
            On every rank: it could not be written.
        """
        self._settle_beside_root()
        self.on_root(self.settle, "a checkpoint that was begun is not there", "a wait")

    def load(self) -> Checkpoint | None:
        """The newest checkpoint that can be read, on every rank; None when there is none.

        Every rank calls it. Damaged ones, cut short or overwritten, are passed over with a warning. A
        process that comes to an elastic job at work gets None.

        Raises
        ------
        CheckpointError
            On every rank: there are some and all are damaged; or the newest cannot be read for another
            reason, as a module that is missing or a disk that fails.
        """
        if newcomers.is_one:
            return None
        self._settle_beside_root()

        def read() -> Checkpoint | None:
            self.settle()
            return self.read_newest()

        found = self.on_root(read, f"no checkpoint in {self.folder} can be read")
        return objects.broadcast_object(found, 0, "checkpoint")

    def steps(self) -> list[int]:
        """Those that this rank sees, ascending."""
        pattern = re.compile(re.escape(self.name) + r"-(\d+)")
        names = os.listdir(self.folder) if self.folder.exists() else []
        matches = map(pattern.fullmatch, names)
        return sorted(int(match.group(1)) for match in matches if match)

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step is.

        Parameters
        ----------
        step
            0 or more.
        """
        return self.folder / f"{self.name}-{step:010d}"

    def begin(self, step: int, write: Callable[[BinaryIO], Any]) -> None:
        """Has a checkpoint written by a thread of this process.

        Parameters
        ----------
        step
            Whose it is.
        write
            Writes the content to an open file.
        """
        what = f"writing checkpoint {self.path(step)}"
        self.note(Task(what, lambda: self._put(step, write)))

    def note(self, task: Task) -> None:
        """From now on settle() waits for it.

        Parameters
        ----------
        task
            Writes for this object.
        """
        self._tasks.append(task)

    def settle(self) -> None:
        """Waits for what this process writes.

        Raises
        ------
        CheckpointError
            It could not be written; told once.
        """
        while self._tasks:
            error = self._tasks[0].outcome()
            task = self._tasks.pop(0)
            if error is not None:
                raise CheckpointError(f"{task.what} failed: {named(error)}") from error

    def _settle_beside_root(self) -> None:
        """Where a reset of an elastic job has made another process rank 0 while this one wrote."""
        if self._tasks and api.rank() != 0:
            try:
                self.settle()
            except CheckpointError as error:
                warnings.warn(f"rank {api.rank()}: {error}", stacklevel=3)

    def check_step(self, step: int) -> None:
        """Refuses what is no step.

        Parameters
        ----------
        step
            What the caller gave.

        Raises
        ------
        InvalidArgumentError
            It is negative.
        """
        if step < 0:
            raise InvalidArgumentError(f"Checkpoints.save: step is {step}; 0 or more")

    def _put(self, step: int, write: Callable[[BinaryIO], Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sweep()
        write_sealed(self.path(step), write)
        self._drop_old(step)

    def _write(self, state: Any, file: BinaryIO) -> None:
        """In which form; for subclasses."""
        pickle.dump(state, file, protocol=pickle.HIGHEST_PROTOCOL)

    def _read(self, file: BinaryIO) -> Any:
        return pickle.load(file)

    def on_root(self, act: Callable[[], Any], what: str, key: str = "") -> Any:
        """Acts on rank 0; its failure is an error of all. The result is that of rank 0 alone.

        Parameters
        ----------
        act
            What to do.
        what
            What the error calls it.
        key
            Equal on all ranks; tells the outcome of this call from that of another.

        Raises
        ------
        CheckpointError
            On every rank: it failed on rank 0. An interrupt of rank 0 is itself there.
        """
        result, trouble, cause = None, None, None
        if api.rank() == 0:
            try:
                result = act()
            except BaseException as error:  # whatever it is, the others wait for the news
                trouble, cause = f"rank 0: {what}: {named(error)}", error
        given, trouble = objects.broadcast_object((key, trouble), 0, "checkpoint.outcome")
        _raise_unless_error(cause)
        if given != key:
            raise CheckpointError(
                f"rank {api.rank()}: {what}: it waits for the outcome of {key or 'a load'}, and "
                f"rank 0 is at {given or 'a load'}: its call was interrupted, or the ranks call "
                "other things: call the same everywhere"
            )
        if trouble is not None:
            raise CheckpointError(trouble) from cause
        return result

    def on_all(self, act: Callable[[], Any], what: str, key: str = "") -> list[Any]:
        """Acts on every rank; the failure of one is an error of all. The results are those of all.

        Parameters
        ----------
        act
            What to do.
        what
            What the error calls it.
        key
            Equal on all ranks; tells the outcome of this call from that of another.

        Raises
        ------
        CheckpointError
            On every rank: it failed on one. An interrupt is itself where it was.
        """
        result, trouble, cause = None, None, None
        try:
            result = act()
        except BaseException as error:  # whatever it is, the others wait for the news
            trouble, cause = f"rank {api.rank()}: {what}: {named(error)}", error
        outcomes = objects.allgather_object((key, trouble, result), "checkpoint.outcomes")
        _raise_unless_error(cause)
        if any(given != key for given, _, _ in outcomes):
            keys = ", ".join(f"rank {rank}: {given}" for rank, (given, _, _) in enumerate(outcomes))
            raise CheckpointError(
                f"rank {api.rank()}: {what}: the ranks call other things ({keys}), or a call was "
                "interrupted: call the same everywhere"
            )
        troubles = [one for _, one, _ in outcomes if one]
        if troubles:
            raise CheckpointError(trouble or troubles[0]) from cause
        return [one for _, _, one in outcomes]

    def read_newest(self, below: int | None = None) -> Checkpoint | None:
        """The newest that can be read here; damaged ones are passed over with a warning.

        Parameters
        ----------
        below
            Only among steps below this one; None: any.

        Raises
        ------
        ValueError
            There are checkpoints, and none can be read.
        """
        troubles = []
        for step in reversed(self.steps()):
            if below is not None and step >= below:
                continue
            path = self.path(step)
            try:
                verify(path)
                with open(path, "rb") as file:
                    found = Checkpoint(step, self._read(file))
            except Exception as error:  # pickle raises what it likes
                trouble = f"{path}: {named(error)}"
                if not self._is_damaged(path, error):
                    raise ValueError(
                        f"{trouble}. The file may be whole: mend that, or remove the file to go on "
                        "from an older one"
                    ) from error
                troubles.append(trouble)
                continue
            for trouble in troubles:
                warnings.warn(f"damaged checkpoint passed over: {trouble}", stacklevel=2)
            return found
        if troubles:
            raise ValueError("; ".join(troubles))
        return None

    def _is_damaged(self, path: Path, error: Exception) -> bool:
        """Whether the file itself is why reading it failed; for subclasses."""
        return isinstance(error, _DAMAGE)

    def _drop_old(self, newest: int) -> None:
        steps = [step for step in self.steps() if step != newest]
        for step in steps[: max(len(steps) + 1 - self.keep, 0)] if self.keep else []:
            self._remove(step)

    def _remove(self, step: int) -> None:
        self.path(step).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Removes what a process left that was killed while it wrote, of this series alone.

        Another job may write here, and perhaps on another host: what it writes stays.
        """
        pattern = re.compile(rf"\.(?:(.+)-)?(\d+)-\d+\.{re.escape(self.name)}-\d+")
        for left in filter(None, map(pattern.fullmatch, os.listdir(self.folder))):
            path = self.folder / left[0]
            with contextlib.suppress(FileNotFoundError):
                is_old = time.time() - path.stat().st_mtime > OLD_SECONDS
                if is_old or (left[1] == socket.gethostname() and is_dead(int(left[2]))):
                    path.unlink()


def named(error: BaseException) -> str:
    """What errors of others say of an error.

    >>> named(ValueError("no number"))
    'ValueError: no number'
    """
    return f"{type(error).__name__}: {error}"


def is_dead(process: int) -> bool:
    """True where no process of this host has the number.

    >>> is_dead(os.getpid())
    False
    """
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False


def _raise_unless_error(cause: BaseException | None) -> None:
    """Raises an interrupt or an exit as it is: no error of ours stands for it."""
    if cause is not None and not isinstance(cause, Exception):
        raise cause
