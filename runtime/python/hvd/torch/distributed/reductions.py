# SPDX-License-Identifier: Apache-2.0
"""Reductions of ``torch.distributed``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as _c10d

from hvd._core import _lib, api, handles
from hvd.errors import UnsupportedError
from hvd.process_sets import ProcessSet
from hvd.torch import tensors as _tensors
from hvd.torch.distributed.group import Group
from hvd.torch.distributed.memory import Parts, Target, check_share, plain, putting_back
from hvd.torch.ops import sparse

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


def _reduction(op: Any) -> tuple[int, tuple[float, float]]:
    """Our operation and scales."""
    number = int(getattr(op, "op", op))
    if number == _PREMUL_SUM and hasattr(op, "factor"):
        return _lib.SUM, (float(op.factor), 1.0)
    if number not in _BY_NUMBER:
        raise UnsupportedError(
            f"{op} is not a reduction of the backend 'hvd'; there are {', '.join(_OPS)}"
        )
    return _BY_NUMBER[number], (1.0, 1.0)


class Reductions(Group):
    """Operations that add up."""

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
            putting_back(targets),
        )

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Any:
        """The same, of tensors that need not be alike."""
        return self.allreduce(tensors, opts or _c10d.AllreduceCoalescedOptions())

    def _allreduce_sparse(self, tensors: Tensors, op: int) -> Any:
        process_set = ProcessSet(self._ranks)
        process_set.process_set_id = self._set
        for tensor in tensors:
            name = f"{self._name()[0]}.sparse"
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
        source = plain(tensors[opts.rootTensor], "reduce")
        target = Target(tensors[opts.rootTensor], "reduce") if api.rank() == root else None
        return self._start(
            handles.Work(_lib.REDUCE, op=op, scales=scales, root=root),
            [_tensors.to_result(source, target.room if target else None)],
            opts,
            (source, target),
            list(tensors),
            putting_back([target] if target else []),
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
        sources = [plain(tensor, "reduce_scatter") for tensor in inputs]
        tensors = []
        for source, target in zip(sources, targets):
            check_share("reduce_scatter", source, target.room, len(self._ranks))
            rows = source.view(len(self._ranks), target.room.numel())
            tensors.append(_tensors.to_result(rows, target.room))
        return self._start(
            handles.Work(_lib.REDUCESCATTER, op=op, scales=scales),
            tensors,
            opts,
            (sources, targets),
            list(outputs),
            putting_back(targets),
        )
