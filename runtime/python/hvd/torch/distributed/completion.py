# SPDX-License-Identifier: Apache-2.0
"""Threads that fulfil futures."""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from hvd.torch.distributed import futures

_KEPT = 256
_RESULTS_KEPT = 8
_MOST_IDLE = 2
# A callback that runs so long may wait for what comes after it, in a way that nobody sees.
_PATIENCE_SECONDS = 0.02
# An operation may end before one that is older: its callback may be what another rank waits for
# before it calls the older one. That is looked for at first so soon, then less often.
_FIRST_LOOK_SECONDS = 0.001
_LOOK_SECONDS = 0.01
# A thread that comes back from C++ when the interpreter has gone ends the program with SIGABRT.
_END_SECONDS = 1.0


class Completed(Protocol):
    """What has futures."""

    def is_over(self, seconds: float) -> bool:
        """Whether it is over, or late, after at most so many seconds; raises nothing."""

    def fulfil(self) -> None:
        """Sets the futures, which runs their callbacks on this thread; raises nothing."""

    def forget_result(self) -> None:
        """It lives on only to be waited for."""


class Completions:
    """Fulfils futures of one process group.

    One thread leads: it waits for an operation, without the interpreter lock. Then another leads,
    while this one runs the callbacks. Callbacks start in the order in which the operations end,
    each after the one before it has ended or waits for something. So there are as many threads as
    callbacks that wait, and two more; they exist from the first future on. Thread-safe.

    Parameters
    ----------
    label
        For the names of the threads.
    keeps
        Whether the latest works are kept: where C++ alone holds a Work that Python made, older
        versions of PyTorch lose its Python half, and a wait for it would never end.
    """

    def __init__(self, label: str, keeps: bool) -> None:
        self._label = label
        self.keeps = keeps
        self._kept: collections.deque[Any] = collections.deque(maxlen=_KEPT)
        self._changed = threading.Condition()
        self._queue: collections.deque[Completed] = collections.deque()
        self._leads = False  # a thread waits for an operation, or for its turn
        self._idle = 0  # threads that wait for work
        self._running = 0  # threads in callbacks
        self._waiting = 0  # those of them that wait
        self._stopped = False
        self._ending = False
        self._threads = 0
        _all.add(self)

    def keep(self, work: Completed) -> None:
        """Keeps a work for as long as C++ may wait for it, and its result a while."""
        if not self.keeps:
            return
        self._kept.append(work)
        if len(self._kept) > _RESULTS_KEPT:
            self._kept[-1 - _RESULTS_KEPT].forget_result()

    def add(self, work: Completed) -> None:
        """To be fulfilled, after those before it."""
        with self._changed:
            self._queue.append(work)
            self._stopped = False
            self._find_leader()

    def stop(self) -> None:
        """Ends the threads after what is under way."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def end(self) -> None:
        """Ends the threads at the end of the program, except those in callbacks that do not."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._threads == 0, _END_SECONDS)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around whatever a callback waits for: the next one may start."""
        with self._changed:
            self._waiting += 1
            self._tell_leader()
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1

    def _find_leader(self) -> None:
        # At the end of the program no thread starts any more; what is queued stays alive.
        if self._leads or self._ending or not self._queue:
            return
        if self._idle:
            self._changed.notify()  # where nobody leads, only idle threads wait
            return
        self._idle += 1
        self._threads += 1
        name = f"hvd-torch-group-{self._label}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        futures.serve(self.waiting)
        try:
            self._serve()
        finally:
            with self._changed:
                self._threads -= 1
                self._changed.notify_all()

    def _serve(self) -> None:
        while self._take_lead():
            work = self._await_one()
            if work is None:
                return
            with self._changed:
                self._changed.wait_for(self._is_my_turn, _PATIENCE_SECONDS)
                self._leads = False
                self._running += 1
                self._find_leader()
            work.fulfil()
            del work  # its tensors may be freed while the next one is awaited
            with self._changed:
                self._running -= 1
                self._idle += 1
                self._tell_leader()

    def _tell_leader(self) -> None:
        # It may wait for its turn; idle threads that wake for nothing take the interpreter lock.
        if self._leads:
            self._changed.notify_all()

    def _is_my_turn(self) -> bool:
        return self._running <= self._waiting

    def _take_lead(self) -> bool:
        """False where this thread is not needed any more."""
        with self._changed:
            while self._leads or not self._queue:
                is_unwanted = self._idle > _MOST_IDLE or (self._stopped and not self._queue)
                if is_unwanted or self._ending:
                    self._idle -= 1
                    return False
                self._changed.wait()
            self._idle -= 1
            self._leads = True
            return True

    def _await_one(self) -> Completed | None:
        """The oldest work, unless it takes long and another is over; None at the end."""
        seconds = _FIRST_LOOK_SECONDS
        while not self._ending:
            with self._changed:
                queue = list(self._queue) if seconds > _FIRST_LOOK_SECONDS else [self._queue[0]]
            for index, work in enumerate(queue):
                if work.is_over(0.0 if index else seconds):
                    with self._changed:
                        self._queue.remove(work)
                    return work
            seconds = min(2 * seconds, _LOOK_SECONDS)
        return None


_all: weakref.WeakSet[Completions] = weakref.WeakSet()


def end() -> None:
    """Ends the threads of all process groups at the end of the program."""
    for completions in list(_all):
        completions.end()
