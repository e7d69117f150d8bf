# SPDX-License-Identifier: Apache-2.0
"""Whether the ranks that train together still have the same model: digests, compared now and then.

The ranks compare one digest each, by an allreduce of 32 bytes. Only where these differ do they look
for the first tensor that does, and for the rank whose tensor is not that of the others.
"""

from __future__ import annotations

import contextlib
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from hvd import settings
from hvd._core import _lib, api, handles
from hvd._core.refusals import refused
from hvd._core.work import Min, Sum, Work
from hvd.errors import DeadlineError, MismatchError, ReplicasDifferError
from hvd.process_sets import ProcessSet, process_set_id, process_set_ranks

VARIABLE = "HVD_CHECK_REPLICAS"
# How long ranks that have seen a difference wait for each other to say where it is.
_PATIENCE_SECONDS = 60.0
# From here on a digest takes so long that other threads of Python should run meanwhile.
_LONG_BYTES = 1 << 18

Entry = tuple[str, int]


def checked_interval(every: int | None) -> int:
    """Steps from one comparison to the next that the argument `check_replicas` means; 0: none.

    >>> checked_interval(7)
    7
    """
    if every is not None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 0:
            raise refused(f"check_replicas is {every!r}: give a number of steps; 0 switches it off")
        return every
    return settings.read_number(VARIABLE)


def digest(address: int, size: int, seed: int = 0) -> int:
    """64 bits, as a signed number, that stand for CPU memory; see ``hvd_digest()``.

    >>> digest(0, 0) == digest(0, 0), digest(0, 0, 1) == digest(0, 0, 2)
    (True, False)
    """
    library = _lib.quick if size < _LONG_BYTES else _lib.waiting
    return _signed(library.hvd_digest(address, size, seed & _lib.UINT64_MAX))


def digest_text(text: str) -> int:
    """The same of a text."""
    memory = array("B", text.encode())
    return digest(memory.buffer_info()[0], len(memory))


def combined(digests: Iterable[int]) -> int:
    """One digest for many."""
    memory = array("q", digests)
    return digest(memory.buffer_info()[0], len(memory) * memory.itemsize)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def start(name: str, op: int, memory: array, process_set: int) -> int:
    address = memory.buffer_info()[0]
    work = Work(_lib.ALLREDUCE, name, op, process_set=process_set)
    flat = (_lib.DTYPES["int64"], (len(memory),), 0, address, address)
    return handles.start(work, [flat], memory, lambda handle: memory)


def both(values: Sequence[int]) -> array:
    """What an allreduce by Min makes the least and the greatest value over ranks of."""
    return array("q", [*values, *(~value for value in values)])


def differing(found: array) -> list[int]:
    """The places where that over ranks says that they differ."""
    half = len(found) // 2
    return [place for place in range(half) if found[place] != ~found[half + place]]


class _Search:
    """Finds what differs, by operations that all ranks of a process set start in one order.

    They are allreduces, in which ranks that have joined take part.
    """

    def __init__(self, name: str, process_set: int) -> None:
        self._name = name
        self._set = process_set
        self._ranks = process_set_ranks(process_set)
        self._deadline = time.monotonic() + _PATIENCE_SECONDS

    def _reduced(self, what: str, op: int, memory: array) -> array:
        handle = start(f"{self._name}.{what}", op, memory, self._set)
        api.wait(handle, self._deadline)
        return handles.synchronize(handle)  # type: ignore[no-any-return]

    def _places(self, what: str, values: Sequence[int]) -> list[int]:
        return differing(self._reduced(what, Min, both(values))) if values else []

    def by_rank(self, value: int) -> dict[int, int]:
        """The value of each rank that has not joined."""
        count, mine = len(self._ranks), self._ranks.index(api.rank())
        memory = array("q", bytes(16 * count))
        memory[mine], memory[count + mine] = value, 1
        total = self._reduced("ranks", Sum, memory)
        return {rank: total[i] for i, rank in enumerate(self._ranks) if total[count + i]}

    def difference(self, entries: Sequence[Entry]) -> str:
        """What differs, and on which rank; "" where nothing does."""
        names = [digest_text(name) for name, _ in entries]
        if self._places("names", [combined(names), len(names)]):
            return self._other_names(entries, names)
        places = self._places("digests", [value for _, value in entries])
        if not places:
            return ""
        name, value = entries[places[0]]
        others = f", and {len(places) - 1} more of {len(entries)}" if len(places) > 1 else ""
        return f"{name} {_verdict(self.by_rank(value))}{others}"

    def _other_names(self, entries: Sequence[Entry], names: list[int]) -> str:
        least = self._reduced("count", Min, array("q", [len(names)]))[0]
        places = self._places("name", names[:least])
        place = places[0] if places else least
        mine = entries[place][0] if place < len(entries) else "nothing"
        verdict = _verdict(self.by_rank(combined(names)))
        return (
            f"the list of what is compared ({len(entries)} tensors here; its place {place}, the first "
            f"that differs, has {mine} here) {verdict}"
        )


