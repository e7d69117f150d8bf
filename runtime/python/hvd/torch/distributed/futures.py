# SPDX-License-Identifier: Apache-2.0
"""Callbacks of futures: which of their operations is which on every rank, and whether one waits.

A callback runs on a thread of ours, or at once on the thread that attaches it where the future is
done already: when that is, differs from rank to rank. The operations that it starts must have the
same names on every rank nevertheless. So they are named after the place of the callback: the
operation whose future it was attached to, then the callbacks down to this one.

PyTorch makes the futures of ``then()`` in C++, so the places are kept beside them, and methods of
``torch._C.Future`` are wrapped.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch._C import _distributed_c10d as _c10d

from hvd._core import api

_then = torch._C.Future.then
_MOST_IN_CLEAR = 80  # characters of a path; longer ones are hashed
_KEPT_APART = 1024  # callbacks of one name on futures that are not of this backend


class Place:
    """Where a callback stands: its operations and further callbacks are counted from there.

    Parameters
    ----------
    path
        The same on every rank, and for no other place of now.
    group
        Label of the process group that it began with; empty: none of ours.
    ordinal
        Which of the process groups of this process that is.
    """

    __slots__ = ("_callbacks", "_operations", "group", "ordinal", "path")

    def __init__(self, path: str, group: str, ordinal: int) -> None:
        self.path = path
        self.group = group
        self.ordinal = ordinal
        self._operations: dict[str, itertools.count[int]] = {}
        self._callbacks: dict[str, itertools.count[int]] = {}

    def name(self, group: str) -> str:
        """Of the next operation of a group that starts here."""
        number = next(self._operations.setdefault(group, itertools.count()))
        path = f"{self.path}.{number}"
        # The label of another group may differ between the ranks, as that of a node's ranks does.
        path = path if group == self.group else f"from{self.ordinal}.{path}"
        if len(path) > _MOST_IN_CLEAR:
            path = hashlib.blake2b(path.encode(), digest_size=12).hexdigest()
        return path

    def callback(self, function: Callable[..., Any]) -> Place:
        """The place of a callback that is attached here."""
        whole = getattr(function, "__qualname__", type(function).__qualname__)
        name = whole.rpartition(".")[2].strip("<>")
        number = next(self._callbacks.setdefault(name, itertools.count()))
        if not self.path:
            number %= _KEPT_APART
        return Place(f"{self.path}.{name}{number}", self.group, self.ordinal)


class _Thread(threading.local):
    """What each thread knows."""

    def __init__(self) -> None:
        self.place: Place | None = None  # of the callback that it runs
        self.made: Place | None = None  # of the future that it made last
        self.waiting: Callable[[], AbstractContextManager[None]] | None = None


_here = _Thread()
_outside = Place("", "", 0)
_places: weakref.WeakKeyDictionary[Any, Place] = weakref.WeakKeyDictionary()


def unplaced(future: Any, callback: Callable[..., Any]) -> Any:
    """The future of a callback that starts no operations."""
    return _then(future, callback)


def current() -> Place | None:
    """The place of the callback that runs on this thread; None outside of callbacks."""
    return _here.place


def register(future: Any, place: Place) -> None:
    """Callbacks of `future` are counted from `place`."""
    _places[future] = place
    _here.made = place


def serve(waiting: Callable[[], AbstractContextManager[None]]) -> None:
    """This thread fulfils futures; whatever it waits for in a callback is within `waiting()`."""
    _here.waiting = waiting


@contextmanager
def blocking() -> Iterator[None]:
    """Around a wait: where it is a callback's, others are fulfilled meanwhile."""
    if _here.waiting is None:
        yield
        return
    with _here.waiting():
        yield


def _placed(future: Any, callback: Callable[..., Any]) -> tuple[Place, Callable[..., Any]]:
    place = (_places.get(future) or _here.place or _outside).callback(callback)

    def run(given: Any) -> Any:
        outer, _here.place = _here.place, place
        try:
            return callback(given)
        finally:
            _here.place = outer

    return place, run


def _forget() -> None:
    global _outside
    _outside = Place("", "", 0)


def install() -> None:
    """Wraps what PyTorch's futures are waited for and continued by; again: does nothing.

    >>> install()
    """
    future: Any = torch._C.Future
    if future.then is not _then:
        return
    add_done_callback, wait = future.add_done_callback, future.wait
    collect_all, get_future = torch._C._collect_all, _c10d.Work.get_future

    @functools.wraps(_then)
    def placed_then(self: Any, callback: Any) -> Any:
        place, run = _placed(self, callback)
        made = _then(self, run)
        _places[made] = place
        return made

    @functools.wraps(add_done_callback)
    def placed_callback(self: Any, callback: Any) -> None:
        add_done_callback(self, _placed(self, callback)[1])

    @functools.wraps(wait)
    def noticed_wait(self: Any) -> Any:
        with blocking():
            return wait(self)

    @functools.wraps(collect_all)
    def placed_collection(futures: Any) -> Any:
        made = collect_all(futures)
        first = next((_places[one] for one in futures if one in _places), None)
        if first is not None:
            _places[made] = first.callback(collect_all)
        return made

    @functools.wraps(get_future)
    def placed_future(self: Any) -> Any:
        _here.made = None
        made = get_future(self)  # of C++, which asks the Work that Python made
        if _here.made is not None:
            _places[made] = _here.made
        return made

    future.then, future.add_done_callback, future.wait = placed_then, placed_callback, noticed_wait
    torch._C._collect_all = placed_collection
    work: Any = _c10d.Work
    work.get_future = placed_future
    api.at_start(_forget)
