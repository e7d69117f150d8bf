# SPDX-License-Identifier: Apache-2.0
"""The collectives of ``torch.distributed`` as operations of ours."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch._C import _distributed_c10d as _c10d

from hvd import _lib, api, handles
from hvd.errors import UnsupportedError
from hvd.handles import Described
from hvd.process_sets import ProcessSet
from hvd.torch import sparse
from hvd.torch import tensors as _tensors
from hvd.torch.distributed import memory
from hvd.torch.distributed.completion import Completions, HvdWork, Operation
from hvd.torch.distributed.memory import Parts, Target

Tensors = Sequence[torch.Tensor]

_OPS = {
    "SUM": _lib.SUM,
    "AVG": _lib.AVERAGE,
    "PRODUCT": _lib.PRODUCT,
    "MIN": _lib.MIN,
    "MAX": _lib.MAX,
    "BAND": _lib.BIT_AND,
    "BOR": _lib.BIT_OR,
    "BXOR": _lib.BIT_XOR,
}
_BY_NUMBER = {
    int(getattr(_c10d.ReduceOp.RedOpType, name)): number
    for name, number in _OPS.items()
    if hasattr(_c10d.ReduceOp.RedOpType, name)
}
_PREMUL_SUM = int(getattr(_c10d.ReduceOp.RedOpType, "PREMUL_SUM", -1))
# Names come again, so that their descriptions are compared once; operations of one name queue.
_NAMES = 64


def _reduction(op: Any) -> tuple[int, tuple[float, float]]:
    """Our operation and scales."""
    number = int(getattr(op, "op", op))
    if number == _PREMUL_SUM and hasattr(op, "factor"):
        return _lib.SUM, (float(op.factor), 1.0)
    if number not in _BY_NUMBER:
        raise UnsupportedError(
            f"{op} is no reduction of the backend 'hvd'; there are {', '.join(_OPS)}"
        )
    return _BY_NUMBER[number], (1.0, 1.0)


class Collectives:
    """One process group: what ``torch.distributed`` calls, for our process set `number`."""

    def __init__(
        self,
        label: str,
        number: int,
        ranks: Sequence[int],
        timeout: float,
        completions: Completions,
    ) -> None:
        self._label = label
        self._set = number
        self._ranks = list(ranks)
        self._timeout = timeout
        self._numbers = itertools.count()
        self._completions = completions

    # ---- how an operation runs ----

    def _start(
        self,
        work: handles.Work,
        tensors: Sequence[Described],
        options: Any,
        borrowed: Any,
        result: Any,
        finish: Callable[[int], None] | None = None,
    ) -> Any:
        """A ``Work`` of an operation whose memory is `borrowed`; done where nobody wants to go on."""
        count = next(self._numbers)
        work = work._replace(name=f"torch.{self._label}.{count % _NAMES}", process_set=self._set)
        waits = not getattr(options, "asyncOp", True)
        given = getattr(options, "timeout", None)
        seconds = given.total_seconds() if given is not None else -1.0
        deadline = time.monotonic() + (seconds if seconds >= 0 else self._timeout)
        handle = handles.submit(work, tensors, waits)
        api.borrowed[handle] = borrowed
        what = f"operation {count} of process group '{self._label}' ({_KINDS[work.kind]})"
        operation = Operation(handle, deadline, what, finish)
        started = HvdWork(operation, self._completions, result)
        if waits:
            started.wait()
        self._completions.keep(started)
        return started

    def _root(self, options: Any) -> int:
        return self._ranks[options.rootRank]

    # ---- reductions ----

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Any:
        """Replaces the tensors by their reduction."""
        opts = opts or _c10d.AllreduceOptions()
        op, scales = _reduction(opts.reduceOp)
        if any(tensor.layout == torch.sparse_coo for tensor in tensors):
            return self._allreduce_sparse(tensors, op)
        targets = [Target(tensor, "all_reduce", True) for tensor in tensors]
        return self._start(
            handles.Work(_lib.ALLREDUCE, op=op, scales=scales),
            [target.in_place() for target in targets],
            opts,
            targets,
            list(tensors),
            _putting_back(targets),
        )

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Any:
        """The same, of tensors that need not be alike."""
        return self.allreduce(tensors, opts or _c10d.AllreduceCoalescedOptions())

    def _allreduce_sparse(self, tensors: Tensors, op: int) -> Any:
        process_set = ProcessSet(self._ranks)
        process_set.process_set_id = self._set
        for tensor in tensors:
            name = f"torch.{self._label}.sparse.{next(self._numbers)}"
            with torch.no_grad():
                tensor.copy_(sparse.sparse_allreduce(tensor, name, op, process_set).coalesce())
        future: torch.futures.Future = torch.futures.Future()
        future.set_result(list(tensors))
        return _c10d._create_work_from_future(future)

    allreduce_sparse = allreduce

    def reduce(self, tensors: Tensors, opts: Any) -> Any:
        """The reduction on the root only."""
        op, scales = _reduction(opts.reduceOp)
        root = self._root(opts)
        source = _tensors.plain(tensors[opts.rootTensor], "reduce")
        target = Target(tensors[opts.rootTensor], "reduce") if api.rank() == root else None
        return self._start(
            handles.Work(_lib.REDUCE, op=op, scales=scales, root=root),
            [_tensors.to_result(source, target.room if target else None)],
            opts,
            (source, target),
            list(tensors),
            _putting_back([target] if target else []),
        )

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Any:
        """Output i is the reduction of the input that each rank has for this one."""
        made = []
        for output, given in zip(outputs, inputs):
            if any(tensor.numel() != output.numel() for tensor in given):
                raise UnsupportedError(
                    f"reduce_scatter: the tensors of {[t.numel() for t in given]} elements must "
                    f"have as many as the output, {output.numel()}"
                )
            made.append(Parts(given, "reduce_scatter").joined())
        return self.reduce_scatter_single_coalesced(outputs, made, opts)

    def reduce_scatter_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> Any:
        """This rank's part of the reduction of `input`, which has one for each rank."""
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Any:
        """The same for several tensors."""
        opts = opts or _c10d.ReduceScatterOptions()
        op, scales = _reduction(opts.reduceOp)
        targets = [Target(output, "reduce_scatter") for output in outputs]
        sources = [_tensors.plain(tensor, "reduce_scatter") for tensor in inputs]
        tensors = []
        for source, target in zip(sources, targets):
            _check_share("reduce_scatter", source, target.room, len(self._ranks))
            rows = source.view(len(self._ranks), target.room.numel())
            tensors.append(_tensors.to_result(rows, target.room))
        return self._start(
            handles.Work(_lib.REDUCESCATTER, op=op, scales=scales),
            tensors,
            opts,
            (sources, targets),
            list(outputs),
            _putting_back(targets),
        )

    # ---- copies ----

    def broadcast(self, tensors: Tensors, opts: Any) -> Any:
        """Replaces the tensors by those of the root."""
        targets = [Target(tensor, "broadcast", True) for tensor in tensors]
        return self._start(
            handles.Work(_lib.BROADCAST, root=self._root(opts)),
            [target.in_place() for target in targets],
            opts,
            targets,
            list(tensors),
            _putting_back(targets),
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
        what = _KINDS[work.kind]
        sources = [_tensors.plain(tensor, what).reshape(-1) for tensor in inputs]
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
        sources = [_tensors.plain(tensor, "all_gather").reshape(-1) for tensor in inputs]
        for source, target in zip(sources, targets):
            _check_share("all_gather", target.room, source, len(self._ranks))
        # FSDP gathers in place: its part is the place in the output where it goes.
        sources = [_apart(source, target.room) for source, target in zip(sources, targets)]

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
        source = _tensors.plain(input, "all_to_all_single")
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

    def barrier(self, opts: Any = None) -> Any:
        """Done when all ranks of the group have come."""
        opts = opts or _c10d.BarrierOptions()
        return self._start(handles.Work(_lib.BARRIER), [], opts, None, [])

    # ---- what there is not ----

    def _no_pairs(self, *unused: Any) -> NoReturn:
        raise UnsupportedError(
            "the backend 'hvd' has no send and recv between two ranks: make a group for them with "
            "torch.distributed.new_group(backend='gloo'), and pass it as group=..."
        )

    send = recv = recv_anysource = recvAnysource = _no_pairs

    # ---- names of other versions of PyTorch ----

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    all_to_all_single = alltoall_base

    # ---- the group itself ----

    def getBackendName(self) -> str:  # noqa: N802 (PyTorch's name)
        """For ``torch.distributed``."""
        return "hvd"

    name = _get_backend_name = getBackendName

    @property
    def supports_splitting(self) -> bool:
        """Whether a group can be split by its members alone."""
        return False

    @property
    def supports_coalescing(self) -> bool:
        """Whether operations can be recorded one by one to run as one."""
        return False

    def set_timeout(self, timeout: Any) -> None:
        """For operations that start from now on."""
        self._timeout = timeout.total_seconds()

    def shutdown(self) -> None:
        """The group is no longer used."""
        self._completions.stop()

    abort = shutdown


_KINDS = {
    _lib.ALLREDUCE: "all_reduce",
    _lib.REDUCE: "reduce",
    _lib.REDUCESCATTER: "reduce_scatter",
    _lib.BROADCAST: "broadcast",
    _lib.ALLGATHER: "all_gather",
    _lib.GATHER: "gather",
    _lib.SCATTER: "scatter",
    _lib.ALLTOALL: "all_to_all",
    _lib.BARRIER: "barrier",
}


def _putting_back(targets: Sequence[Target]) -> Callable[[int], None] | None:
    if all(target.is_given for target in targets):
        return None

    def put_back(handle: int) -> None:
        for target in targets:
            target.put_back()

    return put_back


def _apart(source: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    """The source, or a copy where it lies in the memory of the result."""
    begin = room.data_ptr()
    end = begin + room.numel() * room.element_size()
    return source.clone() if begin <= source.data_ptr() < end else source


def _check_share(what: str, whole: torch.Tensor, share: torch.Tensor, ranks: int) -> None:
    if whole.numel() != share.numel() * ranks:
        raise UnsupportedError(
            f"{what}: {share.numel()} elements for each of {ranks} ranks are not "
            f"{whole.numel()} elements"
        )
