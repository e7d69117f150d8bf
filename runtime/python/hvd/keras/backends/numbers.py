# SPDX-License-Identifier: Apache-2.0
"""Numbers of Python, which need no framework to travel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

import hvd.numpy
from hvd.process_sets import ProcessSet, global_process_set


def average(
    values: Sequence[float], process_set: ProcessSet = global_process_set, name: str | None = None
) -> list[float]:
    """The averages over ranks, each of which gives equally many values.

    >>> average([1.0, 2.0])
    [1.0, 2.0]
    """
    if not values:
        return []
    array = numpy.array(values, numpy.float64)
    return hvd.numpy.allreduce(array, name, process_set=process_set).tolist()
