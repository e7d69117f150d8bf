# SPDX-License-Identifier: Apache-2.0
"""The files that ranks write side by side for one checkpoint, and when it is complete."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from hvd._core.background import Task, program_has_ended
from hvd._core.whole_files import (
    DamagedError,
    discard,
    publish,
    seal_of,
    verify,
    write_sealed,
    write_sealed_aside,
)
from hvd.errors import CheckpointError
from hvd.torch.shards import Part, Row

INDEX = "index"
# A network file system may take so long until one host sees what another has made.
FOLDER_SECONDS = 10.0
PART_SECONDS = 120.0
# How long a program that has ended waits for the parts of other ranks.
END_SECONDS = 60.0
_POLL_SECONDS = 0.2


class IncompleteError(CheckpointError):
    """Parts are missing, and the ranks that were to write them are not there any more."""


def part_name(rank: int, size: int) -> str:
    """Of the file of a rank.

    >>> part_name(3, 16)
    'rank-3-of-16'
    """
    return f"rank-{rank}-of-{size}"


def folder_name(path: Path) -> str:
    """Of a folder of parts that belongs to one attempt to write one checkpoint, and to no other."""
    return f"{path.name}.parts-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


class Owner:
    """Who made a folder of parts, by its name.

    >>> Owner.of("run", "run-0000000007.parts-node-a-41-00ff00ff").process
    41
    """

    def __init__(self, step: int, host: str, process: int) -> None:
        self.step = step
        self.host = host
        self.process = process

    @classmethod
    def of(cls, series: str, name: str) -> Owner | None:
        """None: it is no such folder of this series."""
        pattern = rf"{re.escape(series)}-(\d+)\.parts-(.+)-(\d+)-[0-9a-f]{{8}}"
        match = re.fullmatch(pattern, name)
        return cls(int(match[1]), match[2], int(match[3])) if match else None


def patience(reports: Sequence[str | None], attempt: str, size: int) -> float:
    """Seconds to look for the parts of an attempt, where ranks say whose parts they have written.

    None at all if not all who took part are among them: who writes still is lost.

    >>> patience(["a", "a"], "a", size=2) > 0, patience(["a", None], "a", size=2)
    (True, 0.0)
    """
    return PART_SECONDS if reports.count(attempt) == size else 0.0


def is_seen(folder: Path, seconds: float) -> bool:
    """Whether a folder that another rank has made is here, or comes in time."""
    deadline = time.monotonic() + seconds
    while not folder.is_dir():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Attempt:
    """One checkpoint on its way: the part of this rank, and on rank 0 what makes it complete.

    Parameters
    ----------
    folder
        Of the parts.
    rank, size
        Of this process in the job that writes it, whatever comes later.
    """

    def __init__(self, folder: Path, rank: int, size: int) -> None:
        self.folder = folder
        self.rank = rank
        self.size = size
        self._is_complete = False
        self._aside: Path | None = None
        self._deadline: float | None = None
        self._decided = threading.Event()
        self.commit: Task | None = None

    def begin(
        self,
        path: Path,
        write: Callable[[BinaryIO], Any],
        write_main: Callable[[BinaryIO], Any] | None,
    ) -> Task:
        """Has the part written, and on rank 0 the file that makes the checkpoint, under another name.

        Parameters
        ----------
        path
            The checkpoint.
        write
            Writes the part to an open file.
        write_main
            Writes the file of the checkpoint; None: not on this rank.
        """
        what = f"writing part {self.rank} of {self.size} of checkpoint {path}"
        part = self.folder / part_name(self.rank, self.size)

        def act() -> None:
            write_sealed(part, write)
            if write_main is not None:
                self._aside = write_sealed_aside(path, write_main)

        self._task = Task(what, act)
        return self._task

    def begin_commit(
        self, path: Path, tables: list[dict[str, Row]], then: Callable[[], Any]
    ) -> None:
        """On rank 0: has the checkpoint made complete once all parts are there.

        Parameters
        ----------
        path
            The checkpoint.
        tables
            What is to be known of the slices of each rank.
        then
            Called at the end.
        """

        def act() -> None:
            if self._task.outcome(tells=False) is None:
                try:
                    self._await_parts()
                    self._write_index(tables)
                except BaseException:
                    discard(self._aside)  # type: ignore[arg-type]
                    raise
                publish(self._aside, path)  # type: ignore[arg-type]
                self._is_complete = True
                then()

        self.commit = Task(f"completing checkpoint {path}", act)

    def decide(self, seconds: float) -> None:
        """No rank writes any more: look for so long, and no longer."""
        self._deadline = time.monotonic() + seconds
        self._decided.set()

    def clean_up(self) -> None:
        """Removes the parts of what was given up; no rank writes any more."""
        if not self._is_complete:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _missing(self) -> list[int]:
        if self._decided.is_set():
            # A network file system asks its server anew once this host has changed the folder.
            probe = self.folder / ".look"
            probe.touch()
            discard(probe)
        there = set(os.listdir(self.folder))
        return [rank for rank in range(self.size) if part_name(rank, self.size) not in there]

    def _await_parts(self) -> None:
        end: float | None = None
        while True:
            # Before the look: what is there at the decision counts.
            limit = self._deadline
            if limit is None and program_has_ended():
                limit = end = end or time.monotonic() + END_SECONDS
            missing = self._missing()
            if not missing:
                return
            if limit is not None and time.monotonic() >= limit:
                ranks = ", ".join(map(str, missing))
                raise IncompleteError(f"parts of ranks {ranks} of {self.size} are not there")
            if self._decided.is_set():
                time.sleep(_POLL_SECONDS)
            else:
                self._decided.wait(_POLL_SECONDS)

    def _write_index(self, tables: list[dict[str, Row]]) -> None:
        parts = []
        for rank, rows in enumerate(tables):
            name = part_name(rank, self.size)
            seal = seal_of(self.folder / name)
            if seal is None:
                raise DamagedError(f"{self.folder / name} has lost its checksum")
            plain = {key: tuple(row) for key, row in rows.items()}
            parts.append((name, seal.size, seal.crc32, plain))
        write_sealed(self.folder / INDEX, lambda file: file.write(pickle.dumps(parts, 4)))


def read_index(folder: Path) -> list[Part]:
    """What is to be known of the parts in a folder.

    Raises
    ------
    DamagedError
        It is not there, or is not what was written.
    """
    path = folder / INDEX
    if not path.is_file():
        raise DamagedError(f"{path} is not there")
    if verify(path) is None:
        raise DamagedError(f"{path} has lost its checksum")
    parts = pickle.loads(path.read_bytes())
    return [
        Part(name, size, crc32, {key: Row(*row) for key, row in rows.items()})
        for name, size, crc32, rows in parts
    ]


def damage_of(folder: Path, part: Part) -> str | None:
    """What is wrong with the file of a part, which is read for this; None: nothing."""
    path = folder / part.name
    try:
        seal = verify(path)
    except (DamagedError, FileNotFoundError) as error:
        return f"{path}: {type(error).__name__}: {error}"
    if seal != (part.size, part.crc32):
        return f"{path}: it is not the file that the index has"
    return None
