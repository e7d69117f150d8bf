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

import functools
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hvd import objects, process_sets
from hvd._core import api, newcomers
from hvd._core.commit_pace import CommitEvery, CommitPace, steps_between_commits
from hvd._core.per_rank import PerRank, StateLostError
from hvd._core.states import CommitStatistics, HostUpdateResult, ObjectState, State
from hvd.errors import (
    AbortedError,
    DeadlineError,
    HostsUpdatedInterrupt,
    HvdError,
    NotInitializedError,
    PeerLostError,
)

__all__ = [
    "CommitStatistics",
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "PerRank",
    "ResetLimitError",
    "State",
    "StateLostError",
    "hosts_updated",
    "is_recoverable",
    "run",
    "run_fn",
    "steps_between_commits",
]

_logger = logging.getLogger("hvd.elastic")

# Errors in a row without a commit between them, after which it is the program that is wrong.
RESET_LIMIT = 3


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
        "hvd.elastic: %s%s: %s; going back to the last commit that counts (this rank has made %d), "
        "then starting again",
        *(who, type(error).__name__, error, state._commits),
    )
    state._note_leaving()
    state._pace.losses += 1
    # Who has not noticed fails now too, and comes along.
    api.abort(f"it starts again after {type(error).__name__}: {error}")
    state.restore()


class ResetLimitError(HvdError):
    """The job failed again and again without coming further."""


class _Known(NamedTuple):
    """What a rank knows before a try, and what all go by then: errors in a row, whether all are equal,
    commits, and the newest and the oldest save to which it can go back; None: it has no state."""

    in_a_row: int
    is_equal: bool
    commits: int
    newest: int | None
    oldest: int = 0


def _agree(mine: _Known) -> _Known:
    """From what each rank knows."""
    if not api.is_initialized():
        return mine
    return _agreed(objects.allgather_object(mine, "elastic.agree"))


def _agreed(everyone: Sequence[_Known]) -> _Known:
    """What follows for all, from what each knows.

    Ranks may have left for two reasons, and a process that comes anew has committed nothing yet. One
    that was a rank, then a spare, and is a rank again has saves that are older than all that others
    keep: who is older than `newest` here has no state.
    """
    oldest = max(one.oldest for one in everyone)
    versions = [one.newest for one in everyone if one.newest is not None and one.newest >= oldest]
    if not versions:
        raise RuntimeError(
            f"elastic: rank {api.rank()}: no rank is left that has the state of training: all have "
            "come after the job had begun, and the last that had it was lost before it gave it on; "
            "start the job again from a checkpoint"
        )
    return _Known(
        max(one.in_a_row for one in everyone),
        # Of two versions at least one would have to go back.
        all(one.is_equal for one in everyone) and len({one.newest for one in everyone}) == 1,
        max(one.commits for one in everyone),
        min(versions),
    )


def _check_limit(in_a_row: int, limit: int, error: HvdError | None) -> None:
    if in_a_row > limit:
        raise ResetLimitError(
            f"elastic: {in_a_row} errors in a row without a commit between them, {limit} are "
            f"allowed: mend the program, or the machine; the last one was: {error}"
        ) from error


def _known(error: Exception) -> HvdError | None:
    """The error of the library, also where a framework has made one of its own of it."""
    if isinstance(error, HvdError):
        return error
    found = (sys.modules.get(f"hvd.{name}.errors") for name in ("tensorflow", "torch.distributed"))
    known = (module.of(error) for module in found if module is not None)
    return next((one for one in known if one is not None), None)


def run_fn(
    func: Callable[..., Any],
    reset: Callable[[], Any],
    reset_limit: int = RESET_LIMIT,
    pace: Callable[[], CommitPace] = CommitPace,
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
    pace
        Makes what says which calls of ``commit()`` commit; each unless given.

    >>> run_fn(lambda state: state.epoch, reset=lambda: None)(ObjectState(epoch=3))
    3
    """

    def try_until_done(state: State, *args: Any, **kwargs: Any) -> Any:
        is_equal, is_live, in_a_row, commits = False, True, 0, state._commits
        cause: HvdError | None = None
        has_state = not newcomers.is_one
        # Callbacks may have operations, in which those that come anew take part.
        is_reset = newcomers.is_one
        newcomers.admit()
        while True:
            try:
                if is_reset:
                    state.on_reset()
                    is_reset = False
                newest = state._whole_version() if has_state else None
                oldest = state._oldest_version() if has_state else 0
                mine = _Known(in_a_row, is_equal, state._commits, newest, oldest)
                in_a_row, is_equal, agreed, version, _ = _agree(mine)
                assert version is not None
                has_state = newest is not None and newest >= version
                if agreed != state._commits:
                    commits = state._commits = agreed
                _check_limit(in_a_row, reset_limit, cause)
                state._settle(version, has_state, is_live)
                state._begin(is_equal)
                has_state = True
                return func(state, *args, **kwargs)
            except HostsUpdatedInterrupt as interrupt:
                state._note_leaving()  # of what is on its way, where the program has raised it itself
                is_equal, is_live, cause = interrupt.skip_sync, True, None
            except Exception as raised:
                error = _known(raised)
                if error is None or not is_recoverable(error):
                    raise
                in_a_row = in_a_row + 1 if state._commits == commits else 1
                commits = state._commits
                _go_back(state, error)
                is_equal, is_live, cause = False, False, error
            _start_again(reset, cause)
            is_reset = True

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        state._pace = pace()
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
    commit_every: CommitEvery = 1,
    mean_time_between_failures: float | None = None,
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
    commit_every
        Calls of ``state.commit()`` for each that commits, or "auto": as many as
        :func:`steps_between_commits` gives for what commits and the time between calls have cost
        lately. Rank 0 decides. The first call after each start commits, and of the others one in 16
        looks for changes of the hosts.
    mean_time_between_failures
        Of the whole job, in seconds, for "auto"; 100 days by the number of ranks unless given.
        Losses of the run count, too.

    Raises
    ------
    PeerLostError
        A rank has ended, and the job is none that goes on without it.
    AbortedError
        It is one, and has too few ranks left, or one has come to the end of its program.
    InvalidArgumentError
        `commit_every` or `mean_time_between_failures` is wrong.
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
        return functools.partial(
            run,
            reset_limit=reset_limit,
            timeout=timeout,
            commit_every=commit_every,
            mean_time_between_failures=mean_time_between_failures,
        )
    pace = functools.partial(CommitPace, commit_every, mean_time_between_failures)
    pace()  # what is wrong is an error now
    return run_fn(func, functools.partial(_restart, timeout), reset_limit, pace)
