# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that rank 0 writes and reads, and all ranks take part in: never half a file."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from hvd import api, objects
from hvd.errors import CheckpointError, InvalidArgumentError

__all__ = ["Checkpoint", "CheckpointError", "Checkpoints", "write_atomically"]


def write_atomically(path: str | os.PathLike[str], write: Callable[[BinaryIO], Any]) -> None:
    """Writes a file that is there whole or not at all, whatever ends the process or the machine.

    Parameters
    ----------
    write
        Gets an open file, and writes the content to it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/note", lambda file: file.write(b"whole"))
    ...     Path(f"{folder}/note").read_text()
    'whole'
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # else the name may be lost with the machine
    finally:
        os.close(folder)


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
            On every rank, with what went wrong on rank 0. The older checkpoints are there.
        """
        if step < 0:
            raise InvalidArgumentError(f"Checkpoints.save: step is {step}; 0 or more")
        path = self.path(step)

        def write() -> None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sweep()
            write_atomically(path, lambda file: self._write(state, file))
            self._drop_old(step)

        self.on_root(write, f"checkpoint {path} could not be written")
        return path

    def load(self) -> Checkpoint | None:
        """The newest checkpoint that can be read, on every rank; None when there is none.

        Every rank calls it. Damaged ones are passed over with a warning.

        Raises
        ------
        CheckpointError
            On every rank: there are some, and none can be read.
        """
        found = self.on_root(self.read_newest, f"no checkpoint in {self.folder} can be read")
        return objects.broadcast_object(found, 0, "checkpoint")

    def steps(self) -> list[int]:
        """Those that this rank sees, ascending."""
        pattern = re.compile(re.escape(self.name) + r"-(\d+)")
        matches = map(pattern.fullmatch, os.listdir(self.folder) if self.folder.is_dir() else [])
        return sorted(int(match.group(1)) for match in matches if match)

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step is."""
        return self.folder / f"{self.name}-{step:010d}"

    def _write(self, state: Any, file: BinaryIO) -> None:
        """In which form; for subclasses."""
        pickle.dump(state, file, protocol=pickle.HIGHEST_PROTOCOL)

    def _read(self, file: BinaryIO) -> Any:
        return pickle.load(file)

    def on_root(self, act: Callable[[], Any], what: str) -> Any:
        """Acts on rank 0; its failure is an error of all. The result is that of rank 0 alone."""
        result, trouble, cause = None, None, None
        if api.rank() == 0:
            try:
                result = act()
            except Exception as error:  # whatever it is, the others wait for the news
                trouble, cause = f"rank 0: {what}: {type(error).__name__}: {error}", error
        trouble = objects.broadcast_object(trouble, 0, "checkpoint.outcome")
        if trouble is not None:
            raise CheckpointError(trouble) from cause
        return result

    def read_newest(self) -> Checkpoint | None:
        """The newest that can be read here; damaged ones are passed over with a warning."""
        troubles = []
        for step in reversed(self.steps()):
            try:
                with open(self.path(step), "rb") as file:
                    found = Checkpoint(step, self._read(file))
            except Exception as error:  # pickle raises what it likes
                troubles.append(f"{self.path(step)}: {type(error).__name__}: {error}")
                continue
            for trouble in troubles:
                warnings.warn(f"damaged checkpoint passed over: {trouble}", stacklevel=2)
            return found
        if troubles:
            raise ValueError("; ".join(troubles))
        return None

    def _drop_old(self, newest: int) -> None:
        steps = [step for step in self.steps() if step != newest]
        for step in steps[: max(len(steps) + 1 - self.keep, 0)] if self.keep else []:
            self.path(step).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Removes what a process left that was killed while it wrote."""
        for left in self.folder.glob(f".{self.name}-*.tmp"):
            left.unlink(missing_ok=True)
