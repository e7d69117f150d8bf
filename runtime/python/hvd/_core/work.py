# SPDX-License-Identifier: Apache-2.0
"""What an operation does, before it is on its way; the same for tensors of any framework."""

from __future__ import annotations

from typing import Any, NamedTuple

from hvd._core import _lib

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


def share(rows: Any, place: int, ranks: int) -> Any:
    """How many of `rows` the rank at `place` gets: the first ranks have one more.

    >>> [share(5, place, 3) for place in range(3)]
    [2, 2, 1]
    """
    return (rows + ranks - 1 - place) // ranks
