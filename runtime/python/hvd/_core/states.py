# SPDX-License-Identifier: Apache-2.0
"""What has to survive a reset of an elastic job; ``hvd.elastic`` has the loop around it."""

from __future__ import annotations

import copy
import math
import queue
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hvd import objects
from hvd._core import api, newcomers
from hvd._core.copies import copied
from hvd._core.kept import Kept
from hvd._core.work import Max
from hvd.errors import HostsUpdatedInterrupt


class HostUpdateResult:
    """What became of the hosts; flags, which add up."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class CommitStatistics(NamedTuple):
    """What the commits of a state have cost this rank.

    Attributes
    ----------
    commits
        How many there were.
    seconds
        In which they held the training up.
    """

    commits: int
    seconds: float


class State(ABC):
    """What has to survive a reset; see :class:`ObjectState` and ``hvd.torch.elastic.TorchState``.

    Parameters
    ----------
    bcast_object
        Gives every rank the object of rank 0; ``hvd.broadcast_object`` unless given.
    get_rank
        Gives this rank; ``hvd.rank`` unless given.
    """

    def __init__(
        self,
        bcast_object: Callable[..., Any] | None = None,
        get_rank: Callable[[], int] | None = None,
    ) -> None:
        self._bcast_object = bcast_object or objects.broadcast_object
        self._rank = get_rank or api.rank
        self._reset_callbacks: list[Callable[[], Any]] = []
        self._host_messages: queue.SimpleQueue[tuple[float, int]] = queue.SimpleQueue()
        self._last_update = 0.0
        self._commits = 0
        self._commit_seconds = 0.0
        # Of the newest save that all ranks make: a commit, or what sync() brought.
        self._version = 0

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], Any]]) -> None:
        """Functions to call after each reset, in this order: rank and size may be others.

        The process sets of ``hvd.init()`` are there again, as far as they fit; add others here.

        Parameters
        ----------
        callbacks
            Functions without parameters.
        """
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The job has started again: calls ``reset()`` and the callbacks."""
        self._host_messages = queue.SimpleQueue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Notes that hosts have come or gone; from any thread. Rank 0's notes count.

        Parameters
        ----------
        timestamp
            When, in seconds of any clock; older notes than the last one are dropped.
        update_res
            What became of them: flags of ``HostUpdateResult``.
        """
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves the state and looks for changes of the hosts; every rank calls it.

        Who returns from a commit knows that all ranks have saved it. So two saves are kept, and after a
        loss all go back to the same one.

        Raises
        ------
        HostsUpdatedInterrupt
            On every rank, if hosts have changed: leave it to ``run``.
        """
        began = time.perf_counter()
        self._save_as(self._version + 1)
        self._commits += 1
        interrupt = self._hear("elastic.commit")
        self._commit_seconds += time.perf_counter() - began
        if interrupt is not None:
            raise interrupt

    def commit_statistics(self) -> CommitStatistics:
        """What the commits of this state have cost this rank.

        >>> ObjectState(epoch=0).commit_statistics().commits
        0
        """
        return CommitStatistics(self._commits, self._commit_seconds)

    def check_host_updates(self) -> None:
        """Raises ``HostsUpdatedInterrupt`` on every rank if rank 0 was told of a change.

        Under ``hvdrun`` that is so too where ranks were lost and processes wait to be some.

        Raises
        ------
        HostsUpdatedInterrupt
            On every rank: hosts have come or gone.
        """
        interrupt = self._hear("elastic.hosts")
        if interrupt is not None:
            raise interrupt

    def _hear(self, name: str) -> HostsUpdatedInterrupt | None:
        """What rank 0 was told since the last time, on every rank; None: nothing."""
        last, everything = self._last_update, HostUpdateResult.no_update
        while not self._host_messages.empty():
            timestamp, update = self._host_messages.get()
            if timestamp > last:
                last = timestamp
                everything |= update
        if newcomers.are_waiting():
            # Later than all that was heard, by whatever clock.
            last += max(abs(last), 1.0) * 1e-9
            everything |= HostUpdateResult.added
        before, last, everything = self._of_rank_0(name, (self._last_update, last, everything))
        self._last_update = last
        if last > before:
            return HostsUpdatedInterrupt(everything == HostUpdateResult.removed)
        return None

    def _of_rank_0(self, name: str, numbers: tuple[float, ...]) -> tuple[float, ...]:
        if self._bcast_object is not objects.broadcast_object:
            return self._bcast_object(numbers)
        # Quicker than objects, which are pickled and need two operations.
        if api.rank() != 0:
            numbers = (-math.inf,) * len(numbers)
        return tuple(objects.allreduce_numbers(numbers, Max, name))

    def _save_as(self, version: int) -> None:
        self._as(version, self.save)

    def _sync_as(self, version: int) -> None:
        self._as(version, self.sync)

    def _as(self, version: int, action: Callable[[], None]) -> None:
        before, self._version = self._version, version
        try:
            action()
        except BaseException:
            self._version = before
            raise

    def _settle(self, version: int) -> None:
        """All ranks that have a state go on with this version of it, or with what they have now."""
        self._version = version

    @abstractmethod
    def save(self) -> None:
        """Keeps a copy of the state in memory, for ``restore()``."""

    @abstractmethod
    def restore(self) -> None:
        """Brings back what ``save()`` kept."""

    @abstractmethod
    def sync(self) -> None:
        """Gives every rank the state of rank 0."""

    def reset(self) -> None:  # noqa: B027 (nothing to do by itself)
        """Adapts to the job that has started again; for subclasses."""


class ObjectState(State):
    """Attributes that survive a reset: what deepcopy and pickle can take.

    Parameters
    ----------
    bcast_object, get_rank
        As of :class:`State`.
    **kwargs
        Name and first value of each attribute.

    >>> state = ObjectState(epoch=0, losses=[])
    >>> state.epoch = 1
    >>> state.save()
    >>> state.losses.append(0.5)
    >>> state.restore()
    >>> state.epoch, state.losses
    (1, [])
    """

    def __init__(
        self,
        bcast_object: Callable[..., Any] | None = None,
        get_rank: Callable[[], int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(bcast_object, get_rank)
        for name, value in kwargs.items():
            setattr(self, name, value)
        self._names = list(kwargs)
        self._kept = Kept()
        ObjectState.save(self)

    def save(self) -> None:
        self._kept.save(self._version, self._copies)

    def restore(self) -> None:
        assert self._kept.newest is not None
        self._bring_back(self._kept.newest.parts)

    def sync(self) -> None:
        if self._names:
            values = self._bcast_object(self._attributes())
            for name, value in values.items():
                setattr(self, name, value)
        ObjectState.save(self)

    def _settle(self, version: int) -> None:
        super()._settle(version)
        newest = self._kept.newest
        if newest is not None and newest.version > version and self._kept.drop_newer(version):
            self.restore()

    def _attributes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names}

    def _copies(self, old: dict[str, Any] | None) -> dict[str, Any]:
        """Copies of all that survives, in the memory of older ones where they fit."""
        return {"attributes": copied(self._attributes(), old and old["attributes"])}

    def _bring_back(self, parts: dict[str, Any]) -> None:
        """Makes everything what it was in these copies, which stay as they are."""
        for name, value in parts["attributes"].items():
            setattr(self, name, copy.deepcopy(value))
