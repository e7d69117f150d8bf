# SPDX-License-Identifier: Apache-2.0
"""The functions of ``hvd.torch`` where ``torch.compile`` traces them: operators in its graph.

``hvd.torch.library`` is imported while a graph is traced, because few scripts need it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hvd._core import api
from hvd._core.work import Work


def _never() -> bool:
    return False


_is_old = not hasattr(torch.library, "register_autograd")
# True where torch.compile traces the caller. Older versions split the graph at a collective.
is_compiling = _never if _is_old else torch.compiler.is_compiling
# What they give does not change while the job lives: constants of a graph.
for _constant in (
    api.rank,
    api.size,
    api.local_rank,
    api.local_size,
    api.cross_rank,
    api.cross_size,
    api.is_initialized,
    api.process_set_rank,
    api.process_set_size,
):
    # As torch.compiler.assume_constant_result() does, which would import the compiler.
    _constant._dynamo_marked_constant = True  # type: ignore[attr-defined]


def keep_from_tracing(function: Callable[..., Any]) -> None:
    """Keeps torch.compile from tracing a function, as ``torch._dynamo.disable()`` does.

    That takes some microseconds a call, and a second where the compiler is not imported yet.
    """
    plain: Any = getattr(function, "__func__", function)
    plain._torchdynamo_disable = True
    skip = getattr(sys.modules.get("torch._dynamo.eval_frame"), "skip_code", None)
    if skip is not None:
        skip(plain.__code__)


def allreduce(work: Work, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The reductions of several tensors."""
    from hvd.torch import library  # noqa: F401 (defines the operators)

    pre, post = work.scales
    rest = (work.wire, work.name, work.process_set, work.priority)
    return torch.ops.hvd.allreduce(tensors, work.op, pre, post, *rest)


def allgather(work: Work, tensor: torch.Tensor) -> torch.Tensor:
    """The rows of all ranks, which have equally many."""
    from hvd.torch import library  # noqa: F401

    rows = tensor.shape[0] * api.process_set_size(work.process_set)
    return torch.ops.hvd.allgather(tensor, rows, work.name, work.process_set, work.priority)


def broadcast(work: Work, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor of the root."""
    from hvd.torch import library  # noqa: F401

    common = (work.name, work.process_set, work.priority)
    return torch.ops.hvd.broadcast(tensor, work.root, *common)


def alltoall(
    work: Work, tensor: torch.Tensor, splits: torch.Tensor | Sequence[int] | None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The rows for this rank; with `splits` also how many came from each."""
    from hvd.torch import library  # noqa: F401

    common = (work.name, work.process_set, work.priority)
    if splits is None:
        return torch.ops.hvd.alltoall(tensor, *common)
    if not isinstance(splits, torch.Tensor):
        splits = torch.tensor(splits, dtype=torch.int64)
    return torch.ops.hvd.alltoall_rows(tensor, splits, None, *common)


def reducescatter(work: Work, tensor: torch.Tensor) -> torch.Tensor:
    """This rank's share of the rows of the reduction."""
    from hvd.torch import library  # noqa: F401

    pre, post = work.scales
    common = (work.name, work.process_set, work.priority)
    return torch.ops.hvd.reducescatter(tensor, work.op, pre, post, *common)
