# SPDX-License-Identifier: Apache-2.0
"""Process sets: collectives among some of the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvd._core import _lib, api, newcomers
from hvd._core._lib import quick, waiting
from hvd._core.communicators import check_world, handle_of, is_communicator
from hvd._core.refusals import refused
from hvd._core.work import Work
from hvd.errors import UnsupportedError

# What init() was given; an elastic job that starts again has these again.
_of_init: list[ProcessSet] = []
_is_again = False


class ProcessSet:
    """Some ranks of the job; the argument ``process_set`` of the operations.

    Parameters
    ----------
    ranks_or_comm
        Ranks of the job, in any order; or the communicator of mpi4py that this rank is in, see
        :meth:`from_mpi`.

    >>> ProcessSet([2, 0]).ranks
    [0, 2]
    """

    def __init__(self, ranks_or_comm: Sequence[int] | Any) -> None:
        self._number: int | None = None
        self._job = 0
        self.mpi_comm: Any = None
        self.ranks: list[int] | None = None
        if is_communicator(ranks_or_comm):
            self.mpi_comm = ranks_or_comm
        else:
            self.ranks = sorted(int(rank) for rank in ranks_or_comm)

    @classmethod
    def from_mpi(cls, communicator: Any) -> ProcessSet:
        """The ranks of a communicator of mpi4py: ``MPI.COMM_WORLD.Split(rank % 2)``.

        Each rank gives the one that it is in, or ``MPI.COMM_NULL``; those of a split world become
        a process set each. ``ranks`` is None until the set is added. Without a communicator of its
        own a rank gets the first of the sets.

        Parameters
        ----------
        communicator
            Of mpi4py; each rank gives its own.

        Raises
        ------
        InvalidArgumentError
            It is not a communicator.
        """
        if not is_communicator(communicator):
            raise refused(
                f"{communicator!r} is not a communicator of mpi4py; pass ranks to hvd.ProcessSet()"
            )
        return cls(communicator)

    @property
    def process_set_id(self) -> int | None:
        """Its number; None until it is added, and after the job that it was added to."""
        return self._number if self._job == api.job() else None

    @process_set_id.setter
    def process_set_id(self, number: int | None) -> None:
        self._number, self._job = number, api.job()

    def _id(self) -> int:
        number = self.process_set_id
        if number is None:
            raise refused(
                f"the process set of ranks {self.ranks} is not there: pass it to hvd.init() or "
                "hvd.add_process_set() first"
            )
        return number

    def size(self) -> int:
        """The number of its ranks."""
        return api.process_set_size(self._id())

    def rank(self) -> int:
        """The place of this rank among them; -1 when it is not in the set."""
        return api.process_set_rank(self._id())

    def included(self) -> bool:
        """True when this rank is in the set."""
        return self.rank() >= 0

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _GlobalProcessSet(ProcessSet):
    """All ranks of the job."""

    process_set_id = 0  # type: ignore[assignment]  # of every job

    def __init__(self) -> None:
        super().__init__([])

    @property
    def ranks(self) -> list[int] | None:  # type: ignore[override]
        return list(range(api.size())) if api.is_initialized() else None

    @ranks.setter
    def ranks(self, ranks: object) -> None:
        pass


global_process_set = _GlobalProcessSet()


def process_set_id(process_set: ProcessSet | int) -> int:
    """The number of a process set that is there."""
    try:
        return process_set if isinstance(process_set, int) else process_set._id()
    except AttributeError:
        raise refused(
            f"process_set is {process_set!r}: a ProcessSet is needed, as hvd.add_process_set() of "
            "some ranks returns it"
        ) from None


def add_process_set(
    process_set: ProcessSet | Sequence[int] | Any, timeout: float | None = None
) -> ProcessSet:
    """Makes some ranks a process set; every rank of the job calls it with the same ranks.

    An MPI communicator may differ by rank: see :meth:`ProcessSet.from_mpi`.

    Parameters
    ----------
    process_set
        Ranks of the job, a communicator of mpi4py, or a ``ProcessSet`` of either.
    timeout
        Seconds to wait for the other ranks (default: no limit).

    Raises
    ------
    InvalidArgumentError
        The set is there already, under this object or another.

    >>> add_process_set(range(api.size()))
    Traceback (most recent call last):
    hvd.errors.InvalidArgumentError: rank ...: the ranks ... are process set 0 already; use that one
    """
    if newcomers.is_one:
        newcomers.refuse("add_process_set", api.rank())
    return _add(process_set, timeout)


def _add(process_set: ProcessSet | Sequence[int] | Any, timeout: float | None = None) -> ProcessSet:
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        began_late = _is_again or newcomers.began_late()
        if began_late and any(process_set is one for one in _of_init):
            return process_set  # A reset callback adds what has come back by itself.
        raise refused(f"{process_set} is there already; use it")
    limit = -1.0 if timeout is None else timeout
    number = _lib.c_int32()
    if process_set.mpi_comm is not None:
        address, size = handle_of(process_set.mpi_comm)
        api.check(waiting.hvd_process_set_add_mpi(address, size, limit, _lib.byref(number)))
        process_set.ranks = process_set_ranks(number.value)
    else:
        ranks = process_set.ranks or []
        list_of_ranks = (_lib.c_int32 * len(ranks))(*ranks)
        api.check(waiting.hvd_process_set_add(list_of_ranks, len(ranks), limit, _lib.byref(number)))
    process_set.process_set_id = number.value
    return process_set


def remove_process_set(process_set: ProcessSet | int, timeout: float | None = None) -> bool:
    """Ends a process set; every rank of the job calls it, with nothing of the set in flight.

    A number serves where ranks hold different sets, of a split communicator. False when the set is
    that of all ranks, or is not there.

    Parameters
    ----------
    process_set
        What ``add_process_set()`` returned, or its number.
    timeout
        Seconds to wait for the other ranks (default: no limit).

    >>> remove_process_set(global_process_set)
    False
    """
    if newcomers.is_one:
        newcomers.refuse("remove_process_set", api.rank())
    if isinstance(process_set, int):
        process_set = _numbered(process_set)
    number = process_set.process_set_id
    if not number:
        return False
    api.act_before_removal(number)
    api.check(waiting.hvd_process_set_remove(number, -1.0 if timeout is None else timeout))
    process_set.process_set_id = None
    return True


def _numbered(number: int) -> ProcessSet:
    known = ProcessSet(process_set_ranks(number))
    known.process_set_id = number
    return known


def process_set_ids() -> list[int]:
    """The numbers of all process sets.

    >>> 0 in process_set_ids()  # the set of all ranks
    True
    """
    count = _lib.c_uint32()
    api.check(quick.hvd_process_set_ids(None, 0, _lib.byref(count)))
    ids = (_lib.c_int32 * count.value)()
    api.check(quick.hvd_process_set_ids(ids, count.value, _lib.byref(count)))
    return list(ids)


def process_set_ranks(process_set: int) -> list[int]:
    """The ranks of the process set with this number, ascending.

    Parameters
    ----------
    process_set
        A number of ``process_set_ids()``.

    >>> process_set_ranks(0) == list(range(api.size()))
    True
    """
    count = _lib.c_uint32()
    api.check(quick.hvd_process_set_ranks(process_set, None, 0, _lib.byref(count)))
    ranks = (_lib.c_int32 * count.value)()
    api.check(quick.hvd_process_set_ranks(process_set, ranks, count.value, _lib.byref(count)))
    return list(ranks)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the process set has called it.

    Parameters
    ----------
    process_set
        The ranks that take part, each of which calls it.

    >>> barrier()
    """
    handle = api.submit(Work(_lib.BARRIER, process_set=process_set_id(process_set)), waits=True)
    try:
        api.wait(handle)
    finally:
        api.release(handle)


