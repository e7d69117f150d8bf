# SPDX-License-Identifier: Apache-2.0
"""Allreduce of sparse tensors: the rows of all ranks, with their indices."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch

from hvd._core import _lib, api, handles
from hvd._core.gradients import Reduction
from hvd._core.handles import synchronize
from hvd._core.work import Average, Sum, Work
from hvd.errors import HvdError, SparseReductionError, UnsupportedError
from hvd.process_sets import ProcessSet, global_process_set, process_set_id
from hvd.torch import devices, tensors


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts the sum or average of a sparse COO tensor; returns a handle for ``synchronize``.

    The result is sparse and not coalesced: an index stands there once for each rank that has it. The
    average of halves and of whole numbers is coalesced: it is the quotient of their sum.

    Parameters
    ----------
    tensor
        Of one shape on all ranks; the number of stored values may differ, also be zero.
    name
        Equal on all ranks; made from the order of calls unless given.
    op
        `Average`, of the ranks of the set; or `Sum`.
    process_set
        The ranks that take part, each of which calls it.

    Raises
    ------
    UnsupportedError
        The tensor is not sparse COO, or a reduction other than these (``SparseReductionError``).

    >>> ones = torch.eye(3).to_sparse()
    >>> handles.synchronize(sparse_allreduce_async(ones)).coalesce().values()
    tensor([1., 1., 1.])
    """
    what = "sparse_allreduce"
    if tensor.layout != torch.sparse_coo:
        raise UnsupportedError(f"{what} '{name}': the tensor is {tensor.layout}; use to_sparse()")
    if op not in (Average, Sum):
        raise SparseReductionError(
            f"{what} '{name}': only Sum and Average have values that are missing"
        )
    entries = tensor.detach()
    entries = entries if entries.is_coalesced() else entries.coalesce()
    indices = tensors.plain(entries.indices().t(), what, name)
    values = tensors.plain(entries.values(), what, name)
    number = process_set_id(process_set)
    ranks = api.process_set_size(number) if op == Average else 1

    def result(handle: int) -> torch.Tensor:
        rows = tensors.sparse(
            tensors.gathered(handle, 0, indices).t(),
            tensors.gathered(handle, 1, values),
            tensor.shape,
        )
        return rows if op == Sum else average_of_rows(rows, ranks)

    work = Work(_lib.ALLGATHER, name, process_set=number)
    parts = (indices, values)
    flat = [tensors.rows_of(part) for part in parts]
    return handles.start(work, flat, parts, result, place=devices.place_of(parts, what))


def average_of_rows(rows: torch.Tensor, ranks: int) -> torch.Tensor:
    """The average over ranks of the rows that all of them gave; coalesced for narrow types.

    Halves and whole numbers are added up in float32 and int64 first: their quotients need not fit
    into the type, as that of their sum does.

    Parameters
    ----------
    rows
        A sparse COO tensor of any type that has a sum; it changes.
    ranks
        Ranks that gave them, also those that gave none.

    >>> average_of_rows(torch.full((2,), 100, dtype=torch.int8).to_sparse(), 50).to_dense()
    tensor([2, 2], dtype=torch.int8)
    """
    if ranks == 1:
        return rows
    is_whole = not (rows.is_floating_point() or rows.is_complex())
    if not is_whole and rows.dtype not in (torch.float16, torch.bfloat16):
        rows._values().div_(ranks)
        return rows
    # A divisor takes the type of what it divides, which int8 is too small for from 128 ranks on.
    sums = rows.to(torch.int64 if is_whole else torch.float32).coalesce()
    values = torch.div(sums.values(), ranks, rounding_mode="trunc" if is_whole else None)
    result = tensors.sparse(sums.indices(), values.to(rows.dtype), rows.shape)
    return result._coalesced_(True)


def sparse_allreduce(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The sum or average over ranks of a sparse COO tensor; see ``sparse_allreduce_async``.

    Parameters
    ----------
    tensor
        A sparse COO tensor of one shape on all ranks.
    name, op, process_set
        As of ``sparse_allreduce_async``.

    >>> sparse_allreduce(torch.eye(2).to_sparse()).coalesce().values()
    tensor([1., 1.])
    """
    return handles.synchronize(sparse_allreduce_async(tensor, name, op, process_set))


class SparseGradients:
    """The sparse ones among some gradients; they leave when the step is synchronized.

    Parameters
    ----------
    parameters
        All of an optimizer, by index.
    names
        Theirs.
    """

    def __init__(self, parameters: Sequence[torch.nn.Parameter], names: Sequence[str]) -> None:
        self._parameters = parameters
        self._names = names
        # Backward passes of this step that gave one, and the handles of those that have left, by
        # index. Of those that have ever been sparse: how many sparse dimensions.
        self.passes: dict[int, int] = {}
        self._handles: dict[int, int] = {}
        self._dimensions: dict[int, int] = {}

    def add(self, index: int, gradient: torch.Tensor) -> None:
        """One backward pass gave this one."""
        if gradient._nnz() or index not in self._dimensions:  # zero_() changes them
            self._dimensions[index] = gradient.sparse_dim()
        self.passes[index] = self.passes.get(index, 0) + 1

    def serves(self, index: int, gradient: torch.Tensor | None) -> bool:
        """True where a gradient, or none, travels as rows."""
        if gradient is not None and gradient.is_sparse and index not in self._dimensions:
            self._dimensions[index] = gradient.sparse_dim()
        return index in self._dimensions and (gradient is None or gradient.is_sparse)

    def send(self, index: int, reduction: Reduction) -> None:
        """Starts the reduction of one; of no rows where this rank has none."""
        parameter = self._parameters[index]
        gradient = parameter.grad
        if gradient is None or not gradient._nnz():
            dimensions = self._dimensions[index]
            gradient = tensors.sparse(
                torch.zeros((dimensions, 0), dtype=torch.int64, device=parameter.device),
                parameter.new_zeros((0, *parameter.shape[dimensions:])),
                parameter.shape,
            )
        name, (op, _, _, process_set) = f"gradient.{self._names[index]}", reduction
        self._handles[index] = sparse_allreduce_async(gradient, name, op, process_set)  # type: ignore[arg-type]

    def wait(self) -> None:
        """Gives each parameter its reduced gradient."""
        for index, handle in self._handles.items():
            self._parameters[index].grad = synchronize(handle)
        self._handles.clear()

    def forget(self) -> None:
        """Nothing of this step is on its way any more."""
        for handle in self._handles.values():
            with contextlib.suppress(HvdError):
                synchronize(handle)  # nothing where that was done
        self._handles.clear()
        self.passes.clear()