def _verdict(by_rank: dict[int, int]) -> str:
    """Whose value is the odd one."""
    (value, votes), *rest = Counter(by_rank.values()).most_common()
    shown = {rank: f"{mine & _lib.UINT64_MAX:016x}" for rank, mine in by_rank.items()}
    if 2 * votes > len(by_rank) and len(by_rank) > 2 and rest:
        odd = [rank for rank, mine in by_rank.items() if mine != value]
        told = ", ".join(f"{rank} ({shown[rank]})" for rank in odd[:8])
        more = f" and {len(odd) - 8} more" if len(odd) > 8 else ""
        some = shown[next(rank for rank, mine in by_rank.items() if mine == value)]
        ranks = "rank" if len(odd) == 1 else "ranks"
        return f"on {ranks} {told}{more} is not that of the other {votes} ranks ({some})"
    told = ", ".join(f"{shown[rank]} on rank {rank}" for rank in list(by_rank)[:8])
    more = f" and others on {len(by_rank) - 8} more" if len(by_rank) > 8 else ""
    return f"is {told}{more}"


def _fail(what: str, when: str) -> NoReturn:
    raise ReplicasDifferError(
        f"rank {api.rank()}: the replicas of the model differ{when}: {what}. Usual causes: the "
        "broadcast of parameters, or of the optimizer's state, was forgotten; a rank skipped a step, "
        "or changed parameters or gradients by itself; ranks compute on unlike CPUs, GPUs or numbers "
        f"of threads, which round differently; a bit flipped in memory. {VARIABLE}=1 finds the step "
        "where it begins, check_replicas=0 or the variable of value 0 switches the check off"
    )


def compare(
    name: str, process_set: int, entries: Callable[[], Sequence[Entry]], when: str = ""
) -> None:
    """Looks for what differs over the ranks of a process set, all of which call it.

    Parameters
    ----------
    name
        What the names of its operations begin with; equal on all ranks.
    entries
        Gives what is compared, each with its digest.
    when
        For the error: since which step.

    Raises
    ------
    ReplicasDifferError
        On every rank, with the first entry that differs; nothing is raised where none does.
    """
    try:
        found = _Search(name, process_set).difference(entries())
    except DeadlineError:
        _fail(f"ranks did not come within {_PATIENCE_SECONDS:.0f} s to say where", when)
    if found:
        _fail(found, when)


def refuse_intervals(name: str, process_set: int, every: int) -> NoReturn:
    """Says which rank compares how often, where ranks have found that they do not agree.

    Raises
    ------
    MismatchError
        On every rank.
    """
    told = "others have another value"
    with contextlib.suppress(DeadlineError):
        ranks: dict[int, list[int]] = {}
        for rank, value in _Search(name, process_set).by_rank(every).items():
            ranks.setdefault(value, []).append(rank)
        told = ", ".join(f"{value} on {_ranks(some)}" for value, some in sorted(ranks.items()))
    raise MismatchError(
        f"rank {api.rank()}: check_replicas, or {VARIABLE}, is {every} here and not the same on all "
        f"ranks: {told}; give all ranks the same number of steps, 0 to switch the comparison off"
    )


def _ranks(some: Sequence[int]) -> str:
    more = f" and {len(some) - 8} more" if len(some) > 8 else ""
    return f"rank{'s' if len(some) > 1 else ''} {', '.join(map(str, some[:8]))}{more}"


def check_now(
    name: str,
    process_set: ProcessSet,
    every: int,
    mine: Callable[[], int],
    entries: Callable[[], Sequence[Entry]],
) -> None:
    """Compares at once, on all ranks of a process set, and waits for the others.

    Parameters
    ----------
    name
        What the names of its operations begin with; equal on all ranks.
    process_set
        The ranks that compare.
    every
        The interval of this rank, which is compared as well; 0: it has nothing else to compare.
    mine
        Gives the digest of everything on this rank.
    entries
        Gives the parts of it by name, for the search.

    Raises
    ------
    MismatchError
        On every rank: they have other intervals.
    ReplicasDifferError
        On every rank: they have other values.
    """
    number = process_set_id(process_set)
    if api.process_set_rank(number) < 0 or api.process_set_size(number) < 2:
        return
    handle = start(name, Min, both([every, mine() if every else 0]), number)
    places = differing(handles.synchronize(handle))
    if 0 in places:
        refuse_intervals(name, number, every)
    if places:
        compare(name, number, entries)


def check_given(
    name: str | None,
    process_set: ProcessSet,
    mine: Callable[[], int],
    entries: Callable[[], Sequence[Entry]],
    given: int | None = None,
) -> None:
    """What ``check_replicas()`` does of all frameworks: compares, unless the variable is 0.

    Where it is 0 a rank takes part once for each name: then the others know, or all agree. Where the
    caller has an interval, it calls as often as that says, and once where that is 0.
    """
    every = checked_interval(given)
    full = f"replicas.{name or 'given'}"
    known = (full, process_set_id(process_set))
    if every or given is not None or known not in _off:
        check_now(full, process_set, every, mine, entries)
    if not every and given is None:
        _off.add(known)


_off: set[tuple[str, int]] = set()  # what the ranks agree not to compare in this job

api.at_start(_off.clear)
