# SPDX-License-Identifier: Apache-2.0
"""The collectives of ``torch.distributed`` as operations of ours."""

from __future__ import annotations

from typing import Any, NoReturn

from torch._C import _distributed_c10d as _c10d

from hvd import _lib, handles
from hvd.errors import UnsupportedError
from hvd.torch.distributed.copies import Copies
from hvd.torch.distributed.reductions import Reductions


class Collectives(Reductions, Copies):
    """All that ``torch.distributed`` calls, by each name that its versions have."""

    def barrier(self, opts: Any = None) -> Any:
        """Done when all ranks of the group have come."""
        opts = opts or _c10d.BarrierOptions()
        return self._start(handles.Work(_lib.BARRIER), [], opts, None, [])

    def _no_pairs(self, *unused: Any) -> NoReturn:
        raise UnsupportedError(
            "the backend 'hvd' has no send and recv between two ranks: make a group for them with "
            "torch.distributed.new_group(backend='gloo'), and pass it as group=..."
        )

    send = recv = recv_anysource = recvAnysource = _no_pairs

    _allgather_base = Copies.all_gather_single
    allgather_into_tensor_coalesced = Copies.all_gather_single_coalesced
    _reduce_scatter_base = Reductions.reduce_scatter_single
    reduce_scatter_tensor_coalesced = Reductions.reduce_scatter_single_coalesced
    all_to_all_single = Copies.alltoall_base
