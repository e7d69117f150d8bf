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
from hvd._core.commit_pace import CommitPace
from hvd._core.copies import copied
from hvd._core.kept import Kept
from hvd._core.per_rank import OwnValues, without_marks
from hvd._core.refusals import refused
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

    How many there were, the seconds in which they held the training up, the bytes that went to the
    partner of this rank, of values that are its own, and how many calls of ``commit()`` were none, as
    ``commit_every`` of ``run`` asks.
    """

    commits: int
    seconds: float
    partner_bytes: int = 0
    skipped: int = 0


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
        self._skipped = 0
        self._pace = CommitPace()
        # Of the newest save that all ranks make: a commit, or what sync() brought.
        self._version = 0
        self._is_versioned = False

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], Any]]) -> None:
        """Functions to call after each reset, in this order: rank and size may be others.

        A process that comes to a job at work calls them, too, before it gets the state: they may have
        operations. The process sets of ``hvd.init()`` are there again, as far as they fit; add others
        here.

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

        With ``run(commit_every=...)`` some calls only, the same on all ranks, and others look for changes
        now and then.

        Who returns from a commit knows that all ranks have saved it. Two saves are kept: one that is
        broken off leaves the last one whole, and with values that are each rank's own all ranks go back
        to the same one after a loss.

        Raises
        ------
        HostsUpdatedInterrupt
            On every rank, if hosts have changed: leave it to ``run``.
        """
        began = time.perf_counter()
        if not self._pace.is_due():
            self._skipped += 1
            if self._pace.looks():
                self.check_host_updates()
            return
        self._before_commit()
        self._save_as(self._version + 1)
        self._after_commit()
        self._commits += 1
        skip = self._pace.choose(time.perf_counter() - began)
        # A subclass may look for changes in its own way.
        looks = type(self).check_host_updates is State.check_host_updates
        interrupt, skip = self._hear("elastic.commit", skip, looks)
        self._pace.skip(skip)
        if interrupt is not None:
            self._leave(is_saved=True)
        self._commit_seconds += time.perf_counter() - began
        if interrupt is not None:
            raise interrupt
        if not looks:
            self.check_host_updates()

    def commit_statistics(self) -> CommitStatistics:
        """What the commits of this state have cost this rank.

        >>> ObjectState(epoch=0).commit_statistics().commits
        0
        """
        return CommitStatistics(self._commits, self._commit_seconds, skipped=self._skipped)

    def check_host_updates(self) -> None:
        """Raises ``HostsUpdatedInterrupt`` on every rank if rank 0 was told of a change.

        Under ``hvdrun`` that is so too where ranks were lost and processes wait to be some.

        Raises
        ------
        HostsUpdatedInterrupt
            On every rank: hosts have come or gone.
        """
        interrupt, _ = self._hear("elastic.hosts", 0)
        if interrupt is not None:
            self._leave(is_saved=False)
            raise interrupt

    def _hear(
        self, name: str, skip: int, looks: bool = True
    ) -> tuple[HostsUpdatedInterrupt | None, int]:
        """What rank 0 was told since the last time, None: nothing; and its `skip`. On every rank."""
        last, everything = self._last_update, HostUpdateResult.no_update
        while looks and not self._host_messages.empty():
            timestamp, update = self._host_messages.get()
            if timestamp > last:
                last = timestamp
                everything |= update
        if looks and newcomers.are_waiting():
            # Later than all that was heard, by whatever clock.
            last += max(abs(last), 1.0) * 1e-9
            everything |= HostUpdateResult.added
        before, last, updates, calls = self._of_rank_0(
            name, (self._last_update, last, everything, skip)
        )
        self._last_update = last
        interrupt = HostsUpdatedInterrupt(updates == HostUpdateResult.removed)
        return interrupt if last > before else None, int(calls)

    def _of_rank_0(self, name: str, numbers: tuple[float, ...]) -> tuple[float, ...]:
        if self._bcast_object is not objects.broadcast_object:
            return self._bcast_object(numbers)
        # Quicker than objects, which are pickled and need two operations.
        if api.rank() != 0:
            numbers = (-math.inf,) * len(numbers)
        return tuple(objects.allreduce_numbers(numbers, Max, name))

    def _save_as(self, version: int) -> None:
        self._as(version, self.save)

    def _as(self, version: int, action: Callable[[], None]) -> None:
        before, self._version = self._version, version
        self._is_versioned = True
        try:
            action()
        except BaseException:
            self._version = before
            raise
        finally:
            self._is_versioned = False

    def _settle(self, version: int, has_state: bool, is_live: bool) -> None:
        """All ranks that have a state go on with this version of it, or with what they have now.

        `is_live`: this rank has left without a loss. Where nothing is a rank's own all get what rank 0
        has, so there is nothing to go back to.
        """
        self._version = version

    def _begin(self, is_equal: bool) -> None:
        """Before the training begins, or begins again."""
        if not is_equal:
            self._as(self._version + 1, self.sync)
        self._pace.begin()

    def _whole_version(self) -> int:
        """Of the newest save to which this rank can go back, as far as it knows."""
        return self._version

    def _oldest_version(self) -> int:
        """Of the oldest save to which it can."""
        return 0

    def _before_commit(self) -> None:  # noqa: B027 (of values that are a rank's own, as the next)
        """All ranks have all of the commit before: now it may be the only one."""

    def _after_commit(self) -> None:  # noqa: B027
        """Sends copies to the partner."""

    def _leave(self, is_saved: bool) -> None:  # noqa: B027
        """All ranks leave the job, and none of them is lost; `is_saved`: they have just committed."""

    def _note_leaving(self) -> None:  # noqa: B027
        """This rank leaves the job, which may have failed."""

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
        values, marks = without_marks(kwargs)
        for name, value in values.items():
            setattr(self, name, value)
        self._names = [name for name in values if name not in marks]
        self._own: OwnValues | None = None
        if marks:
            self._check_saves()
            self._own = OwnValues(marks, self._read_own, self._write_own)
        self._kept = Kept()
        self._kept.save(self._version, self._copies)

    def _check_saves(self) -> None:
        """What a subclass keeps beside would be of another commit where all go back by one."""
        for name in ("save", "restore"):
            if getattr(type(self), name) is not getattr(ObjectState, name):
                raise refused(
                    f"{type(self).__name__}.{name}: a state with values of each rank's own (PerRank) "
                    "keeps its last two commits itself: leave save() and restore() as they are, and "
                    "give what they keep as keywords, where need be with a CopiedStateHandler"
                )

    def save(self) -> None:
        if self._own is not None and not self._is_versioned:
            raise refused(
                f"{type(self).__name__}: save() and sync() alone leave the partners of the ranks "
                "without copies of what is each rank's own: call commit(), and leave sync() to run"
            )
        self._save_apart()
        self._kept.save(self._version, self._copies)

    def restore(self) -> None:
        self._restore_apart()
        # There may be none on a rank that has come anew and is to get all from the others.
        if self._kept.newest is not None:
            self._bring_back(self._kept.newest.parts)

    def sync(self) -> None:
        if self._names:
            values = self._bcast_object(self._attributes())
            for name, value in values.items():
                setattr(self, name, value)
        ObjectState.save(self)

    def commit_statistics(self) -> CommitStatistics:
        found = super().commit_statistics()
        return found if self._own is None else found._replace(partner_bytes=self._own.partner_bytes)

    def _settle(self, version: int, has_state: bool, is_live: bool) -> None:
        super()._settle(version, has_state, is_live)
        if self._own is None:
            return
        if self._kept.drop_newer(version):
            self.restore()
            is_live = False
        saved = self._kept.find(version) if has_state else None
        own = None if saved is None else saved.parts["own"]
        keeps_live = self._own.place(own, version, is_live)
        if saved is not None and is_live and not keeps_live:
            self._bring_back_shared(saved.parts)

    def _begin(self, is_equal: bool) -> None:
        super()._begin(is_equal)
        if self._own is None:
            return
        # The partners of now have to have copies before anything may be lost.
        if is_equal:
            self._save_as(self._version + 1)
        self._after_commit()
        self._own.wait()

    def _whole_version(self) -> int:
        newest, before = self._kept.newest, self._kept.before
        if self._own is None or newest is None or newest.version == 0:
            return self._version
        if before is None or newest.parts["own"].is_whole:
            return newest.version
        return before.version

    def _oldest_version(self) -> int:
        return min((saved.version for saved in self._kept.all), default=0)

    def _before_commit(self) -> None:
        if self._own is not None:
            self._own.wait()
            objects.allreduce_numbers([0.0], Max, "elastic.partners")

    def _after_commit(self) -> None:
        if self._own is not None and self._kept.newest is not None:
            self._own.send(self._kept.newest.parts["own"])

    def _leave(self, is_saved: bool) -> None:
        if self._own is None:
            return
        if not is_saved:
            self._before_commit()
            self._save_as(self._version + 1)
            self._after_commit()
        self._own.wait()
        assert self._kept.newest is not None
        self._own.gather(self._kept.newest.parts["own"])

    def _note_leaving(self) -> None:
        if self._own is not None:
            self._own.note_arrival()

    def _save_apart(self) -> None:
        """Tells those that keep copies themselves."""

    def _restore_apart(self) -> None:
        """The same for what they kept."""

    def _read_own(self, name: str) -> Any:
        """A value that is each rank's own; its state, where it gives and takes one."""
        value = getattr(self, name)
        return value.state_dict() if hasattr(value, "load_state_dict") else value

    def _write_own(self, name: str, value: Any) -> None:
        if hasattr(getattr(self, name), "load_state_dict"):
            getattr(self, name).load_state_dict(value)
        else:
            setattr(self, name, value)

    def _attributes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names}

    def _copies(self, old: dict[str, Any] | None) -> dict[str, Any]:
        """Copies of all that survives, in the memory of older ones where they fit."""
        parts = {"attributes": copied(self._attributes(), old and old["attributes"])}
        if self._own is not None:
            parts["own"] = self._own.copy(None if old is None else old["own"])
        return parts

    def _bring_back(self, parts: dict[str, Any]) -> None:
        """Makes everything what it was in these copies, which stay as they are."""
        self._bring_back_shared(parts)
        if self._own is not None:
            self._own.bring_back(parts["own"])

    def _bring_back_shared(self, parts: dict[str, Any]) -> None:
        """The same of all that rank 0 gives to the others."""
        for name, value in parts["attributes"].items():
            setattr(self, name, copy.deepcopy(value))
