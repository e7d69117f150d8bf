# SPDX-License-Identifier: Apache-2.0
"""What an operation does, before it is on its way; the same for tensors of any framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hvd import _lib
from hvd.process_sets import ProcessSet, process_set_id
from hvd.refusals import refused

Average = _lib.AVERAGE
Sum = _lib.SUM
Adasum = _lib.ADASUM
AdaSum = Adasum  # as pages print it that introduce Horovod
Min = _lib.MIN
Max = _lib.MAX
Product = _lib.PRODUCT
BitAnd = _lib.BIT_AND
BitOr = _lib.BIT_OR
BitXor = _lib.BIT_XOR

# What users call the operations.
KINDS = {
    _lib.ALLREDUCE: "allreduce",
    _lib.ALLGATHER: "allgather",
    _lib.BROADCAST: "broadcast",
    _lib.BARRIER: "barrier",
    _lib.REDUCESCATTER: "reducescatter",
    _lib.ALLTOALL: "alltoall",
    _lib.REDUCE: "reduce",
    _lib.GATHER: "gather",
    _lib.SCATTER: "scatter",
    _lib.JOIN: "join",
}


class Work(NamedTuple):
    """What an operation does, as ``hvd_request`` has it."""

    kind: int
    name: str | None = None
    op: int = Sum
    scales: tuple[float, float] = (1.0, 1.0)
    process_set: int = 0
    root: int = 0
    wire: int = _lib.WIRE_SAME
    priority: int = 0


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
    return Work(
        kind, name, checked_op(op), scales, process_set_id(process_set), root, wire, priority
    )


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


def share(rows: Any, place: int, ranks: int) -> Any:
    """How many of `rows` the rank at `place` gets: the first ranks have one more.

    >>> [share(5, place, 3) for place in range(3)]
    [2, 2, 1]
    """
    return (rows + ranks - 1 - place) // ranks
