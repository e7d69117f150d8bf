# SPDX-License-Identifier: Apache-2.0
"""Items read ahead on a thread, and Horovod's two classes on top of it."""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hvd.data.surroundings import Generators, draws_after, taken_over

_END = object()
_CLOSE_SECONDS = 10.0
# The first item may draw for its epoch; from the second on a source draws item by item.
_ITEMS_IN_STEP = 2


class Feed:
    """Reads an iterable on a thread of its own, at most `depth` items ahead.

    One thread takes the items; ``close()`` ends the reading. What reads has the modes, the GPU and
    the stream of the thread that made the feed.

    A source that draws from a process-wide generator for each item is read while an item is awaited
    and at no other time: else the order of its draws and those of the model would be left to
    chance. The first two items of every source are read so, which shows whether it draws. Of what
    is read later, draws from PyTorch's generator wait until an item is awaited.

    Parameters
    ----------
    make
        Gives the iterable; called on the thread.
    depth
        At least 1.
    name
        Of the thread.
    draws
        From which generators the source is known to draw; what is found is added.
    """

    def __init__(
        self, make: Callable[[], Iterable[Any]], depth: int, name: str, draws: set[str]
    ) -> None:
        self._make = make
        self._depth = depth
        self._draws = draws
        self._items: deque[Any] = deque()
        self._changed = threading.Condition(threading.RLock())
        self._is_awaited = False
        self._is_closed = False
        self._count = 0
        self._error: BaseException | None = None
        self.read_seconds = 0.0
        run = taken_over()
        self._thread = threading.Thread(target=lambda: run(self._read), name=name, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        source: Any = None
        try:
            with draws_after(self._wait_for_loop):
                while self._may_read():
                    source = iter(self._make()) if source is None else source
                    if not self._read_item(source):
                        return
        except BaseException as error:  # noqa: B036 (raised again where items are taken)
            self._error = error
        finally:
            self._end(source)

    def _read_item(self, source: Any) -> bool:
        """False when there is none, or nobody wants one any more."""
        before = Generators() if self._count == 1 else None
        began = time.perf_counter()
        item = next(source, _END)
        self.read_seconds += time.perf_counter() - began
        if item is _END:
            return False
        if before is not None:
            self._note(before.moved())
        self._count += 1
        return self._put(item)

    def _may_read(self) -> bool:
        """Waits, where the source is read in step, until an item is awaited; False: none will."""
        with self._changed:
            if self._draws or self._count < _ITEMS_IN_STEP:
                self._wait_for_loop()
            return not self._is_closed

    def _wait_for_loop(self) -> None:
        """Returns when the loop waits for what is read next, and so draws nothing meanwhile."""
        with self._changed:
            while not (self._is_awaited and not self._items) and not self._is_closed:
                self._changed.wait()

    def _note(self, drawn: list[str]) -> None:
        if drawn and not self._draws:
            warnings.warn(
                f"{self._thread.name}: each item draws from the process-wide generator of "
                f"{' and '.join(drawn)}: not read ahead, so that seeded runs repeat; workers "
                "(num_workers=1), or a generator of the source's own, allow it",
                stacklevel=1,
            )
        self._draws.update(drawn)

    def _end(self, source: Any) -> None:
        # A generator closes its files on the thread that it ran on.
        close = getattr(source, "close", None)
        try:
            if close is not None and self._error is None:
                close()
        except BaseException as error:  # noqa: B036
            self._error = error
        finally:
            self._put(_END)

    def _put(self, item: Any) -> bool:
        """False when nobody wants items any more."""
        with self._changed:
            # The end needs no room.
            while len(self._items) >= self._depth and item is not _END and not self._is_closed:
                self._changed.wait()
            if not self._is_closed:
                self._items.append(item)
            self._changed.notify_all()
            return not self._is_closed

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._changed:
            self._is_awaited = True
            self._changed.notify_all()
            while not self._items and not self._is_closed:
                self._changed.wait()
            self._is_awaited = False
            item = self._items.popleft() if self._items else _END
            self._changed.notify_all()
        if item is not _END:
            return item
        self.close()
        error, self._error = self._error, None
        if error is not None:
            raise error
        raise StopIteration

    def close(self) -> None:
        """Ends the thread, once it has read the item that it is at."""
        with self._changed:
            self._is_closed = True
            self._items.clear()
            self._changed.notify_all()
        if self._thread is threading.current_thread():
            return
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            warnings.warn(
                f"{self._thread.name}: the source of the data does not return; its thread ends "
                "when it does",
                stacklevel=2,
            )


class BaseDataLoader(ABC):
    """Batches from ``_iterate()``, each passed through ``_process_batch()``; for subclasses.

    They have ``__len__()`` as well, where something asks for it.

    >>> class Numbers(BaseDataLoader):
    ...     def _iterate(self):
    ...         return range(3)
    >>> list(Numbers())
    [0, 1, 2]
    """

    @abstractmethod
    def _iterate(self) -> Iterable[Any]:
        """The batches of an epoch."""

    def _process_batch(self, batch: Any) -> Any:
        """What is yielded for a batch; runs where the batch is used, not on the reading thread."""
        return batch

    def __iter__(self) -> Iterator[Any]:
        for batch in self._iterate():
            yield self._process_batch(batch)


class AsyncDataLoaderMixin:
    """Reads ahead on a thread: ``class Ours(AsyncDataLoaderMixin, TheirLoader)``.

    What draws from a process-wide random generator for each batch is not read ahead, so that
    seeded runs repeat; a warning says so.

    Every ``iter()`` begins an epoch anew, and the thread ends with it: at its last batch, at a
    ``break``, an exception or ``close_async_loader()``. An exception of ``_iterate()`` is raised
    where the batches are used.

    Parameters
    ----------
    async_loader_queue_size
        Batches to read ahead; 0: none, and no thread.
    debug_data_loader
        Print how many batches were ahead when one was taken.
    *args, **kwargs
        For the class beside it, which has ``_iterate()`` and ``_process_batch()``.

    >>> class Numbers(AsyncDataLoaderMixin, BaseDataLoader):
    ...     def _iterate(self):
    ...         return range(3)
    >>> list(Numbers(async_loader_queue_size=2))
    [0, 1, 2]
    """

    def __init__(
        self,
        async_loader_queue_size: int = 64,
        debug_data_loader: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self._feeds: weakref.WeakSet[Feed] = weakref.WeakSet()
        self._draws: set[str] = set()
        super().__init__(*args, **kwargs)

    def close_async_loader(self) -> None:
        """Ends all reading ahead; loops over the loader end as at their last batch."""
        for feed in list(self._feeds):
            feed.close()

    def __iter__(self) -> Iterator[Any]:
        this: Any = self
        if self.async_loader_queue_size <= 0:
            for batch in this._iterate():
                yield this._process_batch(batch)
            return
        size, name = self.async_loader_queue_size, type(self).__name__
        feed = Feed(this._iterate, size, name, self._draws)
        self._feeds.add(feed)
        try:
            for batch in feed:
                if self.debug_data_loader:
                    print(f"{type(self).__name__}: {len(feed._items)} batches ahead", flush=True)
                yield this._process_batch(batch)
        finally:
            feed.close()
