# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks, carried by gloo: one connection per pair of ranks that use one."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as _c10d

from hvd._core import _lib, api
from hvd._core.work import Work
from hvd.errors import AbortedError, HvdError, InvalidArgumentError

_NO_SET = 2**31 - 1  # no process set has this number
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.1  # seconds
_ABORT_TAG = 2**31 - 1  # no message has it
_LOOK_SECONDS = 0.5
_PATIENCE_SECONDS = 0.3  # so long after a closed connection gloo has ended whatever it will end
# A thread that comes back from C++ when the interpreter has gone ends the program with SIGABRT.
_END_SECONDS = 1.0

# By job and label of the process group: two of one label would find each other's keys.
_eras: dict[tuple[int, str], count[int]] = {}


def loss() -> HvdError | None:
    """Why the job has ended, as far as this rank knows; None while it runs."""
    try:
        api.submit(Work(_lib.BARRIER, process_set=_NO_SET))
    except InvalidArgumentError:
        return None
    except HvdError as error:
        return error
    return None


class _PatientStore(dist.Store):
    """The keys of one pair in a store whose own wait would keep other threads from it."""

    def __init__(self, store: Any, prefix: str, seconds: float, check: Callable[[], None]) -> None:
        super().__init__()
        self._seconds = seconds
        self._store = store
        self._prefix = prefix
        self._check = check
        self._pause = threading.Event()

    def set(self, key: str, value: Any) -> None:
        """For gloo, as all here."""
        self._store.set(self._prefix + key, value)
        self._store.add(self._prefix + key + "/there", 1)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._store.get(self._prefix + key)

    def add(self, key: str, amount: int) -> int:
        return self._store.add(self._prefix + key + "/sum", amount)

    def check(self, keys: list[str]) -> bool:
        return all(self._store.add(self._prefix + key + "/there", 0) > 0 for key in keys)

    def wait(self, keys: list[str], *unused: Any) -> None:
        pause = _FIRST_PAUSE
        end = time.monotonic() + self._seconds
        while not self.check(keys):
            self._check()
            if time.monotonic() > end:
                raise TimeoutError("the other rank did not come within the timeout")
            self._pause.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def delete_key(self, key: str) -> bool:
        return False

    def has_extended_api(self) -> bool:
        return False


class Links:
    """The connections of one process group to other ranks of it; each is made at its first use.

    Thread-safe.

    Parameters
    ----------
    store
        Of the process group: where two ranks find each other.
    label
        Of the process group, for messages.
    rank
        This rank's place in the group.
    ranks
        The ranks of the job that are in the group.
    timeout
        Of a connection, in seconds.
    """

    def __init__(
        self, store: Any, label: str, rank: int, ranks: Sequence[int], timeout: float
    ) -> None:
        self.label = label
        self.rank = rank
        self.ranks = list(ranks)
        self.store = store
        self.timeout = timeout
        self.era = f"{api.joins()}.{next(_eras.setdefault((api.joins(), label), count()))}"
        self._lock = threading.Lock()
        self._links: dict[int, Link] = {}
        self.is_closed = False
        _all.add(self)

    def to(self, peer: int) -> Link:
        """The connection to the rank at place `peer` of the group."""
        with self._lock:
            if self.is_closed:
                raise AbortedError(f"process group '{self.label}' has been shut down")
            if peer not in self._links:
                self._links[peer] = Link(self, peer)
            return self._links[peer]

    def close(self, what: str, tells: bool = True) -> None:
        """Closes all connections.

        Parameters
        ----------
        what
            What became of the process group, for errors.
        tells
            Whether the other ranks learn it from this one.
        """
        with self._lock:
            self.is_closed = True
            links, self._links = list(self._links.values()), {}
        for link in links:
            cause = f"process group '{self.label}' {what} on rank {self.ranks[self.rank]}"
            link.close(cause, tells)


_all: weakref.WeakSet[Links] = weakref.WeakSet()
# Of connections. A thread leaves by its end alone, for what it holds last is gloo's, in C++.
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def end() -> None:
    """Wakes all threads that wait for gloo, at the end of the program."""
    limit = time.monotonic() + _END_SECONDS
    for links in list(_all):
        links.close("ended", tells=False)
    for thread in list(_threads):
        thread.join(max(limit - time.monotonic(), 0.0))


class Posted(Protocol):
    """A message that a connection carries."""

    def post(self, gloo: Any) -> None:
        """Hands it to gloo."""

    def give_up(self) -> None:
        """The connection has ended, and gloo left it as it was; raises nothing."""


