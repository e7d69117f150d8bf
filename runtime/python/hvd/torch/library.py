# SPDX-License-Identifier: Apache-2.0
"""Collectives as operators of PyTorch, ``torch.ops.hvd``: what ``torch.compile`` puts in graphs.

The functions of ``hvd.torch`` call them where they are compiled, so that ``fullgraph=True`` works.
Operators are marked as effects in an order: a graph keeps all of them, in the order of the program,
in forward and in backward. Unnamed ones are therefore matched by the order of calls, as elsewhere.
"""

from __future__ import annotations

from typing import Any

import torch

from hvd.errors import UnsupportedError
from hvd.torch.operators import REGISTERED

if not hasattr(torch.library, "register_autograd"):
    raise UnsupportedError(
        f"torch.ops.hvd needs PyTorch 2.4 or newer, this is {torch.__version__}: use the functions "
        "of hvd.torch, at which older versions split a compiled graph"
    )


def _define() -> Any:
    """Makes the operators known to PyTorch; they live as long as what is returned."""
    library = torch.library.Library("hvd", "DEF")
    for name, operator in REGISTERED.items():
        library.define(name + operator.schema, tags=torch.Tag.pt2_compliant_tag)
        for key in ("CPU", "CUDA"):
            library.impl(name, operator.kernel, key)
        full = f"hvd::{name}"
        torch.library.register_fake(full, operator.fake, lib=library)
        torch.library.register_autograd(
            full, operator.backward, setup_context=operator.keep, lib=library
        )
    return library


def _keep_order() -> None:
    """Marks the operators as effects, where this PyTorch can."""
    try:
        from torch._library.effects import EffectType
        from torch._library.simple_registry import singleton
    except ImportError:
        return
    for name in REGISTERED:
        effect = getattr(singleton.find(f"hvd::{name}"), "effect", None)
        if effect is not None:
            effect.register(EffectType.ORDERED)


_operators = _define()
_keep_order()
