# SPDX-License-Identifier: Apache-2.0
"""Process sets: collectives among some of the ranks."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from hvd import _lib, api
from hvd._lib import quick, waiting
from hvd.errors import InvalidArgumentError


class ProcessSet:
    """Some ranks of the job; the argument ``process_set`` of the operations.

    Parameters
    ----------
    ranks
        Ranks of the job, in any order.

    >>> ProcessSet([2, 0]).ranks
    [0, 2]
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self.process_set_id: int | None = None
        self.ranks: list[int] | None = sorted(int(rank) for rank in ranks)

    def _id(self) -> int:
        if self.process_set_id is None:
            raise InvalidArgumentError(
                f"the process set of ranks {self.ranks} is not there: pass it to hvd.init() or "
                "hvd.add_process_set() first"
            )
        return self.process_set_id

    def size(self) -> int:
        """The number of its ranks."""
        return api.number(quick.hvd_process_set_size(self._id()))

    def rank(self) -> int:
        """The place of this rank among them; -1 when it is not in the set."""
        self.size()
        return quick.hvd_process_set_rank(self._id())

    def included(self) -> bool:
        """True when this rank is in the set."""
        return self.rank() >= 0

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _GlobalProcessSet(ProcessSet):
    """All ranks of the job."""

    def __init__(self) -> None:
        super().__init__([])
        self.process_set_id = 0

    @property
    def ranks(self) -> list[int] | None:  # type: ignore[override]
        return list(range(api.size())) if api.is_initialized() else None

    @ranks.setter
    def ranks(self, ranks: object) -> None:
        pass


global_process_set = _GlobalProcessSet()


def process_set_id(process_set: ProcessSet | int) -> int:
    """The number of a process set that is there."""
    return process_set if isinstance(process_set, int) else process_set._id()


def add_process_set(
    process_set: ProcessSet | Sequence[int], timeout: float | None = None
) -> ProcessSet:
    """Makes some ranks a process set; every rank of the job calls it with the same ranks.

    Parameters
    ----------
    timeout
        Seconds to wait for the other ranks (default: no limit).
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise InvalidArgumentError(f"{process_set} is there already")
    ranks = process_set.ranks or []
    number = ctypes.c_int32()
    api.check(
        waiting.hvd_process_set_add(
            (ctypes.c_int32 * len(ranks))(*ranks),
            len(ranks),
            -1.0 if timeout is None else timeout,
            ctypes.byref(number),
        )
    )
    process_set.process_set_id = number.value
    return process_set


def remove_process_set(process_set: ProcessSet, timeout: float | None = None) -> bool:
    """Ends a process set; every rank of the job calls it, with nothing of the set in flight.

    False when the set is that of all ranks, or is not there.
    """
    if process_set.process_set_id in (None, 0):
        return False
    number = process_set.process_set_id
    api.check(waiting.hvd_process_set_remove(number, -1.0 if timeout is None else timeout))
    process_set.process_set_id = None
    return True


def process_set_ids() -> list[int]:
    """The numbers of all process sets."""
    count = ctypes.c_uint32()
    api.check(quick.hvd_process_set_ids(None, 0, ctypes.byref(count)))
    ids = (ctypes.c_int32 * count.value)()
    api.check(quick.hvd_process_set_ids(ids, count.value, ctypes.byref(count)))
    return list(ids)


def process_set_ranks(process_set: int) -> list[int]:
    """The ranks of the process set with this number, ascending."""
    count = ctypes.c_uint32()
    api.check(quick.hvd_process_set_ranks(process_set, None, 0, ctypes.byref(count)))
    ranks = (ctypes.c_int32 * count.value)()
    api.check(quick.hvd_process_set_ranks(process_set, ranks, count.value, ctypes.byref(count)))
    return list(ranks)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the process set has called it."""
    handle = api.submit(_lib.BARRIER, waits=True, process_set=process_set_id(process_set))
    try:
        api.wait(handle)
    finally:
        api.release(handle)


def init(
    start_timeout: float | None = None,
    process_sets: Sequence[ProcessSet | Sequence[int]] | str | None = None,
) -> None:
    """Joins the job; every rank calls it once. Later calls do nothing.

    Parameters
    ----------
    start_timeout
        Seconds to wait for the other ranks (default: HVD_START_TIMEOUT_SECONDS, 120).
    process_sets
        Process sets to begin with, the same on every rank. Others may be added at any time, so
        Horovod's "dynamic" is accepted and changes nothing.
    """
    if api.is_initialized():
        return
    if isinstance(process_sets, str):
        if process_sets != "dynamic":
            raise ValueError(f"process_sets is {process_sets!r}; pass a list, or 'dynamic'")
        process_sets = None
    sets = [
        given if isinstance(given, ProcessSet) else ProcessSet(given)
        for given in process_sets or ()
    ]
    lists = (_lib.Ranks * len(sets))()
    for entry, process_set in zip(lists, sets):
        ranks = process_set.ranks or []
        entry.ranks = (ctypes.c_int32 * len(ranks))(*ranks)
        entry.count = len(ranks)
    api.start(start_timeout, lists)
    for number, process_set in enumerate(sets, start=1):
        process_set.process_set_id = number