class Link:
    """The connection to one other rank, with a thread that makes and watches it. Thread-safe.

    When a connection ends, gloo wakes who waits for a message that has not begun, and nobody whose
    message is half-way. So the thread looks whether the other rank has ended it, and ends the rest.

    It ends with the first error, whose cause every later use of it names, on both ranks.

    Parameters
    ----------
    links
        Those of the process group.
    peer
        The other rank's place in the group.
    """

    def __init__(self, links: Links, peer: int) -> None:
        self._changed = threading.Condition()
        self._gloo: Any = None
        self._error: Exception | None = None  # why no connection could be made
        self._posts: list[Posted] = []
        self._under_way: weakref.WeakSet[Posted] = weakref.WeakSet()
        self.cause: str | None = None  # why it is closed
        low, high = sorted((links.rank, peer))
        self._prefix = f"hvd.pairs/{links.era}/{low}-{high}/"
        self._store = links.store
        self._place = int(links.rank > peer)
        self._timeout = links.timeout
        thread = threading.Thread(
            target=self._run, name=f"hvd-torch-link-{links.label}-{peer}", daemon=True
        )
        _threads.add(thread)
        thread.start()

    def _run(self) -> None:
        self._connect()
        self._watch()

    def _connect(self) -> None:
        gloo, error = None, None
        try:
            store = _PatientStore(self._store, self._prefix, self._timeout, self._check)
            timeout = datetime.timedelta(seconds=self._timeout)
            gloo = _c10d.ProcessGroupGloo(store, self._place, 2, timeout)
            with self._changed:
                if self.cause is None:
                    for message in self._posts:
                        message.post(gloo)
                    self._gloo = gloo
        except Exception as failure:
            error = failure
        with self._changed:
            self._error = error
            self._posts.clear()
            self._changed.notify_all()
        if gloo is not None and self._gloo is None:
            _abort(gloo)

    def _watch(self) -> None:
        while self.cause is None and self._error is None:
            with self._changed:
                self._changed.wait_for(lambda: self._under_way or self.cause)
                self._changed.wait_for(lambda: self.cause, _LOOK_SECONDS)
                is_used = bool(self._under_way)
            if is_used and self.cause is None:
                cause = loss() or self.told()
                if cause is not None:
                    self.close(str(cause), tells=False)
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, _PATIENCE_SECONDS)
            left = list(self._under_way)
        for message in left:
            message.give_up()

    def _check(self) -> None:
        """Raises where no connection will come any more."""
        error = loss()
        if error is not None:
            raise error
        cause = self.cause or self.told()
        if cause is not None:
            raise AbortedError(cause)

    def told(self) -> str | None:
        """Why the other rank has closed it, or this one."""
        with contextlib.suppress(Exception):  # the store may have gone
            if self._store.add(self._prefix + "cause/there", 0) > 0:
                return str(self._store.get(self._prefix + "cause").decode())
        return None

    def _tell(self, cause: str) -> None:
        if self.told() is not None:
            return
        with contextlib.suppress(Exception):
            self._store.set(self._prefix + "cause", cause)
            self._store.add(self._prefix + "cause/there", 1)

    def post(self, message: Posted) -> None:
        """Has the message handed to gloo, in the order of these calls, once there is a connection."""
        with self._changed:
            self._raise_if_closed()
            if self._gloo is not None:
                message.post(self._gloo)
            else:
                self._posts.append(message)
            self._under_way.add(message)
            self._changed.notify_all()

    def done(self, message: Posted) -> None:
        """The message is over."""
        with self._changed:
            self._under_way.discard(message)
            self._changed.notify_all()

    def await_connection(self) -> Any:
        """Returns gloo's connection when it is there; raises why there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self._gloo or self._error or self.cause)
            self._raise_if_closed()
            return self._gloo

    def _raise_if_closed(self) -> None:
        if self.cause is not None:
            raise AbortedError(self.cause)
        if self._error is not None:
            raise self._error

    def close(self, cause: str, tells: bool = True) -> None:
        """What is under way fails, here and at the other rank.

        Parameters
        ----------
        cause
            Why; the first one counts.
        tells
            Whether the other rank may learn it from this one, if something is under way.
        """
        with self._changed:
            if self.cause is not None:
                return
            self.cause = cause
            # It lives on for the threads that wait within it.
            gloo, is_used = self._gloo, bool(self._under_way)
            self._changed.notify_all()
        if is_used:
            if tells:
                self._tell(cause)  # before the other rank sees that it is closed
            if gloo is not None:
                _abort(gloo)


def _abort(gloo: Any) -> None:
    """Ends what is under way with gloo.

    It has no call for that in older versions. But a wait that comes to its timeout closes all
    connections of its context, which ends the other waits, too.
    """
    with contextlib.suppress(Exception):
        receives = gloo.recv([torch.empty(1)], 1 - gloo.rank(), _ABORT_TAG)
        receives.wait(datetime.timedelta(milliseconds=1))
