# SPDX-License-Identifier: Apache-2.0
"""Collectives as operators of PyTorch, ``torch.ops.hvd``: what ``torch.compile`` puts in graphs.

The functions of ``hvd.torch`` call them where they are compiled, so that ``fullgraph=True`` works.
Operators are marked as effects in an order: a graph keeps all of them, in the order of the program,
in forward and in backward. Unnamed ones are therefore matched by the order of calls, as elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from hvd import _lib, api, handles
from hvd.derivatives import derivative, is_of_extremes
from hvd.errors import MismatchError, UnsupportedError
from hvd.torch import exchanges, operations, reductions
from hvd.torch.differentiable import through_extremes
from hvd.work import Work, share

if not hasattr(torch.library, "register_autograd"):
    raise UnsupportedError(
        f"torch.ops.hvd needs PyTorch 2.4 or newer, this is {torch.__version__}: use the functions "
        "of hvd.torch, at which older versions split a compiled graph"
    )

_SCALES = "float prescale, float postscale"
_COMMON = "str? name, int process_set, int priority"
SCHEMAS = {
    "allreduce": f"(Tensor[] tensors, int op, {_SCALES}, int wire, {_COMMON}) -> Tensor[]",
    "allgather": f"(Tensor tensor, SymInt rows, {_COMMON}) -> Tensor",
    "broadcast": f"(Tensor tensor, int root_rank, {_COMMON}) -> Tensor",
    "alltoall": f"(Tensor tensor, {_COMMON}) -> Tensor",
    "alltoall_rows": f"(Tensor tensor, Tensor splits, SymInt? rows, {_COMMON}) -> (Tensor, Tensor)",
    "reducescatter": f"(Tensor tensor, int op, {_SCALES}, {_COMMON}) -> Tensor",
}


# ---- what the operators do ----


def _allreduce(
    tensors: list[torch.Tensor],
    op: int,
    prescale: float,
    postscale: float,
    wire: int,
    name: str | None,
    process_set: int,
    priority: int,
) -> list[torch.Tensor]:
    work = Work(_lib.ALLREDUCE, name, op, (prescale, postscale), process_set, 0, wire, priority)
    return operations.start_new(work, tensors, False, handles.run)


def _allgather(
    tensor: torch.Tensor, rows: int, name: str | None, process_set: int, priority: int
) -> torch.Tensor:
    work = Work(_lib.ALLGATHER, name, process_set=process_set, priority=priority)
    result = operations.start_allgather([tensor], True, work, handles.run)
    if len(result) != rows:
        raise MismatchError(
            f"rank {api.rank()}: allgather in compiled code: {len(result)} rows came, {rows} were "
            "expected: there every rank must have as many; gather others outside of torch.compile"
        )
    return result


def _broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None, process_set: int, priority: int
) -> torch.Tensor:
    work = Work(_lib.BROADCAST, name, process_set=process_set, root=root_rank, priority=priority)
    return operations.start_broadcast(tensor, work, handles.run)


def _alltoall(
    tensor: torch.Tensor, name: str | None, process_set: int, priority: int
) -> torch.Tensor:
    number: Any = process_set
    return exchanges.alltoall(tensor.detach(), None, name, number, priority)  # type: ignore[return-value]


def _alltoall_rows(
    tensor: torch.Tensor,
    splits: torch.Tensor,
    rows: int | None,
    name: str | None,
    process_set: int,
    priority: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`rows`: of the result, zeros at its end; without: as many as come."""
    number: Any = process_set
    result, counts = exchanges.alltoall(tensor.detach(), splits, name, number, priority)
    if rows is not None and rows > len(result):
        rest = result.new_zeros((rows - len(result), *result.shape[1:]))
        result = torch.cat([result, rest])
    return result, counts.to(splits.device)


def _reducescatter(
    tensor: torch.Tensor,
    op: int,
    prescale: float,
    postscale: float,
    name: str | None,
    process_set: int,
    priority: int,
) -> torch.Tensor:
    number: Any = process_set
    return reductions.reducescatter(
        tensor.detach(),
        name,
        op=op,
        process_set=number,
        prescale_factor=prescale,
        postscale_factor=postscale,
        priority=priority,
    )


# ---- shapes of their results ----


def _row_major(tensor: torch.Tensor, rows: Any = None) -> torch.Tensor:
    return tensor.new_empty(tensor.shape if rows is None else (rows, *tensor.shape[1:]))


def _fake_reducescatter(tensor: torch.Tensor, op: int, *scales: Any) -> torch.Tensor:
    process_set = scales[3]
    place, ranks = api.process_set_rank(process_set), api.process_set_size(process_set)
    rows = tensor.shape[0] if tensor.dim() else 1
    return _row_major(tensor, share(rows, place, ranks))


