# SPDX-License-Identifier: Apache-2.0
"""Processes that come to an elastic job which is at work."""

from __future__ import annotations

from hvd._core._lib import quick
from hvd.errors import InvalidArgumentError

# This process has come to such a job, and has not taken part in its agreement yet.
is_one = False


def note_start() -> None:
    """To be called when this process has joined for the first time."""
    global is_one
    is_one = began_late()


def began_late() -> bool:
    """True in a process that came to a job at work, for good.

    >>> began_late()
    False
    """
    return bool(quick.hvd_came_late())


def admit() -> None:
    """From now on this process takes part in the operations of the job."""
    global is_one
    is_one = False


def refuse(what: str, rank: int) -> None:
    """Raises an error for an operation in which this process would wait alone."""
    raise InvalidArgumentError(
        f"rank {rank}: {what}: this process has come to a job that is at work, and would "
        "wait in this operation alone: between hvd.init() and the function under hvd.elastic.run "
        "call none (a barrier, an allreduce); the state brings what a rank needs"
    )


def are_waiting() -> bool:
    """True on rank 0 of an elastic job that is to have more ranks, for whom processes wait, or fewer.

    >>> are_waiting()
    False
    """
    return bool(quick.hvd_has_newcomers())
