# SPDX-License-Identifier: Apache-2.0
"""Objects and plain numbers between ranks; no framework, and no NumPy, is needed."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Sequence
from typing import Any

from hvd._core import _lib, api, handles
from hvd._core.arguments import work_among
from hvd._core.pickles import dumps
from hvd._core.work import Sum, Work
from hvd.errors import InvalidArgumentError
from hvd.process_sets import (
    ProcessSet,
    global_process_set,
    process_set_id,
    process_set_ranks,
)

_UINT8 = _lib.DTYPES["uint8"]
_INT64 = _lib.DTYPES["int64"]
_FLOAT64 = _lib.DTYPES["float64"]


def _flat(dtype: int, memory: array) -> handles.Flat:
    """The memory as input and output of an operation."""
    address = memory.buffer_info()[0] if len(memory) else 0
    return dtype, (len(memory),), 0, address, address


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The object of rank `root_rank`, on every rank.

    Anything that pickle can take, or cloudpickle where it is installed (lambdas, closures).

    Parameters
    ----------
    obj
        What pickle can take, or cloudpickle where it is installed. Only that of `root_rank` counts.
    root_rank
        The rank of the job whose object it is.
    name
        Equal on all ranks; made from the order of calls unless given.
    process_set
        The ranks that take part, each of which calls it.

    Raises
    ------
    InvalidArgumentError
        On every rank: the object cannot be pickled.

    >>> broadcast_object({"epoch": 3}, root_rank=0)  # on any number of ranks
    {'epoch': 3}
    """
    name = f"broadcast_object.{name or 'object'}"
    number = process_set_id(process_set)
    is_root = api.rank() == root_rank
    data, trouble = _pickled(obj) if is_root else (array("B"), None)
    size = array("q", [-1 if trouble else len(data)])
    for part, dtype in (("size", _INT64), ("data", _UINT8)):
        memory = size if part == "size" else data
        work = Work(_lib.BROADCAST, f"{name}.{part}", process_set=number, root=root_rank)
        handles.run(work, [_flat(dtype, memory)], memory, lambda handle: None)
        if size[0] < 0:
            raise _cannot(name, [root_rank], trouble) from trouble
        if part == "size" and not is_root:
            data = array("B", b"\0") * size[0]
    return obj if is_root else pickle.loads(data)


def _pickled(obj: Any) -> tuple[array, Exception | None]:
    """The bytes of an object, or why there are none: the other ranks wait for the news."""
    try:
        return array("B", dumps(obj)), None
    except Exception as error:  # pickle raises what it likes, and so do objects
        return array("B"), error


def _cannot(name: str, ranks: list[int], trouble: Exception | None) -> InvalidArgumentError:
    cause = f": {trouble}" if trouble else "; see its own error"
    who = ", ".join(map(str, ranks))
    return InvalidArgumentError(f"{name}: rank {who} could not pickle its object{cause}")


def allgather_object(
    obj: Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """The objects of all ranks, by rank.

    Parameters
    ----------
    obj
        What pickle can take, or cloudpickle where it is installed.
    name
        Equal on all ranks; made from the order of calls unless given.
    process_set
        The ranks that take part, each of which calls it.

    >>> len(allgather_object("mine")) == api.size()
    True
    """
    full_name = f"allgather_object.{name or 'object'}"
    number = process_set_id(process_set)
    data, trouble = _pickled(obj)
    work = Work(_lib.ALLGATHER, full_name, process_set=number)
    dtype, shape, layout, address, _ = _flat(_UINT8, data)

    def result(handle: int) -> list[Any]:
        everything = api.gathered(handle)
        # No pickle is empty.
        failed = [place for place, rows in enumerate(everything.rows) if rows == 0]
        if failed:
            ranks = process_set_ranks(number)
            raise _cannot(full_name, [ranks[place] for place in failed], trouble) from trouble
        objects = []
        begin = 0
        for rows in everything.rows:
            objects.append(pickle.loads(_lib.bytes_at((everything.address or 0) + begin, rows)))
            begin += rows
        return objects

    return handles.run(work, [(dtype, shape, layout, address, 0)], data, result)


def allreduce_numbers(
    values: Sequence[float],
    op: int = Sum,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[float]:
    """The reduction of some numbers, as float64.

    >>> from hvd._core.work import Max
    >>> allreduce_numbers([1.0, 2.0], Max)  # on any number of ranks
    [1.0, 2.0]
    """
    memory = array("d", values)
    work = work_among(process_set, _lib.ALLREDUCE, name, op)
    return handles.run(work, [_flat(_FLOAT64, memory)], memory, lambda handle: memory.tolist())
