# SPDX-License-Identifier: Apache-2.0
"""A loader that reads ahead, measures how long the training waited, and says what that means."""

from __future__ import annotations

import math
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from hvd import objects
from hvd._core import api
from hvd._core.refusals import refused
from hvd.data.feed import Feed
from hvd.process_sets import ProcessSet, global_process_set

# Below this part of the time spent waiting, faster input would not be noticed.
INPUT_BOUND_SHARE = 0.10

# A larger factor would be no advice.
_MOST_WORKERS = 16

# About what it costs to pass an item from one thread to another on a busy machine.
_HANDOVER_SECONDS = 50e-6


class InputStatistics(NamedTuple):
    """What one rank measured since the loader was made, or since ``reset_statistics()``."""

    epochs: int
    items: int
    #: Waiting for items, without the first of each epoch.
    waited_seconds: float
    #: Between one item and the wait for the next: the training, communication included.
    worked_seconds: float
    #: Waiting for the first item of each epoch.
    start_seconds: float
    #: The source's own time for the items; beside the training unless depth is 0.
    read_seconds: float

    @property
    def wait_share(self) -> float:
        """The part of the time that was spent waiting, 0 to 1; without the first items."""
        total = self.waited_seconds + self.worked_seconds
        return self.waited_seconds / total if total else 0.0


class InputReport(NamedTuple):
    """What the ranks measured together."""

    is_input_bound: bool
    #: By rank of the process set.
    shares: list[float]
    text: str

    def __str__(self) -> str:
        return self.text


class _Meter:
    """Adds up times; of one loader."""

    def __init__(self) -> None:
        self.epochs = 0
        self.items = 0
        self.waited = 0.0
        self.worked = 0.0
        self.start = 0.0
        self.read = 0.0

    def add(self, waited: float, is_first: bool, feed: Feed | None, known: float) -> float:
        """One more item; returns what is known of the feed's time for reading, given what was."""
        self.items += 1
        if is_first:
            self.start += waited
        else:
            self.waited += waited
        read = waited if feed is None else feed.read_seconds - known
        self.read += read
        return known + read

    def statistics(self) -> InputStatistics:
        """The sums."""
        return InputStatistics(
            self.epochs, self.items, self.waited, self.worked, self.start, self.read
        )


class PrefetchLoader:
    """Reads any iterable ahead, on a thread, and measures how long its items were awaited.

    Every ``iter()`` begins anew and has a thread of its own, which ends at the last item, at a
    ``break``, an exception, or when the loop's iterator is garbage. An exception of the source is
    raised in the loop, with its traceback. The thread has the gradient mode, autocast, the GPU and
    the stream of the loop.

    A source that draws from a process-wide random generator for each item (that of torch, NumPy or
    Python) is read while the loop waits, not ahead, so that seeded runs repeat; a warning says so.
    A DataLoader with workers, or a dataset with a generator of its own, is read ahead.

    Parameters
    ----------
    source
        What to read: a DataLoader, a list of files that a generator decodes, ... Iterated once per
        epoch.
    depth
        Items to read ahead; 0: none, and no thread; the wait is measured all the same. That suits
        what reads ahead itself, as a ``tf.data.Dataset``.

    Raises
    ------
    InvalidArgumentError
        `depth` is negative.

    >>> loader = PrefetchLoader(["a", "b"], depth=1)
    >>> list(loader)
    ['a', 'b']
    >>> loader.statistics().items
    2
    """

    def __init__(self, source: Iterable[Any], depth: int = 2) -> None:
        if depth < 0:
            raise refused(f"PrefetchLoader: depth is {depth}; 0 or more")
        self.source = source
        self.depth = depth
        self._meter = _Meter()
        self._draws: set[str] = set()

    def __len__(self) -> int:
        return len(self.source)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        source = self.source
        name = f"PrefetchLoader of {type(source).__name__}"
        feed = Feed(lambda: source, self.depth, name, self._draws) if self.depth else None
        items = iter(source) if feed is None else feed
        self._meter.epochs += 1
        is_first, read = True, 0.0
        try:
            while True:
                began = time.perf_counter()
                try:
                    item = next(items)
                except StopIteration:
                    return
                got = time.perf_counter()
                read = self._meter.add(got - began, is_first, feed, read)
                is_first = False
                yield item
                self._meter.worked += time.perf_counter() - got
        finally:
            if feed is not None:
                feed.close()

    def statistics(self) -> InputStatistics:
        """What this rank has measured."""
        return self._meter.statistics()

    def reset_statistics(self) -> None:
        """Begins measuring anew; for a loop that runs, too."""
        self._meter = _Meter()

    def report(
        self,
        threshold: float = INPUT_BOUND_SHARE,
        process_set: ProcessSet = global_process_set,
        quiet: bool = False,
    ) -> InputReport:
        """Compares the ranks, and says whether input is the bottleneck; every rank calls it.

        Parameters
        ----------
        threshold
            The part of its time that a rank may wait. A synchronous training is as slow as its
            slowest rank, so one rank over it is enough.
        process_set
            The ranks that take part, each of which calls it.
        quiet
            Do not print: else the first rank of the set writes the text to standard error.
        """
        mine = (api.rank(), socket.gethostname(), tuple(self.statistics()))
        ranks = [
            (rank, host, InputStatistics(*numbers))
            for rank, host, numbers in objects.allgather_object(mine, "input", process_set)
        ]
        shares = [statistics.wait_share for _, _, statistics in ranks]
        is_bound = max(shares) >= threshold
        text = _bound(ranks, self.depth, _is_tf_data(self.source)) if is_bound else _fine(ranks)
        if is_bound and self._draws:
            text += f"; it draws from {', '.join(sorted(self._draws))} and so is not read ahead"
        if not quiet and ranks[0][0] == api.rank():
            print(f"hvd.data: {text}", file=sys.stderr, flush=True)
        return InputReport(is_bound, shares, text)


