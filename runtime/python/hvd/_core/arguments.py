# SPDX-License-Identifier: Apache-2.0
"""What the arguments of an operation mean, checked; the same for tensors of any framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvd._core import _lib
from hvd._core.refusals import refused
from hvd._core.work import Average, Sum, Work
from hvd.process_sets import ProcessSet, process_set_id


def work_among(
    process_set: ProcessSet | int,
    kind: int,
    name: str | None = None,
    op: int = Sum,
    scales: tuple[float, float] = (1.0, 1.0),
    root: int = 0,
    wire: int = _lib.WIRE_SAME,
    priority: int = 0,
) -> Work:
    """The work of an operation among the ranks of a process set, which must be there.

    >>> work_among(0, _lib.BARRIER).process_set
    0
    """
    # Numbers of their own: a tensor or an array of one element can change.
    pre, post = scales
    factors = (float(pre), float(post))
    number = process_set_id(process_set)
    return Work(kind, name, checked_op(op), factors, number, root, wire, priority)


def checked_op(op: int) -> int:
    """The reduction, if it is one."""
    if not isinstance(op, int):
        raise refused(f"op is {op!r}: give hvd.Average, hvd.Sum or another of hvd")
    return op


def chosen_op(average: bool | None, op: int | None) -> int:
    """The reduction that Horovod's two arguments mean.

    >>> chosen_op(None, None) == Average, chosen_op(False, None) == Sum
    (True, True)
    """
    if average is not None and op is not None:
        raise refused("The op parameter supersedes average. Please provide only one of them.")
    if op is not None:
        return op
    return Sum if average is False else Average


def check_group(what: str, group: Sequence[Any]) -> None:
    """Refuses a group of nothing."""
    if len(group) == 0:
        raise refused(f"{what}: the list is empty; give one tensor or more")
