# SPDX-License-Identifier: Apache-2.0
"""Allreduce of sparse tensors: the rows of all ranks, with their indices."""

from __future__ import annotations

import torch

from hvd import _lib, api
from hvd.errors import UnsupportedError
from hvd.torch import operations, tensors


def _copy(handle: int, index: int, dtype: torch.dtype) -> torch.Tensor:
    gathered = api.gathered(handle, index)
    output = torch.empty(gathered.shape, dtype=dtype)
    _lib.copy_bytes(output.data_ptr(), gathered.address, output.numel() * output.element_size())
    return output


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str | None = None, op: int = operations.Average
) -> int:
    """Starts the sum or average of a sparse COO tensor; returns a handle for ``synchronize``.

    The result is sparse and not coalesced: an index stands there once for each rank that has it.

    Parameters
    ----------
    tensor
        Of one shape on all ranks; the number of stored values may differ, also be zero.
    op
        `Average` divides the values by the number of ranks before they travel; or `Sum`.

    >>> ones = torch.eye(3).to_sparse()
    >>> hvd.synchronize(hvd.sparse_allreduce_async(ones)).coalesce().values()
    tensor([1., 1., 1.])
    """
    what = f"sparse_allreduce '{name}'"
    if tensor.layout != torch.sparse_coo:
        raise UnsupportedError(f"{what}: the tensor is {tensor.layout}; use to_sparse()")
    if op not in (operations.Average, operations.Sum):
        raise UnsupportedError(f"{what}: only Sum and Average have values that are missing")
    entries = tensor.detach()
    entries = entries if entries.is_coalesced() else entries.coalesce()
    indices = tensors.plain(entries.indices().t(), what)
    values = tensors.plain(entries.values(), what)
    if op == operations.Average:
        values = values / api.size() if values.is_floating_point() else values // api.size()
    described = [
        api.tensor_struct(tensors.DTYPES[part.dtype], part.shape, 0, part.data_ptr())
        for part in (indices, values)
    ]

    def result(handle: int) -> torch.Tensor:
        return torch.sparse_coo_tensor(
            _copy(handle, 0, indices.dtype).t(),
            _copy(handle, 1, values.dtype),
            tensor.shape,
        )

    return operations._start(_lib.ALLGATHER, name, described, (indices, values), result)


def sparse_allreduce(
    tensor: torch.Tensor, name: str | None = None, op: int = operations.Average
) -> torch.Tensor:
    """The sum or average over ranks of a sparse COO tensor; see ``sparse_allreduce_async``."""
    return operations.synchronize(sparse_allreduce_async(tensor, name, op))
