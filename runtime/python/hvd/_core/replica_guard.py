# SPDX-License-Identifier: Apache-2.0
"""Compares replicas every so many steps, while training goes on."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable, Sequence

from hvd import replicas
from hvd._core import api, handles
from hvd._core.work import Min
from hvd.process_sets import ProcessSet, process_set_id
from hvd.replicas import Entry, both, check_now, compare, differing, refuse_intervals

_NEVER = 1 << 62


class Reading:
    """A digest that may still be on its way from a device."""

    is_late = False

    def __init__(self, value: int = 0) -> None:
        self._value = value

    def value(self) -> int:
        """The digest; waits for it."""
        return self._value


class Guard:
    """Compares replicas every so many steps, without a wait; one thread at a time.

    Ranks must submit the same operations, though one of them may have skipped a step. What they
    have in common is the number of reductions that are over: none goes on without the others. So
    that number alone says what is due: at a multiple of `every` the digest is taken and sent, one
    reduction later its outcome is read. Both happen after the step or, where a rank takes none,
    before it next waits for gradients of others.

    Parameters
    ----------
    every
        Reductions from one comparison to the next; 0: never. The ranks compare this number first.
    process_set
        The ranks that train together.
    reading
        Gives the digest of everything.
    entries
        Gives the parts of it by name, for the search.
    first
        The reduction after which it compares for the first time.
    kind
        Equal on all ranks, and if possible no other guard's. Those that share it are told apart by
        the order in which they were made: ranks may use them in any.
    """

    def __init__(
        self,
        every: int,
        process_set: ProcessSet,
        reading: Callable[[], Reading],
        entries: Callable[[], Sequence[Entry]],
        first: int = 1,
        kind: str = "",
    ) -> None:
        self._every = every
        self._process_set = process_set
        self._reading, self._entries = reading, entries
        self._first = first
        # Where the framework has a name that is equal on all ranks and no other optimizer's.
        self.label: Callable[[], str] | None = None
        self._kind = kind
        self._is_paused = False
        self._restart()
        self._enter()
        self.serial = next(_serials)
        _guards.add(self)

    def _enter(self) -> None:
        """Takes its place among those of its kind."""
        self._number: int | None = None
        made = _made.setdefault(self._kind, [])
        self._place = len(made)
        made.append(self._process_set)

    def _restart(self) -> None:
        self.reductions = 0  # that are over, in this job and since the last join
        self._read: Reading | None = None
        self._handle: int | None = None
        self._due = self._next = self._first

    def begin(self, process_set: int | None) -> None:
        """Counts anew: the job has begun, or all ranks of a process set have joined."""
        if process_set is None:
            self._enter()
        elif not self.is_in(process_set):
            return
        elif self._handle is not None and handles.poll(self._handle):
            handles.synchronize(self._handle)
        _busy.discard(self)
        self._restart()

    def pause(self, is_paused: bool = True) -> None:
        """Compares nothing until a broadcast has made the ranks equal; alike on all ranks."""
        self._is_paused = is_paused
        self._restart()

    def is_in(self, process_set: int) -> bool:
        """True where it compares the ranks of the process set with this number."""
        return self._process_set.process_set_id == process_set

    def settle(self, process_set: int) -> None:
        """Ends what is under way in a process set, which is going to be removed."""
        if not self.is_in(process_set):
            return
        self.act()
        if self._read is not None:
            self._send()
        if self._handle is not None:
            self._look()

    def name(self) -> str:
        """What the names of its operations begin with."""
        if self.label is not None:
            return f"{self.label()}.replicas"
        if self._number is None:
            number = process_set_id(self._process_set)
            before = _made[self._kind][: self._place]
            self._number = sum(one.process_set_id == number for one in before)
        return f"replicas.{self._kind}.{self._number}"

    def act(self) -> None:
        """Does what is due: after each step, and right before a wait for gradients of others."""
        if self.reductions < self._next or self._is_paused:
            return
        if self._handle is not None:
            self._look()
        elif self._read is not None:
            self._send()
        if self._handle is None and self._read is None and self.reductions >= self._due:
            self._due, self._read = _NEVER, Reading()
            if self._every:
                self._due = (self.reductions // self._every + 1) * self._every
                self._read = self._reading()
            if not self._read.is_late:
                self._send()
        is_busy = self._handle is not None or self._read is not None
        self._next = self.reductions + 1 if is_busy else self._due

    def _send(self) -> None:
        assert self._read is not None
        memory = both([self._every, self._read.value()])
        self._read = None
        self._handle = replicas.start(self.name(), Min, memory, process_set_id(self._process_set))
        self._sent = self.reductions
        _busy.add(self)

    def _look(self) -> None:
        assert self._handle is not None
        handle, self._handle = self._handle, None
        _busy.discard(self)
        places = differing(handles.synchronize(handle))
        number = process_set_id(self._process_set)
        if 0 in places:
            refuse_intervals(self.name(), number, self._every)
        if places:
            # Where it finds nothing they have kinds of NaN, or a broadcast has come meanwhile.
            compare(self.name(), number, self._entries, f", since step {self._sent} or before")

    def check_now(self) -> None:
        """Compares at once, for frameworks whose steps wait anyway."""
        check_now(
            self.name(),
            self._process_set,
            self._every,
            lambda: self._reading().value(),
            self._entries,
        )


_serials = itertools.count()
_guards: weakref.WeakSet[Guard] = weakref.WeakSet()
_busy: set[Guard] = set()  # those with an operation in flight, which may outlive their optimizer
# The process sets of the guards of each kind, in the order in which they were made in this job.
_made: dict[str, list[ProcessSet]] = {}


def _begin(process_set: int | None = None) -> None:
    if process_set is None:
        if _guards:
            gc.collect()  # optimizers that a former job has left must not take a place
        _made.clear()
    for guard in sorted(_guards, key=lambda one: one.serial):
        guard.begin(process_set)


def _settle(process_set: int) -> None:
    for guard in list(_guards):
        guard.settle(process_set)


api.at_start(_begin)
api.after_join(_begin)
api.before_removal(_settle)
