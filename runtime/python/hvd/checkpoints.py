# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that rank 0 writes and reads, and all ranks take part in: never half a file."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import socket
import threading
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from hvd import objects
from hvd._core import api, newcomers
from hvd.errors import CheckpointError, InvalidArgumentError

__all__ = ["Checkpoint", "CheckpointError", "Checkpoints", "save_atomically", "write_atomically"]

# What reading a file raises that was cut short or overwritten, and nothing else does.
_DAMAGE = (pickle.UnpicklingError, EOFError, zipfile.BadZipFile)
# Nobody writes for so long without a change of the file.
_OLD_SECONDS = 86400


def write_atomically(path: str | os.PathLike[str], write: Callable[[BinaryIO], Any]) -> None:
    """Writes a file that is there whole or not at all, whatever ends the process or the machine.

    Parameters
    ----------
    path
        The file; its folder is there.
    write
        Gets an open file, and writes the content to it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/note", lambda file: file.write(b"whole"))
    ...     Path(f"{folder}/note").read_text()
    'whole'
    """

    def save(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            write(file)

    save_atomically(path, save)


def save_atomically(path: str | os.PathLike[str], save: Callable[[Path], Any]) -> None:
    """Has a file saved that is there whole or not at all, whatever ends the process or the machine.

    Parameters
    ----------
    path
        Where the file is to be.
    save
        Gets another path in the same folder, with the same ending, and writes the file there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_atomically(f"{folder}/model.keras", lambda new: new.write_text("whole"))
    ...     os.listdir(folder)
    ['model.keras']
    """
    path = Path(path)
    writer = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    temporary = path.with_name(f".{writer}.{path.name}")
    try:
        save(temporary)
        _sync(temporary, os.O_RDONLY)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)  # else the name may be lost with the machine


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
            On every rank, with what went wrong on rank 0, an interrupt as well, which rank 0 raises
            itself. The older checkpoints are there.
        """
        if step < 0:
            raise InvalidArgumentError(f"Checkpoints.save: step is {step}; 0 or more")
        path = self.path(step)

        def write() -> None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sweep()
            write_atomically(path, lambda file: self._write(state, file))
            self._drop_old(step)

        self.on_root(write, f"checkpoint {path} could not be written", f"step {step}")
        return path

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
        found = self.on_root(self.read_newest, f"no checkpoint in {self.folder} can be read")
        return objects.broadcast_object(found, 0, "checkpoint")

    def steps(self) -> list[int]:
        """Those that this rank sees, ascending."""
        pattern = re.compile(re.escape(self.name) + r"-(\d+)")
        matches = map(pattern.fullmatch, os.listdir(self.folder) if self.folder.is_dir() else [])
        return sorted(int(match.group(1)) for match in matches if match)

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step is.

        Parameters
        ----------
        step
            0 or more.
        """
        return self.folder / f"{self.name}-{step:010d}"

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
                trouble, cause = f"rank 0: {what}: {type(error).__name__}: {error}", error
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

    def on_all(self, act: Callable[[], Any], what: str, key: str = "") -> None:
        """Acts on every rank; the failure of one is an error of all.

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
        trouble, cause = None, None
        try:
            act()
        except BaseException as error:  # whatever it is, the others wait for the news
            trouble, cause = f"rank {api.rank()}: {what}: {type(error).__name__}: {error}", error
        outcomes = objects.allgather_object((key, trouble), "checkpoint.outcomes")
        _raise_unless_error(cause)
        if any(given != key for given, _ in outcomes):
            keys = ", ".join(f"rank {rank}: {given}" for rank, (given, _) in enumerate(outcomes))
            raise CheckpointError(
                f"rank {api.rank()}: {what}: the ranks call other things ({keys}), or a call was "
                "interrupted: call the same everywhere"
            )
        troubles = [one for _, one in outcomes if one]
        if troubles:
            raise CheckpointError(trouble or troubles[0]) from cause

    def read_newest(self) -> Checkpoint | None:
        """The newest that can be read here; damaged ones are passed over with a warning.

        Raises
        ------
        ValueError
            There are checkpoints, and none can be read.
        """
        troubles = []
        for step in reversed(self.steps()):
            path = self.path(step)
            try:
                with open(path, "rb") as file:
                    found = Checkpoint(step, self._read(file))
            except Exception as error:  # pickle raises what it likes
                trouble = f"{path}: {type(error).__name__}: {error}"
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
            self.path(step).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Removes what a process left that was killed while it wrote, of this series alone.

        Another job may write here, and perhaps on another host: what it writes stays.
        """
        pattern = re.compile(rf"\.(?:(.+)-)?(\d+)-\d+\.{re.escape(self.name)}-\d+")
        for left in filter(None, map(pattern.fullmatch, os.listdir(self.folder))):
            path = self.folder / left[0]
            with contextlib.suppress(FileNotFoundError):
                is_old = time.time() - path.stat().st_mtime > _OLD_SECONDS
                if is_old or (left[1] == socket.gethostname() and _is_dead(int(left[2]))):
                    path.unlink()


def _is_dead(process: int) -> bool:
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
