# SPDX-License-Identifier: Apache-2.0
"""Copies of states in memory of the host."""

from __future__ import annotations

import copy
from typing import Any

import torch


class HostCopies:
    """Copies states into memory that the next copy uses again, where tensors have kept their shapes.

    Parameters that are tied are one tensor in the copy, too.

    >>> copies = HostCopies()
    >>> first = copies.take({"weight": torch.zeros(3)})["weight"]
    >>> copies.take({"weight": torch.ones(3)})["weight"] is first
    True
    """

    def __init__(self) -> None:
        self._memory: dict[tuple[Any, ...], torch.Tensor] = {}

    def take(self, state: Any) -> Any:
        """A copy, which is good until the next one is taken.

        Parameters
        ----------
        state
            Dicts, lists and tuples of tensors, and what deepcopy can take.
        """
        taken: dict[tuple[Any, ...], torch.Tensor] = {}
        result = self._copied(state, (), taken, {})
        self._memory = taken  # what no tensor needs any more is freed
        return result

    def _copied(self, value: Any, place: tuple[Any, ...], taken: Any, known: Any) -> Any:
        if type(value) is torch.Tensor and value.layout is torch.strided:
            return self._tensor(value.detach(), place, taken, known)
        if isinstance(value, torch.Tensor):
            return value.detach().cpu().clone()
        if isinstance(value, dict):
            result = copy.copy(value)  # with the versions that torch puts beside the entries
            for key, entry in value.items():
                result[key] = self._copied(entry, (*place, key), taken, known)
            return result
        if type(value) in (list, tuple):
            parts = enumerate(value)
            return type(value)(self._copied(one, (*place, n), taken, known) for n, one in parts)
        return copy.deepcopy(value)

    def _tensor(self, value: torch.Tensor, place: Any, taken: Any, known: Any) -> torch.Tensor:
        signs = (value.is_conj(), value.is_neg())
        layout = (value.shape, value.stride(), *signs)
        identity = (value.device, value.data_ptr(), value.dtype, layout)
        same = known.get(identity) if value.numel() else None
        if same is not None:
            return same
        memory = self._memory.get(place)
        fits = (
            memory is not None
            and memory.dtype == value.dtype
            and memory.shape == value.shape
            and memory.stride() == value.stride()
        )
        if memory is None or not fits:
            memory = torch.empty_like(value, device="cpu")
        memory.copy_(value)
        taken[place] = known[identity] = memory
        return memory
