# SPDX-License-Identifier: Apache-2.0
"""Training that outlives errors of the job: commit now and then, go on from there::

    @hvd.elastic.run
    def train(state):
        while state.epoch < 90:
            ...
            state.epoch += 1
            state.commit()

    train(hvd.elastic.ObjectState(epoch=0))

Under ``hvdrun --spares N`` or ``--min-np N`` it outlives the loss of ranks, too: see
docs/how-to/survive-failures.md.
"""

from __future__ import annotations

import copy
import functools
import logging
import queue
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from hvd import objects, process_sets
from hvd._core import api, newcomers
from hvd._core.work import Max
from hvd.errors import (
    AbortedError,
    DeadlineError,
    HostsUpdatedInterrupt,
    HvdError,
    NotInitializedError,
    PeerLostError,
)

__all__ = [
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "ResetLimitError",
    "State",
    "hosts_updated",
    "is_recoverable",
    "run",
    "run_fn",
]

_logger = logging.getLogger("hvd.elastic")

# Errors in a row without a commit between them, after which it is the program that is wrong.
RESET_LIMIT = 3


class HostUpdateResult:
    """What became of the hosts; flags, which add up."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


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

        Raises
        ------
        HostsUpdatedInterrupt
            On every rank, if hosts have changed: leave it to ``run``.
        """
        self.save()
        self._commits += 1
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises ``HostsUpdatedInterrupt`` on every rank if rank 0 was told of a change.

        Under ``hvdrun`` that is so too where ranks were lost and processes wait to be some.

        Raises
        ------
        HostsUpdatedInterrupt
            On every rank: hosts have come or gone.
        """
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
        before, last, everything = self._bcast_object((self._last_update, last, everything))
        self._last_update = last
        if last > before:
            raise HostsUpdatedInterrupt(everything == HostUpdateResult.removed)

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
        self._saved: dict[str, Any] = {}
        ObjectState.save(self)

    def save(self) -> None:
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._names}

    def restore(self) -> None:
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))

    def sync(self) -> None:
        if not self._names:
            return
        values = self._bcast_object({name: getattr(self, name) for name in self._names})
        for name, value in values.items():
            setattr(self, name, value)
        ObjectState.save(self)


_lock = threading.Lock()
_running: list[State] = []


def hosts_updated(timestamp: float, update_res: int) -> None:
    """Tells every state that ``run`` is training with; for whoever learns of hosts, on any thread.

    Parameters
    ----------
    timestamp
        Grows from one change to the next.
    update_res
        One of :class:`HostUpdateResult`.

    >>> hosts_updated(1.0, HostUpdateResult.added)  # nobody trains here
    """
    with _lock:
        states = list(_running)
    for state in states:
        state.on_hosts_updated(timestamp, update_res)


def is_recoverable(error: BaseException) -> bool:
    """True for an error after which the job may start again: a lost rank, not a wrong call.

    An ``HvdError`` of no other class, which only a program raises, counts as such.

    Parameters
    ----------
    error
        Of any class.

    >>> is_recoverable(PeerLostError("rank 1 is lost"))
    True
    """
    if isinstance(error, NotInitializedError):
        return False
    return (
        isinstance(error, (PeerLostError, AbortedError, DeadlineError)) or type(error) is HvdError
    )


def _restart(timeout: float | None) -> None:
    """Leaves the job and joins it again, with the ranks that are there."""
    api.shutdown()
    process_sets.init_again(timeout)


def _start_again(reset: Callable[[], Any], cause: BaseException | None) -> None:
    try:
        reset()
    except (DeadlineError, PeerLostError) as error:
        after = f" after '{cause}'" if cause is not None else ""
        raise PeerLostError(
            f"elastic: the job cannot start again{after}: {error}. A process that has ended does not "
            "come back, and only hvdrun --spares, --min-np or --restarts goes on without it: start the job "
            "again from a checkpoint"
        ) from error


def _go_back(state: State, error: HvdError) -> None:
    """To the last commit; the job as it is ends."""
    # The rank is unknown if the program has left the job itself.
    who = f"rank {state._rank()}: " if api.is_initialized() else ""
    _logger.warning(
        "hvd.elastic: %s%s: %s; going back to commit %d, then starting again",
        *(who, type(error).__name__, error, state._commits),
    )
    # Who has not noticed fails now too, and comes along.
    api.abort(f"it starts again after {type(error).__name__}: {error}")
    state.restore()


class ResetLimitError(HvdError):
    """The job failed again and again without coming further."""


def _agree(in_a_row: int, is_equal: bool, commits: int, has_state: bool) -> tuple[int, bool, int]:
    """The most errors in a row and commits, and whether all are equal.

    Ranks may have left for two reasons, and a process that comes anew has committed nothing yet.
    """
    if not api.is_initialized():
        return in_a_row, is_equal, commits
    most, differs, last, has_any = objects.allreduce_numbers(
        [float(in_a_row), float(not is_equal), float(commits), float(has_state)],
        Max,
        "elastic.agree",
    )
    if not has_any:
        raise RuntimeError(
            f"elastic: rank {api.rank()}: no rank is left that has the state of training: all have "
            "come after the job had begun, and the last that had it was lost before it gave it on; "
            "start the job again from a checkpoint"
        )
    return int(most), not differs, int(last)


def _check_limit(in_a_row: int, limit: int, error: HvdError | None) -> None:
    if in_a_row > limit:
        raise ResetLimitError(
            f"elastic: {in_a_row} errors in a row without a commit between them, {limit} are "
            f"allowed: mend the program, or the machine; the last one was: {error}"
        ) from error


def _known(error: Exception) -> HvdError | None:
    """The error of the library, also where TensorFlow has made one of its own of it."""
    if isinstance(error, HvdError):
        return error
    of_tensorflow = sys.modules.get("hvd.tensorflow.errors")
    return of_tensorflow.of(error) if of_tensorflow else None


def run_fn(
    func: Callable[..., Any], reset: Callable[[], Any], reset_limit: int = RESET_LIMIT
) -> Callable[..., Any]:
    """The function that ``run`` makes, with another way to leave and join the job.

    Parameters
    ----------
    func
        The training, ``func(state, ...)``.
    reset
        Leaves the job and joins it again.
    reset_limit
        Errors in a row without a commit between them; one more is raised.

    >>> run_fn(lambda state: state.epoch, reset=lambda: None)(ObjectState(epoch=3))
    3
    """

    def try_until_done(state: State, *args: Any, **kwargs: Any) -> Any:
        is_equal, in_a_row, commits = False, 0, state._commits
        cause: HvdError | None = None
        has_state = not newcomers.is_one
        newcomers.admit()
        while True:
            try:
                in_a_row, is_equal, agreed = _agree(in_a_row, is_equal, state._commits, has_state)
                if agreed != state._commits:
                    commits = state._commits = agreed
                _check_limit(in_a_row, reset_limit, cause)
                if not is_equal:
                    state.sync()
                has_state = True
                return func(state, *args, **kwargs)
            except HostsUpdatedInterrupt as interrupt:
                is_equal, cause = interrupt.skip_sync, None
            except Exception as raised:
                error = _known(raised)
                if error is None or not is_recoverable(error):
                    raise
                in_a_row = in_a_row + 1 if state._commits == commits else 1
                commits = state._commits
                _go_back(state, error)
                is_equal, cause = False, error
            _start_again(reset, cause)
            state.on_reset()

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        with _lock:
            _running.append(state)
        try:
            return try_until_done(state, *args, **kwargs)
        finally:
            with _lock:
                _running.remove(state)

    return wrapper


def run(
    func: Callable[..., Any] | None = None,
    *,
    reset_limit: int = RESET_LIMIT,
    timeout: float | None = None,
) -> Callable[..., Any]:
    """Decorates a training function, ``func(state, ...)``, that is to outlive errors of the job.

    It synchronizes the state and calls the function. After an error that is recoverable, on any
    rank, all ranks go back to their last commit, leave the job, join it again and call the function
    once more; after ``HostsUpdatedInterrupt`` they keep the state that they have. Where hvdrun has
    a spare for a rank that was lost, or may go on with fewer, those are the ranks that come again.

    Parameters
    ----------
    func
        The training, ``func(state, ...)``.
    reset_limit
        Errors in a row without a commit between them; one more is raised.
    timeout
        Seconds to wait for all ranks to come again (default: HVD_START_TIMEOUT_SECONDS, 120). It
        must be longer than the longest time that a rank does no operation.

    Raises
    ------
    PeerLostError
        A rank has ended, and the job is none that goes on without it.
    AbortedError
        It is one, and has too few ranks left, or one has come to the end of its program.
    ResetLimitError
        The limit is reached, on every rank. Other errors pass as they are.

    >>> @run
    ... def train(state):
    ...     state.epoch += 1
    ...     state.commit()
    ...     return state.epoch
    >>> train(ObjectState(epoch=0))
    1
    """
    if func is None:
        return functools.partial(run, reset_limit=reset_limit, timeout=timeout)
    return run_fn(func, functools.partial(_restart, timeout), reset_limit)
