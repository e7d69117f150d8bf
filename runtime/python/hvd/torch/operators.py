# SPDX-License-Identifier: Apache-2.0
"""Operators of PyTorch, ``torch.ops.hvd``, as the files of the operations describe them.

``hvd.torch.library`` makes them known to PyTorch, which takes a while and few scripts need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

# Parameters that the schemas of operators share.
SCALES = "float prescale, float postscale"
COMMON = "str? name, int process_set, int priority"


class Operator(NamedTuple):
    """A collective as ``torch.compile`` sees it."""

    schema: str
    kernel: Callable[..., Any]  # runs it
    fake: Callable[..., Any]  # makes tensors in the shapes of its results
    keep: Callable[..., Any]  # keeps what its gradient needs (setup_context)
    backward: Callable[..., Any]


REGISTERED: dict[str, Operator] = {}


def register(name: str, operator: Operator) -> None:
    """Adds an operator to those that ``hvd.torch.library`` makes known."""
    REGISTERED[name] = operator


def row_major(tensor: torch.Tensor, rows: Any = None) -> torch.Tensor:
    """A new tensor in the shape of another, or with other rows of it."""
    return tensor.new_empty(tensor.shape if rows is None else (rows, *tensor.shape[1:]))
