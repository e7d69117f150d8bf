# SPDX-License-Identifier: Apache-2.0
"""The files of checkpoints of PyTorch, with the folders of what ranks save as their own."""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import socket
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import torch

from hvd import checkpoints
from hvd._core import api
from hvd._core.whole_files import DamagedError
from hvd.errors import CheckpointError
from hvd.torch import part_files, records, shards


class _Remembering:
    """A file whose write never fails: the first error is kept.

    In some versions of PyTorch the writer that met an error meets it again in its destructor, which ends the
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


class Files(checkpoints.Checkpoints):
    def make_folder(self, step: int) -> str:
        """For the parts of one attempt."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sweep()
        name = part_files.folder_name(self.path(step))
        (self.folder / name).mkdir()
        return name

    def complete(self, step: int, parts: str) -> None:
        """A checkpoint has come, with its parts in this folder."""
        self._remove_parts(step, parts)
        self._drop_old(step)

    def _put(self, step: int, write: Callable[[BinaryIO], Any]) -> None:
        super()._put(step, write)
        self._remove_parts(step)

    def _remove(self, step: int) -> None:
        super()._remove(step)
        self._remove_parts(step)

    def _remove_parts(self, step: int, but: str | None = None) -> None:
        for name, owner in self._part_folders():
            if owner.step == step and name != but:
                shutil.rmtree(self.folder / name, ignore_errors=True)

    def _part_folders(self) -> list[tuple[str, part_files.Owner]]:
        pairs = [(name, part_files.Owner.of(self.name, name)) for name in os.listdir(self.folder)]
        return [(name, owner) for name, owner in pairs if owner]

    def _sweep(self) -> None:
        """Parts of checkpoints that were never complete, too, by the same rules; it has none itself."""
        super()._sweep()
        complete = set(self.steps())
        for name, owner in self._part_folders():
            path = self.folder / name
            with contextlib.suppress(FileNotFoundError):
                is_old = time.time() - path.stat().st_mtime > checkpoints.OLD_SECONDS
                is_dead = owner.host == socket.gethostname() and checkpoints.is_dead(owner.process)
                if owner.step not in complete and (is_old or is_dead):
                    shutil.rmtree(path, ignore_errors=True)

    def _write(self, state: Any, file: BinaryIO) -> None:
        if records.may_save():
            records.save(state, file)
            return
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

    def read_head(self, names: list[str], below: int | None, troubles: list[str]) -> Any:
        """What rank 0 reads, and what the others have to know of it: None, unless there are parts."""
        while True:
            newest = self.read_newest(below)
            if newest is None:
                if troubles:
                    raise ValueError("; ".join(troubles))
                return None, None
            for name in names:
                if newest.state[name] is None:
                    raise ValueError(f"{self.path(newest.step)} was saved without {name}")
            folder = newest.state.get("parts")
            if folder is None:
                return newest, None
            try:
                parts = part_files.read_index(self.folder / folder)
                return newest, (newest.step, folder, parts)
            except DamagedError as error:
                troubles.append(str(error))
                self.warn(str(error))
                below = newest.step

    def damage(self, folder: str, parts: list[shards.Part]) -> str | None:
        """What is wrong with those that this rank has to look at."""
        path = self.folder / folder
        if not part_files.is_seen(path, part_files.FOLDER_SECONDS):
            raise FileNotFoundError(
                f"{socket.gethostname()} does not see {path.absolute()}, which rank 0 sees: what ranks "
                "saved as their own must be on a file system of all ranks"
            )
        mine = shards.parts_of(len(parts), api.size(), api.rank())
        damages = (part_files.damage_of(path, parts[rank]) for rank in mine)
        return next(filter(None, damages), None)

    def read_part(self, folder: str, parts: list[shards.Part], rank: int) -> Any:
        path = self.folder / folder
        damage = part_files.damage_of(path, parts[rank])
        if damage:
            raise CheckpointError(f"rank {api.rank()}: {damage}")
        with open(path / parts[rank].name, "rb") as file:
            return self._read(file)

    def warn(self, trouble: str) -> None:
        warnings.warn(f"damaged checkpoint passed over: {trouble}", stacklevel=5)
