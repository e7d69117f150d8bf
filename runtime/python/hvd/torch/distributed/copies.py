# SPDX-License-Identifier: Apache-2.0
"""Operations of ``torch.distributed`` that move tensors as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as _c10d

from hvd._core import _lib, api, handles
from hvd.errors import UnsupportedError
from hvd.torch import tensors as _tensors
from hvd.torch.distributed import memory
from hvd.torch.distributed.group import KINDS, Group
from hvd.torch.distributed.memory import Parts, Target, check_share, putting_back

Tensors = Sequence[torch.Tensor]


class Copies(Group):
    """Operations that move."""

    def broadcast(self, tensors: Tensors, opts: Any) -> Any:
        """Replaces the tensors by those of the root."""
        targets = [Target(tensor, "broadcast", True) for tensor in tensors]
        return self._start(
            handles.Work(_lib.BROADCAST, root=self._root(opts)),
            [target.in_place() for target in targets],
            opts,
            targets,
            list(tensors),
            putting_back(targets),
        )

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        """Output list i gets the tensor i of each rank."""
        opts = opts or _c10d.AllgatherOptions()
        return self._collect(handles.Work(_lib.ALLGATHER), outputs, inputs, opts)

    def allgather_coalesced(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None
    ) -> Any:
        """Output list r gets the tensors of rank r."""
        return self.allgather([list(column) for column in zip(*outputs)], inputs, opts)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Any:
        """Output list i gets the tensor i of each rank, on the root."""
        work = handles.Work(_lib.GATHER, root=self._root(opts))
        return self._collect(work, outputs, inputs, opts)

    def _collect(
        self, work: handles.Work, outputs: Sequence[Tensors], inputs: Tensors, opts: Any
    ) -> Any:
        what = KINDS[work.kind]
        sources = [memory.plain(tensor, what).reshape(-1) for tensor in inputs]
        parts = [Parts(list(output), what) for output in outputs]
        rooms = [part.room() for part in parts] or [source.new_empty(0) for source in sources]

        def finish(handle: int) -> None:
            for index, (part, room) in enumerate(zip(parts, rooms)):
                memory.received(handle, index, room, part.counts, what)
                part.take(room)

        tensors = [_tensors.rows_of(source, room) for source, room in zip(sources, rooms)]
        result = [tensor for output in outputs for tensor in output]
        return self._start(work, tensors, opts, (sources, rooms), result, finish)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        """The tensors of all ranks one after another."""
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Any:
        """The same for several tensors."""
        opts = opts or _c10d.AllgatherOptions()
        targets = [Target(output, "all_gather") for output in outputs]
        sources = [memory.plain(tensor, "all_gather").reshape(-1) for tensor in inputs]
        for source, target in zip(sources, targets):
            check_share("all_gather", target.room, source, len(self._ranks))
        # FSDP gathers in place: its part is the place in the output where it goes.
        sources = [memory.apart(source, target.room) for source, target in zip(sources, targets)]

        def finish(handle: int) -> None:
            for index, (source, target) in enumerate(zip(sources, targets)):
                counts = [source.numel()] * len(self._ranks)
                memory.received(handle, index, target.room.view(-1), counts, "all_gather")
                target.put_back()

        return self._start(
            handles.Work(_lib.ALLGATHER),
            [_tensors.rows_of(source, target.room) for source, target in zip(sources, targets)],
            opts,
            (sources, targets),
            list(outputs),
            finish,
        )

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Any:
        """Each rank gets its tensor of the root's list."""
        root = self._root(opts)
        target = Target(outputs[0], "scatter")
        room = target.room.view(-1)
        splits = None
        source = room.new_empty(0)
        if api.rank() == root:
            parts = Parts(list(inputs[0]), "scatter")
            source, splits = parts.joined(), parts.counts

        def finish(handle: int) -> None:
            counts = [room.numel() if rank == root else 0 for rank in self._ranks]
            memory.received(handle, 0, room, counts, "scatter")
            target.put_back()

        tensors = [_tensors.rows_of(source, room, splits)]
        work = handles.Work(_lib.SCATTER, root=root)
        return self._start(work, tensors, opts, (source, target), list(outputs), finish)

    def alltoall_base(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = None,
    ) -> Any:
        """Rows to each rank, and from each rank."""
        opts = opts or _c10d.AllToAllOptions()
        target = Target(output, "all_to_all_single")
        source = memory.plain(input, "all_to_all_single")
        gives = self._splits(source, input_splits)
        takes = self._splits(target.room, output_splits)

        def finish(handle: int) -> None:
            memory.received(handle, 0, target.room, takes, "all_to_all_single")
            target.put_back()

        tensors = [_tensors.rows_of(source, target.room, gives)]
        borrowed = (source, target)
        return self._start(handles.Work(_lib.ALLTOALL), tensors, opts, borrowed, [output], finish)

    def _splits(self, tensor: torch.Tensor, given: Sequence[int]) -> list[int]:
        ranks = len(self._ranks)
        if given:
            return [int(one) for one in given]
        rows = len(tensor) if tensor.dim() else 1
        if rows % ranks:
            raise UnsupportedError(
                f"all_to_all_single: {rows} rows do not divide among {ranks} ranks: give the splits"
            )
        return [rows // ranks] * ranks

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        """Input r goes to rank r, output r comes from it."""
        opts = opts or _c10d.AllToAllOptions()
        gives, takes = Parts(inputs, "all_to_all"), Parts(outputs, "all_to_all")
        source, room = gives.joined(), takes.room()

        def finish(handle: int) -> None:
            memory.received(handle, 0, room, takes.counts, "all_to_all")
            takes.take(room)

        tensors = [_tensors.rows_of(source, room, gives.counts)]
        borrowed = (source, room)
        work = handles.Work(_lib.ALLTOALL)
        return self._start(work, tensors, opts, borrowed, list(outputs), finish)