def join(
    device: int = -1,
    process_set: ProcessSet = global_process_set,
    average: str = "all",
) -> int:
    """This rank has no more data; takes part in the others' allreduces until all have joined.

    Parameters
    ----------
    device
        For Horovod's scripts; not used.
    process_set
        Whose others; this rank must be in it.
    average
        What averages divide by meanwhile: "all" ranks of the set, or the "active" ones, which have
        not joined. The same on every rank.

    Returns
    -------
    int
        The last rank to join.

    Raises
    ------
    InvalidArgumentError
        `average` is another word.

    >>> join() in range(api.size())  # the last rank that joined
    True
    """
    if average not in ("all", "active"):
        raise refused(f"join: average is {average!r}; say 'all' or 'active'")
    last, number = _lib.c_int32(), process_set_id(process_set)
    while True:
        status = waiting.hvd_join(number, average == "active", api.SLICE_SECONDS, _lib.byref(last))
        if status != _lib.TIMEOUT:
            api.check(status)
            api.act_after_join(number)
            return last.value


def init(
    comm: Sequence[int] | Any = None,
    process_sets: Sequence[ProcessSet | Sequence[int] | Any] | str | None = None,
    start_timeout: float | None = None,
) -> None:
    """Joins the job; every rank calls it once. Later calls do nothing.

    Parameters
    ----------
    comm
        As in Horovod, but only of all ranks in the launcher's order: their list, a communicator of
        mpi4py, or a list of those, whose second and further ones become process sets.
    process_sets
        Process sets to begin with: ranks, the same on every rank, or communicators of mpi4py, as
        :meth:`ProcessSet.from_mpi` says. Others may be added at any time, so Horovod's "dynamic" is
        accepted and changes nothing.
    start_timeout
        Seconds to wait for the other ranks (default: HVD_START_TIMEOUT_SECONDS, 120).

    Raises
    ------
    InvalidArgumentError
        `comm` does not hold all ranks in the launcher's order, or `process_sets` is neither.

    >>> init()  # again: nothing happens
    >>> api.is_initialized()
    True
    """
    if api.is_initialized():
        return
    if isinstance(process_sets, str):
        if process_sets != "dynamic":
            raise refused(f"process_sets is {process_sets!r}; pass a list, or 'dynamic'")
        process_sets = None
    world, parts = _split_communicators(comm)
    sets = [
        given if isinstance(given, ProcessSet) else ProcessSet(given)
        for given in [*parts, *(process_sets or ())]
    ]
    global _of_init
    _of_init = sets
    # The library numbers them in their order; it asks MPI of communicators once it runs.
    late = next((i for i, one in enumerate(sets) if one.mpi_comm is not None), len(sets))
    lists = (_lib.Ranks * late)()
    for entry, process_set in zip(lists, sets):
        ranks = process_set.ranks or []
        entry.ranks = (_lib.c_int32 * len(ranks))(*ranks)
        entry.count = len(ranks)
    api.start(start_timeout, lists)
    number = 0
    for process_set in sets[:late]:
        ranks = process_set.ranks or []
        # An elastic job that has become smaller has no room for some, and others are all its ranks.
        if ranks == list(range(api.size())):
            process_set.process_set_id = 0
        elif max(ranks, default=0) < api.size():
            number += 1
            process_set.process_set_id = number
    try:
        api.act_at_start()
        _check_size(world)
        for process_set in sets[late:]:
            _add(process_set)
    except Exception:
        api.shutdown()
        for process_set in sets:
            process_set.process_set_id = None
        raise


def init_again(start_timeout: float | None = None) -> None:
    """Joins the job once more, with the process sets of ``init()`` that fit its ranks."""
    global _is_again
    _is_again = True
    init(process_sets=_of_init, start_timeout=start_timeout)


def _split_communicators(comm: Any) -> tuple[int | None, list[Any]]:
    """How many ranks the world of ``comm`` has, and the communicators for process sets."""
    if comm is None:
        return None, []
    communicators = [comm] if is_communicator(comm) else list(comm)
    if communicators and all(is_communicator(one) for one in communicators):
        check_world(communicators[0])
        return communicators[0].size, communicators[1:]
    ranks = [int(rank) for rank in communicators]
    if ranks != list(range(len(ranks))):
        _refuse_part(ranks)
    return len(ranks) or None, []


def _check_size(world: int | None) -> None:
    if world is not None and world != api.size():
        _refuse_part(list(range(world)))


def _refuse_part(ranks: list[int]) -> None:
    raise UnsupportedError(
        f"hvd.init(comm=...) of ranks {ranks}: the job is all ranks that the launcher has started, "
        "in its order; leave comm out, and make these ranks a process set"
    )
