# SPDX-License-Identifier: Apache-2.0
"""Means over ranks that have seen different numbers of samples."""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Mapping
from typing import Any

from hvd import objects
from hvd._core.refusals import refused
from hvd._core.work import Sum
from hvd.process_sets import ProcessSet, global_process_set

# Of a checksum of names: its square, summed over the ranks, is exact in a double.
_CHECK_BITS = 20


def average_metrics(
    metrics: Mapping[str, Any],
    weight: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> dict[str, Any]:
    """The weighted means over ranks, in one allreduce of float64; every rank calls it.

    Parameters
    ----------
    metrics
        Name and mean on this rank: numbers, NumPy arrays, or tensors on the CPU. The same names and
        shapes on every rank.
    weight
        What the means of this rank stand for: its number of samples. 0: its values do not count, and
        may be NaN.
    process_set
        The ranks that take part, each of which calls it.

    Returns
    -------
    dict
        Numbers as floats; arrays and tensors in float64. NaN if the weights of all ranks are 0.

    Raises
    ------
    InvalidArgumentError
        A value is not a number; or, on every rank, the names differ.
    MismatchError
        On every rank: the ranks have different numbers of values.

    >>> average_metrics({"loss": 0.5}, weight=64)  # the same value on any number of ranks
    {'loss': 0.5}
    """
    if not (weight >= 0 and math.isfinite(weight)):
        raise refused(f"average_metrics: weight is {weight}; 0 or more")
    names = sorted(metrics)
    values: list[float] = []
    for name in names:
        flat = _flat(name, metrics[name])
        values += [value * weight for value in flat] if weight else [0.0] * len(flat)
    means = iter(_means(names, values, weight, process_set))
    return {name: _like(metrics[name], means) for name in names}


def _means(
    names: list[str], weighted: list[float], weight: float, process_set: ProcessSet
) -> list[float]:
    """The sums over ranks by the sum of weights, unless the names differ."""
    check = float(zlib.crc32("\0".join(names).encode()) & ((1 << _CHECK_BITS) - 1))
    sums = objects.allreduce_numbers(
        [*weighted, weight, check, check * check, 1.0], Sum, "average_metrics", process_set
    )
    *sums, total, checks, squares, ranks = sums
    # Without variance they are equal.
    if squares * ranks != checks * checks:
        by_rank = objects.allgather_object(names, "average_metrics", process_set)
        raise refused(
            "average_metrics: ranks have different names: "
            + "; ".join(f"{place}: {found}" for place, found in enumerate(by_rank[:4]))
            + ("; ..." if len(by_rank) > 4 else "")
        )
    return [one / total if total else math.nan for one in sums]


def _flat(name: str, value: Any) -> list[float]:
    try:
        if getattr(value, "shape", ()):
            return [float(one) for one in value.reshape(-1).tolist()]
        return [float(value)]
    except (TypeError, ValueError) as error:
        raise refused(f"average_metrics: '{name}' is {value!r}: {error}") from error


def _like(value: Any, means: Any) -> Any:
    """The next means in the form of `value`."""
    shape = tuple(getattr(value, "shape", ()))
    if not shape:
        return next(means)
    flat = [next(means) for _ in range(math.prod(shape))]
    package = type(value).__module__.split(".")[0]
    if package == "torch":
        torch = sys.modules["torch"]
        return torch.tensor(flat, dtype=torch.float64).reshape(shape)
    return sys.modules["numpy"].array(flat, dtype="float64").reshape(shape)


class WeightedMeans:
    """Adds up means of batches, then gives those over all ranks; for a validation.

    Parameters
    ----------
    *names
        The metrics, the same on every rank: so that one without samples knows them too.
    process_set
        The ranks that take part, each of which calls it.

    Raises
    ------
    InvalidArgumentError
        No name, or one twice.

    >>> means = WeightedMeans("loss", "accuracy")
    >>> means.add(32, loss=1.0, accuracy=0.5)  # a batch of 32 samples, and its means
    >>> means.add(16, loss=4.0, accuracy=0.5)
    >>> means.result()  # the same on any number of ranks that add the same
    {'accuracy': 0.5, 'loss': 2.0}
    """

    def __init__(self, *names: str, process_set: ProcessSet = global_process_set) -> None:
        if not names or len(set(names)) != len(names):
            raise refused(f"WeightedMeans: names are {list(names)}; some, each once")
        self._process_set = process_set
        self._sums = dict.fromkeys(names, 0.0)
        self.weight = 0.0

    def add(self, weight: float, **metrics: Any) -> None:
        """Numbers that are means of `weight` samples of this rank.

        Parameters
        ----------
        weight
            Samples of this rank that they stand for.
        **metrics
            Each name of the object, and its mean.

        Raises
        ------
        InvalidArgumentError
            Other names than those that the object was made for.
        """
        if set(metrics) != set(self._sums):
            raise refused(f"WeightedMeans: got {sorted(metrics)}, made for {sorted(self._sums)}")
        if not weight:
            return
        for name, value in metrics.items():
            self._sums[name] += float(value) * weight
        self.weight += weight

    def result(self) -> dict[str, float]:
        """The means over the samples of all ranks; every rank calls it, also one without any."""
        names = sorted(self._sums)
        sums = [self._sums[name] for name in names]
        return dict(zip(names, _means(names, sums, self.weight, self._process_set)))

    def reset(self) -> None:
        """Begins anew."""
        self._sums = dict.fromkeys(self._sums, 0.0)
        self.weight = 0.0
