# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all, and that say so themselves by a checksum at their end."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

# Readers of zip files and of pickles stop before it.
_SEAL = "\nhvd-checkpoint size=%020d crc32=%08x\n"
_SEAL_BYTES = len(_SEAL % (0, 0))
_SEAL_PATTERN = re.compile(rb"\nhvd-checkpoint size=(\d{20}) crc32=([0-9a-f]{8})\n")
_READ_BYTES = 1 << 22


class DamagedError(ValueError):
    """The content of a file is not what was written."""


class Seal(NamedTuple):
    """What the end of a file says of all that stands before it."""

    size: int
    crc32: int


class Sealing:
    """A file that notes size and checksum of what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._seal = Seal(0, 0)

    def write(self, data: Any) -> int:
        """For pickle and torch.save."""
        view = memoryview(data)
        self._file.write(view)
        self._seal = Seal(self._seal.size + view.nbytes, zlib.crc32(view, self._seal.crc32))
        return view.nbytes

    def flush(self) -> None:
        self._file.flush()

    def finish(self) -> None:
        """Appends the seal."""
        self._file.write((_SEAL % self._seal).encode())


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
    publish(save_aside(Path(path), save), Path(path))


def save_aside(path: Path, save: Callable[[Path], Any]) -> Path:
    """Has a file saved beside its place, and brings it to the disk; gives the place beside."""
    writer = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    temporary = path.with_name(f".{writer}.{path.name}")
    try:
        save(temporary)
        _sync(temporary, os.O_RDONLY)
    except BaseException:
        discard(temporary)
        raise
    return temporary


def publish(temporary: Path, path: Path) -> None:
    """Gives a file that is on the disk its name, and brings the name there, too."""
    try:
        os.replace(temporary, path)
    except BaseException:
        discard(temporary)
        raise
    _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)  # else the name may be lost with the machine


def discard(temporary: Path) -> None:
    """Removes what was saved beside its place."""
    with contextlib.suppress(OSError):
        os.unlink(temporary)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_sealed(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """As ``write_atomically()``, with a seal at the end.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sealed(Path(folder) / "note", lambda file: file.write(b"whole"))
    ...     verify(Path(folder) / "note").size
    5
    """
    publish(write_sealed_aside(path, write), path)


def write_sealed_aside(path: Path, write: Callable[[BinaryIO], Any]) -> Path:
    """As ``save_aside()``, with a seal at the end."""

    def save(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            sealing = Sealing(file)
            write(sealing)  # type: ignore[arg-type]
            sealing.finish()

    return save_aside(path, save)


def seal_of(path: Path) -> Seal | None:
    """The seal of a file; None: it has none, as files of older versions."""
    match = _SEAL_PATTERN.fullmatch(_end_of(path))
    return Seal(int(match[1]), int(match[2], 16)) if match else None


def _end_of(path: Path) -> bytes:
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - _SEAL_BYTES, 0))
        return file.read()


def _was_seal(end: bytes) -> bool:
    """Whether this is a seal in which bits have changed: the letters of one are there, mostly."""
    seal = (_SEAL % (0, 0)).encode()
    letters = [place for place, letter in enumerate(seal) if not chr(letter).isdigit()]
    same = sum(end[place] == seal[place] for place in letters) if len(end) == len(seal) else 0
    return 2 * same > len(letters)


def verify(path: Path) -> Seal | None:
    """Reads a file and compares it with its seal, which it gives; a file without one passes.

    Raises
    ------
    DamagedError
        The content is not what was written.
    """
    seal = seal_of(path)
    if seal is None:
        if _was_seal(_end_of(path)):
            raise DamagedError("its checksum is damaged")
        return None
    size = path.stat().st_size - _SEAL_BYTES
    if size != seal.size:
        raise DamagedError(f"it has {size} bytes and was written with {seal.size}")
    buffer, left, crc32 = memoryview(bytearray(min(_READ_BYTES, size or 1))), size, 0
    with open(path, "rb", buffering=0) as file:
        while left:
            count = file.readinto(buffer[: min(left, len(buffer))])
            if not count:
                raise DamagedError(f"it ends {left} bytes before its checksum")
            crc32 = zlib.crc32(buffer[:count], crc32)
            left -= count
    if crc32 != seal.crc32:
        raise DamagedError(f"its checksum is {crc32:08x} and was {seal.crc32:08x}")
    return seal
