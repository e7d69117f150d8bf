# SPDX-License-Identifier: Apache-2.0
"""Which calls of ``commit()`` commit: each, one in so many, or as costs and losses say."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from typing import Literal, Union

from hvd._core import api
from hvd._core.refusals import refused

CommitEvery = Union[int, Literal["auto"]]

# Of the time of training that commits may take.
MOST_SHARE = 0.02
# Without a word of the program: a loss in 100 days of each rank. Records of large clusters have one in
# 1000 to 2000 (419 in 54 days of 16,384 GPUs, Llama Team 2024); desks and preempted jobs have more.
RANK_SECONDS_TO_FAILURE = 100 * 86400.0
# Of calls that do not commit, one looks for changes of the hosts.
CALLS_TO_LOOK = 16
# Costs that are looked at; the first commits make memory, and count until there are others.
_COSTS = 5
_LEAST_COSTS = 3
_MOST_STEPS = 1000000


def steps_between_commits(
    commit_seconds: float,
    step_seconds: float,
    mean_time_between_failures: float,
    most_share: float = MOST_SHARE,
) -> int:
    """How many steps to do for each commit, so that commits and lost work together cost least.

    With C seconds for a commit and M between failures that is an interval of sqrt(2 C M): J. W. Young,
    A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974. J. T. Daly, A
    higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3), 2006, has
    the same in first order, and terms of higher order that do not count where C is far below M.

    Parameters
    ----------
    commit_seconds
        What a commit costs.
    step_seconds
        What a step takes without it.
    mean_time_between_failures
        Seconds from one loss to the next, of any rank.
    most_share
        Of the time that commits may take, even where that is more often than failures ask for.

    Raises
    ------
    InvalidArgumentError
        A time is negative or not finite, or the share not above 0.

    >>> steps_between_commits(0.02, 0.1, 9 * 3600)  # 36 s
    360
    >>> steps_between_commits(1.0, 10.0, 60)  # at most 2 %: a commit in 50 s
    5
    """
    times = (commit_seconds, step_seconds, mean_time_between_failures)
    if not all(math.isfinite(one) and one >= 0 for one in times) or most_share <= 0:
        raise refused(
            f"steps_between_commits: {commit_seconds!r} s for a commit, {step_seconds!r} s for a "
            f"step, {mean_time_between_failures!r} s between failures, a share of {most_share!r}: "
            "give times of 0 or more, and a share above 0"
        )
    seconds = max(
        math.sqrt(2 * commit_seconds * mean_time_between_failures), commit_seconds / most_share
    )
    # A step of no time is one that was not measured.
    steps = seconds / max(step_seconds, 1e-9)
    return max(1, min(_MOST_STEPS, math.ceil(round(steps, 6))))


def time_to_failure(expected: float, seconds: float, losses: int) -> float:
    """The mean time between failures, from what was expected and what has come in so many seconds.

    As if `expected` seconds with one loss had gone before: the posterior of a Gamma prior.

    >>> time_to_failure(3600.0, 0.0, 0), time_to_failure(3600.0, 3600.0, 3)
    (3600.0, 1800.0)
    """
    return (expected + seconds) / (1 + losses)


class CommitPace:
    """Counts calls of ``commit()``, on each rank; rank 0's choice is spread with each commit.

    Parameters
    ----------
    every
        Calls for each commit, or "auto".
    mean_time_between_failures
        Seconds; as :data:`RANK_SECONDS_TO_FAILURE` has it unless given.

    Raises
    ------
    InvalidArgumentError
        `every` is neither, or the time not above 0.
    """

    def __init__(
        self, every: CommitEvery = 1, mean_time_between_failures: float | None = None
    ) -> None:
        is_count = isinstance(every, int) and not isinstance(every, bool) and every >= 1
        if not is_count and every != "auto":
            raise refused(f"commit_every is {every!r}: give a number of calls from 1 on, or 'auto'")
        failure = mean_time_between_failures
        if failure is not None and not (math.isfinite(failure) and failure > 0):
            raise refused(
                f"mean_time_between_failures is {failure!r}: give seconds, as 86400 for a loss a day"
            )
        self.losses = 0
        self._every = every
        self._expected = mean_time_between_failures
        self._costs: deque[float] = deque(maxlen=_COSTS)
        self._began = time.monotonic()
        self.begin()

    def begin(self) -> None:
        """The training begins, or begins again: the first call commits, on all ranks."""
        self._left = 0
        self._calls = 0
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Counts a call; True: it commits."""
        self._calls += 1
        return self._calls > self._left

    def looks(self) -> bool:
        """True: this call, which does not commit, looks for changes of the hosts."""
        return self._calls % CALLS_TO_LOOK == 0

    def choose(self, commit_seconds: float) -> int:
        """How many calls after this commit, which took so long, are to do nothing; for rank 0."""
        if self._every != "auto":
            return int(self._every) - 1
        now = time.monotonic()
        self._costs.append(commit_seconds)
        if len(self._costs) < _LEAST_COSTS:
            return 0
        step = max(now - self._last - commit_seconds, 0.0) / self._calls
        expected = self._expected or RANK_SECONDS_TO_FAILURE / api.size()
        failure = time_to_failure(expected, now - self._began, self.losses)
        return steps_between_commits(statistics.median(self._costs), step, failure) - 1

    def skip(self, calls: int) -> None:
        """After a commit: as many calls do nothing."""
        self._left, self._calls, self._last = calls, 0, time.monotonic()
