# SPDX-License-Identifier: Apache-2.0
"""Objects between ranks, with Horovod's arguments for TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hvd import objects
from hvd.process_sets import ProcessSet, global_process_set

__all__ = ["allgather_object", "broadcast_object", "broadcast_object_fn"]


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The object of rank `root_rank`, on every rank, at once: it is not an operation of a graph.

    Parameters
    ----------
    obj
        What pickle can take, or cloudpickle where it is installed.
    root_rank
        The rank of the job whose object it is.
    session
        As in Horovod; objects need none.
    name
        Equal on all ranks; made from the order of calls unless given.
    process_set
        The ranks that take part, each of which calls it.

    >>> broadcast_object({"epoch": 3}, root_rank=0)  # on any number of ranks
    {'epoch': 3}
    """
    del session
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """A function of one object that is ``broadcast_object`` with these arguments.

    Parameters
    ----------
    root_rank
        The rank of the job whose object it is.
    session
        As in Horovod; objects need none.
    name
        Equal on all ranks; made from the order of calls unless given.
    process_set
        The ranks that take part, each of which calls it.

    >>> broadcast_object_fn(root_rank=0)([1, 2])
    [1, 2]
    """

    def broadcast(obj: Any) -> Any:
        return broadcast_object(obj, root_rank, session, name, process_set)

    return broadcast


def allgather_object(
    obj: Any,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """The objects of all ranks, by rank, at once: it is not an operation of a graph.

    Parameters
    ----------
    obj
        What pickle can take, or cloudpickle where it is installed.
    session
        As in Horovod; objects need none.
    name
        Equal on all ranks; made from the order of calls unless given.
    process_set
        The ranks that take part, each of which calls it.

    >>> len(allgather_object("mine")) >= 1
    True
    """
    del session
    return objects.allgather_object(obj, name, process_set)
