# SPDX-License-Identifier: Apache-2.0
"""Deep copies in memory that is there: of what changes its numbers again and again, not its form."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

# Copies from the first array or tensor into the second.
_Write = Callable[[Any, Any], object]


def copied(value: Any, old: Any = None) -> Any:
    """A deep copy; arrays and tensors of it lie where those of `old` lay, a copy of before.

    So it is for those that have the place, type, shape and strides of one of `old`; all else is made
    anew. Nobody else may use `old`. What shares memory within the value does so within the copy.

    >>> first = copied({"losses": [1.0]})
    >>> copied({"losses": [1.0, 2.0]}, first)
    {'losses': [1.0, 2.0]}
    """
    memo: dict[int, Any] = {}
    if old is not None:
        pairs = _Pairs()
        if pairs.find(value, old):
            for write, source, target in pairs.found:
                write(target, source)
                memo[id(source)] = target
    return copy.deepcopy(value, memo)


class _Pairs:
    """Arrays and tensors of a value that fit those of an older copy, found before any is written."""

    def __init__(self) -> None:
        self.found: list[tuple[_Write, Any, Any]] = []
        self._seen: set[int] = set()
        # By address: memory of the value and of the copy, each of which stands for one of the other.
        self._copies: dict[int, int] = {}
        self._sources: dict[int, int] = {}
        self._anew: set[int] = set()
        self._numpy = sys.modules.get("numpy")
        self._torch = sys.modules.get("torch")

    def find(self, value: Any, old: Any) -> bool:
        """False where memory is shared in another way than in the copy: then none of it fits."""
        kind = type(value)
        if kind is not type(old) or id(value) in self._seen:
            return True
        if isinstance(value, dict):
            self._seen.add(id(value))
            return all(self.find(one, old[key]) for key, one in value.items() if key in old)
        if kind in (list, tuple):
            self._seen.add(id(value))
            return all(map(self.find, value, old))
        if self._numpy is not None and kind is self._numpy.ndarray:
            return self._add_array(value, old)
        if self._torch is not None and kind in (self._torch.Tensor, self._torch.nn.Parameter):
            return self._add_tensor(value, old)
        return True

    def _add_array(self, value: Any, old: Any) -> bool:
        # deepcopy gives each array memory of its own.
        fits = (
            (value.dtype, value.shape, value.strides) == (old.dtype, old.shape, old.strides)
            and not value.dtype.hasobject
            and old.flags.owndata
            and old.flags.writeable
        )
        if fits:
            self._seen.add(id(value))
            self.found.append((self._numpy.copyto, value, old))  # type: ignore[union-attr]
        return True

    def _add_tensor(self, value: Any, old: Any) -> bool:
        if not (self._is_plain(value) and self._is_plain(old) and _form(value) == _form(old)):
            if value.layout is not self._torch.strided:  # type: ignore[union-attr]
                return True
            # Made anew; what shares its memory has to be so, too.
            self._anew.add(_memory(value))
            return _memory(value) not in self._copies
        source, target = _memory(value), _memory(old)
        if source in self._anew or self._copies.setdefault(source, target) != target:
            return False
        if self._sources.setdefault(target, source) != source:
            return False
        self._seen.add(id(value))
        self.found.append((_copy_tensor, value, old))
        return True

    def _is_plain(self, tensor: Any) -> bool:
        """Numbers alone: no gradient, no history, nothing that a program has hung on it."""
        return (
            tensor.layout is self._torch.strided  # type: ignore[union-attr]
            and not tensor.is_quantized
            and tensor.is_leaf
            and not (tensor.is_conj() or tensor.is_neg())
            and not tensor.__dict__
            and not (tensor.requires_grad and tensor.grad is not None)
        )


def _form(tensor: Any) -> tuple[Any, ...]:
    return (
        tensor.dtype,
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
        tensor.device,
        tensor.requires_grad,
    )


def _memory(tensor: Any) -> int:
    """The address at which the memory begins that the tensor is in."""
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()


def _copy_tensor(target: Any, source: Any) -> None:
    target.detach().copy_(source.detach())