def _fake_alltoall_rows(
    tensor: torch.Tensor, splits: torch.Tensor, rows: Any, *common: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    if rows is None:
        rows = torch.library.get_ctx().new_dynamic_size()
    return _row_major(tensor, rows), splits.new_empty(splits.shape, dtype=torch.int32)


FAKES: dict[str, Callable[..., Any]] = {
    "allreduce": lambda tensors, *rest: [_row_major(tensor) for tensor in tensors],
    "allgather": lambda tensor, rows, *rest: _row_major(tensor, rows),
    "broadcast": lambda tensor, *rest: _row_major(tensor),
    "alltoall": lambda tensor, *rest: _row_major(tensor),
    "alltoall_rows": _fake_alltoall_rows,
    "reducescatter": _fake_reducescatter,
}

# ---- their gradients, which are those of the eager functions ----


def _reduced(work: Work, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    pre, post = work.scales
    return torch.ops.hvd.allreduce(
        tensors, work.op, pre, post, work.wire, None, work.process_set, 0
    )


def _keep_allreduce(ctx: Any, inputs: Any, output: Any) -> None:
    tensors, op, pre, post, wire, _, process_set, _ = inputs
    work = Work(_lib.ALLREDUCE, None, op, (pre, post), process_set, wire=wire)
    ctx.work = work
    if is_of_extremes(work):
        ctx.save_for_backward(*tensors, *output)


def _allreduce_back(ctx: Any, gradients: Sequence[torch.Tensor]) -> Any:
    back, count = derivative(ctx.work).work, len(gradients)
    if not is_of_extremes(ctx.work):
        return _reduced(back, gradients), *[None] * 7
    given, results = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
    total = partial(_reduced, back)
    return list(through_extremes(ctx.work, gradients, given, results, total)), *[None] * 7


def _keep_allgather(ctx: Any, inputs: Any, output: Any) -> None:
    tensor, _, _, process_set, _ = inputs
    ctx.work = Work(_lib.ALLGATHER, process_set=process_set)
    ctx.rows = tensor.shape[0]


def _allgather_back(ctx: Any, gradient: torch.Tensor) -> Any:
    (total,) = _reduced(derivative(ctx.work).work, [gradient])
    begin = ctx.rows * api.process_set_rank(ctx.work.process_set)
    return total[begin : begin + ctx.rows].clone(), None, None, None, None


def _keep_broadcast(ctx: Any, inputs: Any, output: Any) -> None:
    _, root, _, process_set, _ = inputs
    ctx.work = Work(_lib.BROADCAST, process_set=process_set, root=root)


def _broadcast_back(ctx: Any, gradient: torch.Tensor) -> Any:
    (total,) = _reduced(derivative(ctx.work).work, [gradient])
    mine = total if api.rank() == ctx.work.root else torch.zeros_like(total)
    return mine, None, None, None, None


def _keep_alltoall(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.process_set = inputs[2]


def _alltoall_back(ctx: Any, gradient: torch.Tensor) -> Any:
    return torch.ops.hvd.alltoall(gradient, None, ctx.process_set, 0), None, None, None


def _keep_alltoall_rows(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.process_set = inputs[4]
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.rows = inputs[0].shape[0]


def _alltoall_rows_back(ctx: Any, gradient: torch.Tensor, unused: Any) -> Any:
    (counts,) = ctx.saved_tensors
    common = (None, ctx.process_set, 0)
    back, _ = torch.ops.hvd.alltoall_rows(gradient, counts, ctx.rows, *common)
    return back, None, None, None, None, None


def _keep_reducescatter(ctx: Any, inputs: Any, output: Any) -> None:
    tensor, op, pre, post, _, process_set, _ = inputs
    ctx.work = Work(_lib.REDUCESCATTER, None, op, (pre, post), process_set)
    ctx.shape = tensor.shape


def _reducescatter_back(ctx: Any, gradient: torch.Tensor) -> Any:
    work, factor = derivative(ctx.work)
    rows = ctx.shape[0] if ctx.shape else 1
    back = torch.ops.hvd.allgather(gradient, rows, None, work.process_set, 0)
    return (back * factor).view(ctx.shape), *[None] * 6


GRADIENTS = {
    "allreduce": (_allreduce_back, _keep_allreduce),
    "allgather": (_allgather_back, _keep_allgather),
    "broadcast": (_broadcast_back, _keep_broadcast),
    "alltoall": (_alltoall_back, _keep_alltoall),
    "alltoall_rows": (_alltoall_rows_back, _keep_alltoall_rows),
    "reducescatter": (_reducescatter_back, _keep_reducescatter),
}


def _define() -> Any:
    """Makes the operators known to PyTorch; they live as long as what is returned."""
    kernels = {
        "allreduce": _allreduce,
        "allgather": _allgather,
        "broadcast": _broadcast,
        "alltoall": _alltoall,
        "alltoall_rows": _alltoall_rows,
        "reducescatter": _reducescatter,
    }
    library = torch.library.Library("hvd", "DEF")
    for name, schema in SCHEMAS.items():
        library.define(name + schema, tags=torch.Tag.pt2_compliant_tag)
        for key in ("CPU", "CUDA"):
            library.impl(name, kernels[name], key)
        full = f"hvd::{name}"
        torch.library.register_fake(full, FAKES[name], lib=library)
        backward, keep = GRADIENTS[name]
        torch.library.register_autograd(full, backward, setup_context=keep, lib=library)
    return library


def _keep_order() -> None:
    """Marks the operators as effects, where this PyTorch can."""
    try:
        from torch._library.effects import EffectType
        from torch._library.simple_registry import singleton
    except ImportError:
        return
    for name in SCHEMAS:
        effect = getattr(singleton.find(f"hvd::{name}"), "effect", None)
        if effect is not None:
            effect.register(EffectType.ORDERED)


_operators = _define()
_keep_order()
