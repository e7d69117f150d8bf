# SPDX-License-Identifier: Apache-2.0
"""The derivatives of operations, for any framework.

The backward pass of an operation is an operation too: on the gradients of the results, times a
factor. What is on this page is all that differs between operations except for their shapes:

===============  ==========================================================================
of               its result becomes the gradient of the input so
===============  ==========================================================================
allreduce        as it is; of Min and Max see :func:`is_of_extremes`
broadcast        as it is on the root; zeros elsewhere
allgather        this rank's rows of it, which begin after the rows of the ranks before
reducescatter    as it is, in the shape of the input
reduce           as it is; the gradient goes in on the root, anything in its shape elsewhere
alltoall         its rows, then zeros for those of the input that went nowhere
gather           its rows
scatter          its rows on the root, then zeros; zeros elsewhere
===============  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from hvd._core import _lib, api
from hvd._core.work import Average, Max, Min, Sum, Work
from hvd.errors import UnsupportedError

Counts = TypeVar("Counts", bound=Sequence[int])


class Derivative(NamedTuple):
    """What the backward pass of an operation does."""

    work: Work
    factor: float = 1.0


def derivative(work: Work) -> Derivative:
    """The operation on the gradients of the results of `work`, and what multiplies its result.

    With the sum of the losses of all ranks as L: it is of L for sums, averages, extremes, and for
    rows that go from rank to rank; as Horovod has it, of L divided by the ranks for allgather and
    broadcast, and of L times the ranks for reducescatter.

    Raises
    ------
    UnsupportedError
        The reduction has no derivative.

    >>> back, factor = derivative(Work(_lib.REDUCESCATTER, "share", Average, (2.0, 0.5)))
    >>> back.kind == _lib.ALLGATHER, back.name, factor
    (True, None, 1.0)
    """
    back = Work(_lib.ALLREDUCE, op=Average, process_set=work.process_set, wire=work.wire)
    if work.kind == _lib.ALLREDUCE:
        if is_of_extremes(work):
            return Derivative(back._replace(op=Sum))
        _check_op(work, "Sum and Average have a gradient, and Min and Max without scales")
        # The derivative of a sum over ranks is the same sum of what comes back.
        return Derivative(back._replace(op=work.op, scales=work.scales))
    if work.kind in (_lib.ALLGATHER, _lib.BROADCAST):
        return Derivative(back)
    kind = _lib.KINDS[work.kind].back
    assert kind is not None, work
    back = Work(kind, process_set=work.process_set, root=work.root)
    if work.kind not in (_lib.REDUCESCATTER, _lib.REDUCE):
        return Derivative(back)
    _check_op(work, "only Sum and Average have a gradient")
    factor = work.scales[0] * work.scales[1]
    ranks = api.process_set_size(work.process_set)
    if work.kind == _lib.REDUCESCATTER and work.op == Sum:
        factor *= ranks
    if work.kind == _lib.REDUCE and work.op == Average:
        factor /= ranks
    return Derivative(back, factor)


def _check_op(work: Work, which: str) -> None:
    if work.op not in (Average, Sum):
        raise UnsupportedError(
            f"rank {api.rank()}: {_lib.KINDS[work.kind].name}: {which}; keep the input out of the "
            "gradient: detach() in PyTorch, tf.stop_gradient() in TensorFlow"
        )


def is_of_extremes(work: Work) -> bool:
    """True for Min and Max without scales: whoever has the extreme gets the gradient.

    Let `hit` be 1 where the input equals the result, else 0. The operation of ``derivative()`` sums
    the gradients and the hits over the ranks; the gradient of the input is the one sum times `hit`
    divided by the other, so that several ranks with the same extreme share it.

    >>> is_of_extremes(Work(_lib.ALLREDUCE, op=Max))
    True
    """
    return work.kind == _lib.ALLREDUCE and work.op in (Min, Max) and work.scales == (1.0, 1.0)


def splits_back(work: Work, counts: Counts) -> Counts | None:
    """The splits with which rows go back the way that they came, in alltoall, gather and scatter.

    Parameters
    ----------
    counts
        The rows that came from each rank.

    >>> splits_back(Work(_lib.ALLTOALL), [1, 2])
    [1, 2]
    """
    if work.kind == _lib.ALLTOALL or (work.kind == _lib.GATHER and api.rank() == work.root):
        return counts
    return None
