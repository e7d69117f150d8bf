# SPDX-License-Identifier: Apache-2.0
"""Files of torch.save, written by a thread that leaves the interpreter to the training.

The writer of PyTorch 1.13 keeps the interpreter while it computes the checksum of a tensor and copies
it: 0.1 s for 100 MB. Newer ones need no other.
"""

from __future__ import annotations

import inspect
import pickle
import zipfile
from typing import Any, BinaryIO

import torch

from hvd._core import _lib

# Tensors begin at multiples of this, as in files of PyTorch, whose readers may map them.
_ALIGNMENT = 64
_VERSION = b"3\n"
_LOCAL_HEADER_BYTES = 30
_FIELD_HEADER_BYTES = 4
_ZIP64_FIELD_BYTES = 20
# What PyTorch calls the field that it pads with.
_PADDING_FIELD = b"FB"
_ZIP64_FROM_BYTES = 1 << 31


class Records:
    """What PyTorch has a zip file for: records with a name."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)

    def write_record(self, name: str, data: Any, size: int) -> None:
        """For torch: of bytes or of the address of a storage."""
        entry = zipfile.ZipInfo(f"archive/{name}")
        is_large = size >= _ZIP64_FROM_BYTES
        before = self._zip.fp.tell() + _LOCAL_HEADER_BYTES + len(entry.filename)  # type: ignore
        before += _FIELD_HEADER_BYTES + (_ZIP64_FIELD_BYTES if is_large else 0)
        padding = -before % _ALIGNMENT
        entry.extra = _PADDING_FIELD + padding.to_bytes(2, "little") + b"Z" * padding
        entry.file_size = size
        with self._zip.open(entry, "w", force_zip64=is_large) as record:
            record.write(_memory(data, size))

    def finish(self) -> None:
        """Writes what stands at the end."""
        self.write_record("version", _VERSION, len(_VERSION))
        self._zip.close()

    def give_up(self) -> None:
        """From now on nothing is written, not even when Python frees it."""
        self._zip.fp = None


def _memory(data: Any, size: int) -> memoryview:
    if not isinstance(data, int):
        return memoryview(data)
    return _lib.memory_at(data, size) if size else memoryview(b"")


def may_save() -> bool:
    """Whether this PyTorch is one of those that hand their records to whoever is given.

    >>> may_save() in (True, False)
    True
    """
    function = getattr(torch.serialization, "_save", None)
    names = list(inspect.signature(function).parameters) if function else []
    return names == ["obj", "zip_file", "pickle_module", "pickle_protocol"]


def save(state: Any, file: BinaryIO) -> None:
    """Writes what ``torch.save(state, file)`` would.

    Parameters
    ----------
    state
        What torch.save takes.
    file
        Is written from its beginning to its end.

    >>> import io
    >>> file = io.BytesIO()
    >>> (save if may_save() else torch.save)({"weight": torch.ones(2)}, file)
    >>> torch.load(io.BytesIO(file.getvalue()))
    {'weight': tensor([1., 1.])}
    """
    records = Records(file)
    try:
        torch.serialization._save(state, records, pickle, 2)  # type: ignore[attr-defined,call-arg]
        records.finish()
    except BaseException:
        records.give_up()
        raise
