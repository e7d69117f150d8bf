# SPDX-License-Identifier: Apache-2.0
"""Allreduce of sparse tensors: the rows of all ranks, with their indices."""

from __future__ import annotations

import torch

from hvd import _lib, api, handles
from hvd.errors import UnsupportedError
from hvd.process_sets import ProcessSet, global_process_set, process_set_id
from hvd.torch import devices, tensors
from hvd.work import Average, Sum, Work


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts the sum or average of a sparse COO tensor; returns a handle for ``synchronize``.

    The result is sparse and not coalesced: an index stands there once for each rank that has it.

    Parameters
    ----------
    tensor
        Of one shape on all ranks; the number of stored values may differ, also be zero.
    op
        `Average` divides the values by the ranks of the set before they travel; or `Sum`.

    >>> ones = torch.eye(3).to_sparse()
    >>> handles.synchronize(sparse_allreduce_async(ones)).coalesce().values()
    tensor([1., 1., 1.])
    """
    what = "sparse_allreduce"
    if tensor.layout != torch.sparse_coo:
        raise UnsupportedError(f"{what} '{name}': the tensor is {tensor.layout}; use to_sparse()")
    if op not in (Average, Sum):
        raise UnsupportedError(
            f"{what} '{name}': only Sum and Average have values that are missing"
        )
    entries = tensor.detach()
    entries = entries if entries.is_coalesced() else entries.coalesce()
    indices = tensors.plain(entries.indices().t(), what, name)
    values = tensors.plain(entries.values(), what, name)
    number = process_set_id(process_set)
    if op == Average:
        ranks = api.process_set_size(number)
        is_whole = not (values.is_floating_point() or values.is_complex())
        values = torch.div(values, ranks, rounding_mode="trunc" if is_whole else None)

    def result(handle: int) -> torch.Tensor:
        return tensors.sparse(
            tensors.gathered(handle, 0, indices).t(),
            tensors.gathered(handle, 1, values),
            tensor.shape,
        )

    work = Work(_lib.ALLGATHER, name, process_set=number)
    parts = (indices, values)
    flat = [tensors.rows_of(part) for part in parts]
    return handles.start(work, flat, parts, result, place=devices.place_of(parts, what))


def sparse_allreduce(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The sum or average over ranks of a sparse COO tensor; see ``sparse_allreduce_async``.

    >>> sparse_allreduce(torch.eye(2).to_sparse()).coalesce().values()
    tensor([1., 1.])
    """
    return handles.synchronize(sparse_allreduce_async(tensor, name, op, process_set))
