# SPDX-License-Identifier: Apache-2.0
"""The collectives of ``torch.distributed`` as operations of ours."""

from __future__ import annotations

import atexit
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch._C import _distributed_c10d as _c10d

from hvd._core import _lib, api, handles
from hvd.errors import DeadlineError, InvalidArgumentError, UnsupportedError
from hvd.torch.distributed import completion, pairs
from hvd.torch.distributed.completion import Completions
from hvd.torch.distributed.copies import Copies
from hvd.torch.distributed.memory import Target, plain
from hvd.torch.distributed.messages import MOST_TAGS, Message
from hvd.torch.distributed.pairs import Links
from hvd.torch.distributed.reductions import Reductions
from hvd.torch.distributed.work import HvdWork


class Collectives(Reductions, Copies):
    """All that ``torch.distributed`` calls, by each name that its versions have."""

    def __init__(
        self,
        label: str,
        number: int,
        ranks: Sequence[int],
        timeout: float,
        keeps: bool,
        store: Any,
    ) -> None:
        super().__init__(label, number, ranks, timeout, Completions(label, keeps))
        self._messages = Completions(f"{label}-messages", False)
        self._links = Links(store, label, self._ranks.index(api.rank()), ranks, timeout)
        self._monitored = itertools.count()

    def shutdown(self) -> None:
        """The group is no longer used."""
        super().shutdown()
        self._links.close("was shut down")
        self._messages.stop()

    abort = shutdown

    def __del__(self) -> None:
        links = getattr(self, "_links", None)
        if links is not None:
            links.close("is gone")

    def barrier(self, opts: Any = None) -> Any:
        """Done when all ranks of the group have come."""
        opts = opts or _c10d.BarrierOptions()
        return self._start(handles.Work(_lib.BARRIER), [], opts, None, [])

    def send(self, tensors: Sequence[torch.Tensor], peer: int, tag: int = 0) -> Any:
        """The tensor to another rank of the group."""
        self._check_pair("send", tensors, peer, tag)
        return self._exchange(plain(tensors[0], "send"), peer, tag, tensors)

    def recv(self, tensors: Sequence[torch.Tensor], peer: int, tag: int = 0) -> Any:
        """The tensor of another rank of the group."""
        self._check_pair("recv", tensors, peer, tag)
        target = Target(tensors[0], "recv")
        return self._exchange(target.room, peer, tag, tensors, target.put_back)

    def _check_pair(self, what: str, tensors: Sequence[Any], peer: int, tag: int) -> None:
        if len(tensors) != 1:
            raise InvalidArgumentError(f"{what}: one tensor is needed, not {len(tensors)}")
        if not 0 <= peer < len(self._ranks):
            raise InvalidArgumentError(
                f"{what}: rank {peer} is not in process group '{self._label}' of "
                f"{len(self._ranks)} ranks"
            )
        if self._ranks[peer] == api.rank():
            raise UnsupportedError(
                f"{what}: rank {api.rank()} cannot exchange messages with itself: copy the tensor"
            )
        if not 0 <= tag < MOST_TAGS:
            raise InvalidArgumentError(f"{what}: tag {tag} is not in 0 to {MOST_TAGS - 1}")

    def _exchange(
        self,
        room: torch.Tensor,
        peer: int,
        tag: int,
        result: Sequence[torch.Tensor],
        finish: Callable[[], None] | None = None,
    ) -> Any:
        deadline = time.monotonic() + self._timeout
        sends = finish is None
        message = Message(self._links, self._messages, room, peer, tag, sends, deadline, finish)
        work = HvdWork(message, list(result), None)
        self._completions.keep(work)
        return work

    def recv_anysource(self, *unused: Any) -> NoReturn:
        """Refused: each pair of ranks has a connection of its own."""
        raise UnsupportedError(
            "recv() without a source: the backend 'hvd' receives from a rank that is named: give "
            "src=..., or make a group with torch.distributed.new_group(backend='gloo')"
        )

    recvAnysource = recv_anysource

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier whose error at the deadline names the ranks that have not come."""
        key = f"hvd.monitored/{self._links.era}/{next(self._monitored)}/"
        store = self._links.store
        store.add(f"{key}{api.rank()}", 1)
        try:
            self.barrier(opts).wait()
        except DeadlineError as error:
            missing = [rank for rank in self._ranks if not store.add(f"{key}{rank}", 0)]
            raise DeadlineError(
                f"rank {api.rank()}: monitored_barrier of process group '{self._label}': within "
                f"the timeout ranks {missing} have not come"
            ) from error

    _allgather_base = Copies.all_gather_single
    allgather_into_tensor_coalesced = Copies.all_gather_single_coalesced
    _reduce_scatter_base = Reductions.reduce_scatter_single
    reduce_scatter_tensor_coalesced = Reductions.reduce_scatter_single_coalesced
    all_to_all_single = Copies.alltoall_base


@atexit.register
def _end_of_program() -> None:
    # The connections first: threads of ours wait for them.
    pairs.end()
    completion.end()
