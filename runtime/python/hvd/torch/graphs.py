# SPDX-License-Identifier: Apache-2.0
"""The functions of ``hvd.torch`` where ``torch.compile`` traces them: operators in its graph.

``hvd.torch.library`` is imported while a graph is traced, because few scripts need it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from hvd._core import api


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


def define_operators() -> None:
    """Before the first use of ``torch.ops.hvd`` in a graph."""
    from hvd.torch import library  # noqa: F401