def _is_tf_data(source: Any) -> bool:
    """Whether TensorFlow reads it, on threads of its own."""
    return type(source).__module__.startswith("tensorflow.python.data.")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _fine(ranks: list[tuple[int, str, InputStatistics]]) -> str:
    shares = [(statistics.wait_share, rank) for rank, _, statistics in ranks]
    (least, _), (most, rank) = min(shares), max(shares)
    return (
        f"input keeps up: ranks waited {_percent(least)} to {_percent(most)} of their time for "
        f"data, most on rank {rank}"
    )


def _bound(
    ranks: list[tuple[int, str, InputStatistics]], depth: int, is_tf_data: bool = False
) -> str:
    """What is wrong, on which rank, and what to do."""
    by_share = sorted(ranks, key=lambda entry: entry[2].wait_share)
    (low, _, least), (high, host, most) = by_share[0], by_share[-1]
    text = f"input-bound: rank {high} waited {_percent(most.wait_share)} of its time for data"
    if low != high:
        text += f" ({_percent(least.wait_share)} on rank {low})"
    if low != high and least.wait_share < most.wait_share / 2:
        text += f"; not all ranks wait: look at host {host}, or share the input out more evenly"
    return f"{text}: {_remedy_of_tf_data(most) if is_tf_data else _remedy(most, depth)}"


def _remedy_of_tf_data(statistics: InputStatistics) -> str:
    items = max(statistics.items, 1)
    wait = statistics.waited_seconds / max(items - statistics.epochs, 1)
    step = statistics.worked_seconds / items
    return (
        f"a step of {1000 * step:.1f} ms waited {1000 * wait:.1f} ms: what helps is prefetch() at the "
        "end of the dataset, num_parallel_calls in its map(), cache() of what fits into memory; else "
        "faster storage"
    )


def _remedy(statistics: InputStatistics, depth: int) -> str:
    per_item = statistics.read_seconds / max(statistics.items, 1)
    step = statistics.worked_seconds / max(statistics.items, 1)
    took = f"an item took {1000 * per_item:.1f} ms to read, a step {1000 * step:.1f} ms"
    if per_item < _HANDOVER_SECONDS:
        return f"{took}; handing an item over costs more than that: let items be batches"
    if depth == 0:
        return f"{took}; nothing is read ahead: depth=2 overlaps the two"
    if per_item > step:
        times = math.ceil(per_item / step) if step > 0 else math.inf
        about = f" (about {times} times as many)" if times <= _MOST_WORKERS else ""
        return f"{took}: more workers{about} or faster storage"
    return f"{took}, which fits on average: depth={2 * depth} would even out slow items"
