# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 (the check comes first)
"""Collective operations on NumPy arrays; what ``hvd`` has (``init``, ``rank``, ...) is here as well.

Arguments that all operations have:

name
    Equal on all ranks; made from the order of calls unless given.
process_set
    The ranks that take part, each of which calls the operation. Roots are ranks of the job.
priority
    Higher goes first among what waits; equal on all ranks.
async_op
    True: returns at once, a handle; ``synchronize(handle)`` returns the result. The operation has a
    copy of the array, which may be changed, resized or freed at once.
out
    An array of the same type that does not overlap the input; it spares new memory: rows that fit
    into it are written there, and the result is the part of it that they fill. With `async_op` they
    are written there by ``synchronize()``.

Arrays that are not C-contiguous or of foreign byte order are copied first, so that ranks may differ
in both; results are C-contiguous, in the byte order of the input. A ``numpy.matrix`` comes back as
one. Masked arrays and other subclasses are refused: what they are beyond their numbers would be
lost. `prescale_factor` and `postscale_factor` multiply before and after a reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hvd as _hvd
from hvd._core.frameworks import check_framework

check_framework("hvd.numpy", "numpy")

import numpy as np

from hvd._core import _lib, api, handles
from hvd._core import arrays as _arrays
from hvd._core.arguments import check_group, work_among
from hvd._core.array_replicas import check_replicas
from hvd._core.attributes import late_attributes
from hvd._core.handles import poll, synchronize
from hvd._core.refusals import refused
from hvd._core.work import Adasum, Average, BitAnd, BitOr, BitXor, Max, Min, Product, Sum, Work
from hvd.process_sets import ProcessSet, global_process_set

if TYPE_CHECKING:
    from hvd import *  # noqa: F403 (all of its names)

__all__ = [
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allreduce",
    "alltoall",
    "broadcast",
    "check_replicas",
    "gather",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "poll",
    "reduce",
    "reducescatter",
    "scatter",
    "synchronize",
]

# So that `import hvd.numpy as hvd` is all that a script needs.
__getattr__, __dir__ = late_attributes(__name__, dict.fromkeys(_hvd.__all__, "hvd"))

_WIRES = {None: _lib.WIRE_SAME, "float16": _lib.WIRE_FLOAT16, "bfloat16": _lib.WIRE_BFLOAT16}


def _wire(wire: str | None) -> int:
    if wire not in _WIRES:
        raise refused(f"wire is {wire!r}; use 'float16' or 'bfloat16', or leave it out")
    return _WIRES[wire]


def _do(work: Work, tensors: Sequence[Any], memory: Any, result: Any, async_op: bool) -> Any:
    if async_op:
        return handles.start(work, tensors, memory, result)
    return handles.run(work, tensors, memory, result)


def _target(source: _arrays.Source, async_op: bool) -> np.ndarray:
    """Where the result goes: into the input, where that is a copy of ours."""
    return source.memory if async_op else np.empty_like(source.memory)


def _replace(work: Work, array: Any, async_op: bool, has_result: bool = True) -> Any:
    """An operation whose result has the shape of its input."""
    source = _arrays.source_of(array, async_op)
    target = _target(source, async_op) if has_result else None
    tensors = [_arrays.described(source.memory, target)]
    memory = (_arrays.pins(source.memory), target)

    def result(handle: int) -> np.ndarray | None:
        return None if target is None else source.restored(target)

    return _do(work, tensors, memory, result, async_op)


def _move(
    work: Work,
    array: Any,
    out: np.ndarray | None,
    async_op: bool,
    splits: Sequence[int] | None = None,
    with_rows: bool = False,
) -> Any:
    """An operation on rows; `with_rows`: also how many came from each rank."""
    source = _arrays.source_of(array, async_op)
    tensor = _arrays.described(source.memory, splits=splits)
    if out is not None:
        _arrays.check_out(out, source)
        # What outlives the call must not write where the caller may exchange the memory.
        if out.dtype.isnative and not async_op:
            tensor.output, tensor.output_bytes = out.ctypes.data, out.nbytes

    def result(handle: int) -> Any:
        rows = _arrays.rows(handle, 0, source, out)
        return rows if with_rows else rows[0]

    return _do(work, [tensor], _arrays.pins(source.memory, out), result, async_op)


def _move_group(work: Work, arrays: Sequence[Any], async_op: bool) -> Any:
    """Operations on rows that complete as one."""
    sources = [_arrays.source_of(array, async_op) for array in arrays]
    return _do(
        work,
        [_arrays.described(one.memory) for one in sources],
        _arrays.pins(*(one.memory for one in sources)),
        lambda handle: [_arrays.rows(handle, i, one)[0] for i, one in enumerate(sources)],
        async_op,
    )


def allreduce(
    array: Any,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    wire: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
    async_op: bool = False,
) -> Any:
    """The reduction over ranks.

    Parameters
    ----------
    array
        Of one shape and type on all ranks.
    name
        Equal on all ranks; made from the order of calls unless given.
    op
        ``Average`` unless given; or ``Sum``, ``Adasum``, ``Min``, ``Max``, ``Product``, and of
        whole numbers ``BitAnd``, ``BitOr``, ``BitXor``.
    prescale_factor, postscale_factor
        Multiply before and after the reduction.
    wire
        What an array of float32 or float64 travels as: "float16" or "bfloat16".
    process_set
        The ranks that take part, each of which calls it.
    priority
        Higher goes first among what waits; equal on all ranks.
    async_op
        True: returns at once, a handle; ``synchronize(handle)`` returns the result.

    >>> allreduce(np.ones(3)).tolist()  # on any number of ranks
    [1.0, 1.0, 1.0]
    """
    scales = (prescale_factor, postscale_factor)
    work = work_among(
        process_set, _lib.ALLREDUCE, name, op, scales, wire=_wire(wire), priority=priority
    )
    return _replace(work, array, async_op)


def grouped_allreduce(
    arrays: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    wire: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
    async_op: bool = False,
) -> Any:
    """The reductions of several arrays, which complete as one.

    Parameters
    ----------
    arrays
        Each of one shape and type on all ranks; within the group they may differ.
    name, op, prescale_factor, postscale_factor, wire, process_set, priority, async_op
        As of ``allreduce``.

    >>> [one.tolist() for one in grouped_allreduce([np.ones(2), np.zeros(1)])]
    [[1.0, 1.0], [0.0]]
    """
    check_group("grouped_allreduce", arrays)
    sources = [_arrays.source_of(array, async_op) for array in arrays]
    targets = [_target(source, async_op) for source in sources]
    scales = (prescale_factor, postscale_factor)
    work = work_among(
        process_set, _lib.ALLREDUCE, name, op, scales, wire=_wire(wire), priority=priority
    )
    tensors = [_arrays.described(one.memory, target) for one, target in zip(sources, targets)]
    memory = (_arrays.pins(*(one.memory for one in sources)), targets)

    def results(handle: int) -> list[np.ndarray]:
        return [one.restored(target) for one, target in zip(sources, targets)]

    return _do(work, tensors, memory, results, async_op)


def reduce(
    array: Any,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
    async_op: bool = False,
) -> Any:
    """The reduction over ranks on `root_rank`, None elsewhere.

    Parameters
    ----------
    array
        Of one shape and type on all ranks.
    root_rank
        The rank of the job that gets the result.
    name, op, prescale_factor, postscale_factor, process_set, priority, async_op
        As of ``allreduce``.

    >>> total = reduce(np.ones(2), root_rank=0)
    >>> total.tolist() if api.rank() == 0 else [1.0, 1.0]
    [1.0, 1.0]
    """
    scales = (prescale_factor, postscale_factor)
    work = work_among(process_set, _lib.REDUCE, name, op, scales, root_rank, priority=priority)
    return _replace(work, array, async_op, api.rank() == root_rank)


def reducescatter(
    array: Any,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
    async_op: bool = False,
) -> Any:
    """This rank's share of the rows of the reduction; the first ranks have one row more.

    Parameters
    ----------
    array
        Of one shape and type on all ranks; a row is a slice along the first dimension.
    name, op, prescale_factor, postscale_factor, process_set, priority, async_op
        As of ``allreduce``.

    >>> reducescatter(np.ones((api.size(), 2))).tolist()
    [[1.0, 1.0]]
    """
    scales = (prescale_factor, postscale_factor)
    work = work_among(process_set, _lib.REDUCESCATTER, name, op, scales, priority=priority)
    return _move(work, array, None, async_op)


def grouped_reducescatter(
    arrays: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
    async_op: bool = False,
) -> Any:
    """This rank's shares of several reductions, which complete as one.

    Parameters
    ----------
    arrays
        Each of one shape and type on all ranks; within the group they may differ.
    name, op, prescale_factor, postscale_factor, process_set, priority, async_op
        As of ``allreduce``.

    >>> first, second = grouped_reducescatter([np.ones(api.size()), np.zeros((api.size(), 3))])
    >>> first.shape, second.shape
    ((1,), (1, 3))
    """
    check_group("grouped_reducescatter", arrays)
    scales = (prescale_factor, postscale_factor)
    work = work_among(process_set, _lib.REDUCESCATTER, name, op, scales, priority=priority)
    return _move_group(work, arrays, async_op)


def broadcast(
    array: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
    async_op: bool = False,
) -> Any:
    """The array of `root_rank`, which must have one shape and type on all ranks.

    Parameters
    ----------
    array
        Of one shape and type on all ranks.
    root_rank
        The rank of the job whose value it is.
    name, process_set, priority, async_op
        As of ``allreduce``.

    >>> broadcast(np.arange(3), root_rank=0).tolist()
    [0, 1, 2]
    """
    work = work_among(process_set, _lib.BROADCAST, name, root=root_rank, priority=priority)
    return _replace(work, array, async_op)


def allgather(
    array: Any,
    name: str | None = None,
    out: np.ndarray | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
    async_op: bool = False,
) -> Any:
    """The rows of all ranks, by rank; their number may differ.

    Parameters
    ----------
    array
        Rows of one shape and type on all ranks; their number may differ.
    name, process_set, priority, async_op
        As of ``allreduce``.
    out
        An array of the same type that does not overlap the input: rows that fit are written there.

    >>> allgather(np.array([[api.rank(), 7]])).shape == (api.size(), 2)
    True
    """
    work = work_among(process_set, _lib.ALLGATHER, name, priority=priority)
    return _move(work, array, out, async_op)


def grouped_allgather(
    arrays: Sequence[Any],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
    async_op: bool = False,
) -> Any:
    """The same of several arrays, which complete as one.

    Parameters
    ----------
    arrays
        Each with rows of one shape and type on all ranks; their number may differ.
    name, process_set, priority, async_op
        As of ``allreduce``.

    >>> [len(one) // api.size() for one in grouped_allgather([np.ones(2), np.ones((3, 1))])]
    [2, 3]
    """
    check_group("grouped_allgather", arrays)
    work = work_among(process_set, _lib.ALLGATHER, name, priority=priority)
    return _move_group(work, arrays, async_op)


def gather(
    array: Any,
    root_rank: int,
    name: str | None = None,
    out: np.ndarray | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
    async_op: bool = False,
) -> Any:
    """The rows of all ranks on `root_rank`, none elsewhere.

    Parameters
    ----------
    array
        Rows of one shape and type on all ranks; their number may differ.
    root_rank
        The rank of the job that gets the rows.
    name, out, process_set, priority, async_op
        As of ``allgather``.

    >>> len(gather(np.ones(2), root_rank=0)) == (2 * api.size() if api.rank() == 0 else 0)
    True
    """
    work = work_among(process_set, _lib.GATHER, name, root=root_rank, priority=priority)
    return _move(work, array, out, async_op)


def scatter(
    array: Any,
    root_rank: int,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    out: np.ndarray | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
    async_op: bool = False,
) -> Any:
    """This rank's rows of the array of `root_rank`.

    Parameters
    ----------
    array
        Elsewhere than on `root_rank` only its type and the shape of its rows count.
    root_rank
        The rank of the job whose rows they are.
    splits
        Rows for each rank; shared out evenly unless given. Ignored elsewhere than on `root_rank`.
    name, out, process_set, priority, async_op
        As of ``allgather``.

    >>> scatter(np.ones((2 * api.size(), 3)), root_rank=0).shape
    (2, 3)
    """
    work = work_among(process_set, _lib.SCATTER, name, root=root_rank, priority=priority)
    return _move(work, array, out, async_op, splits if api.rank() == root_rank else None)


def alltoall(
    array: Any,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    out: np.ndarray | None = None,
    process_set: ProcessSet = global_process_set,
    priority: int = 0,
    async_op: bool = False,
) -> Any:
    """The rows that the other ranks sent here, and how many came from each: a pair.

    Parameters
    ----------
    array
        Rows of one shape and type on all ranks: those for rank 0 come first.
    splits
        How many of the rows go to each rank, in order; equal parts unless given.
    name, out, process_set, priority, async_op
        As of ``allgather``.

    >>> rows, counts = alltoall(np.arange(api.size()))
    >>> counts == (1,) * api.size()
    True
    """
    work = work_among(process_set, _lib.ALLTOALL, name, priority=priority)
    return _move(work, array, out, async_op, splits, True)
