# SPDX-License-Identifier: Apache-2.0
"""Digests of what an optimizer of PyTorch trains, on CPUs and on GPUs."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from hvd import replicas
from hvd._core.refusals import refused
from hvd._core.replica_guard import Guard, Reading
from hvd._core.work import Adasum
from hvd.process_sets import ProcessSet, global_process_set
from hvd.replicas import Entry
from hvd.torch.parameters import Named, trained

NamedTensors = list[tuple[str, torch.Tensor]]

# Words of 64 bits that one pass over GPU memory takes, twice 16 MB of temporary memory.
_MOST_WORDS = 1 << 21
_TOP = 1 << 64


def guard_of(optimizer: Any, parameters: Named) -> Guard:
    """What compares the parameters and the state of a ``DistributedOptimizer``."""
    found = weakref.ref(optimizer)  # so that it ends with its last user

    def named() -> NamedTensors:
        alive = found()
        return [] if alive is None else list(compared(alive))

    settings = optimizer._hvd_settings
    return Guard(
        settings.check_replicas,
        settings.process_set,
        lambda: reading_of([tensor for _, tensor in named()]),
        lambda: entries_of(named()),
        kind=next((name for name, _ in parameters), ""),
    )


def compared(optimizer: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """What must be equal on all ranks: trained parameters, their float32 copies, their state.

    With Adasum parameters alone: each rank has its own momentum.
    """
    copies = {id(one): master for one, master in getattr(optimizer, "_hvd_masters", ())}
    has_own_state = optimizer._hvd_settings.reduction.op == Adasum
    for name, parameter in _trained(optimizer):
        yield f"parameter '{name}'", parameter
        master = copies.get(id(parameter))
        if master is not None:
            yield f"the float32 copy of parameter '{name}'", master
        key_of_state = parameter if master is None else master
        state = {} if has_own_state else optimizer.state.get(key_of_state, {})
        for key in sorted(state, key=str):
            value = state[key]
            if isinstance(value, torch.Tensor) and _is_compared(value):
                yield f"state '{key}' of parameter '{name}'", value


def _trained(optimizer: Any) -> list[tuple[str, torch.Tensor]]:
    """Name and parameter of all that the ranks train together; what is frozen may differ."""
    reducers = getattr(optimizer, "_hvd_reducers", None)
    if reducers is None:
        names = optimizer._hvd_names or {}
        every = [(names.get(id(one), place), one) for place, one in trained(optimizer, None)]
    else:
        every = [pair for reducer in reducers for pair in zip(reducer.names, reducer.parameters)]
    return [(name, parameter) for name, parameter in every if parameter.requires_grad]


def _is_compared(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and tensor.layout is torch.strided


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements in row-major order, in one dimension of real numbers."""
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg().contiguous().view(-1)


def _on_host(flat: torch.Tensor, seed: int = 0) -> int:
    return replicas.digest(flat.data_ptr(), flat.numel() * flat.element_size(), seed)


def reading_of(tensors: Iterable[torch.Tensor]) -> Reading:
    """One digest of all of them; of those on a GPU it comes without a wait for it."""
    on_host = 0
    by_device: dict[torch.device, list[torch.Tensor]] = {}
    for tensor in tensors:
        if tensor.is_cpu:
            on_host = _on_host(_flat(tensor), on_host)
        else:
            by_device.setdefault(tensor.device, []).append(tensor)
    if not by_device:
        return Reading(on_host)
    return _LateReading(on_host, [sum_on_device(some) for some in by_device.values()])


class _LateReading(Reading):
    """Digests that GPUs make when they get to it."""

    is_late = True

    def __init__(self, on_host: int, sums: list[torch.Tensor]) -> None:
        super().__init__(on_host)
        self._sums: list[torch.Tensor] = []
        self._events: list[Any] = []
        for one in sums:
            if one.is_cuda:
                copy = torch.empty(one.shape, dtype=one.dtype, pin_memory=True)
                with torch.cuda.device(one.device):
                    copy.copy_(one, non_blocking=True)
                    event = torch.cuda.Event()
                    event.record(torch.cuda.current_stream())
                self._events.append(event)
                one = copy
            self._sums.append(one)

    def value(self) -> int:
        for event in self._events:
            event.synchronize()
        return replicas.combined([self._value, *(int(one) for one in self._sums)])


def _words(flat: torch.Tensor) -> torch.Tensor:
    """Its memory as int64; a copy, with zeros after its end, where it does not fit."""
    size = flat.element_size()
    if flat.numel() * size % 8 == 0 and flat.storage_offset() * size % 8 == 0:
        return flat.view(torch.int64)
    padded = flat.new_zeros(-(-flat.numel() * size // 8) * (8 // size))
    padded[: flat.numel()] = flat
    return padded.view(torch.int64)


def _chunks(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The memory of all tensors, one after the other, as new memory of so many words at most."""
    kept: list[torch.Tensor] = []
    room = _MOST_WORDS
    for tensor in tensors:
        flat = _flat(tensor)
        step = _MOST_WORDS * (8 // flat.element_size())
        for begin in range(0, flat.numel(), step):
            words = _words(flat[begin : begin + step])
            if words.numel() > room:
                yield torch.cat(kept)
                kept, room = [], _MOST_WORDS
            kept.append(words)
            room -= words.numel()
    if kept:
        yield torch.cat(kept)


def sum_on_device(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The digest of tensors of one device: a tensor of one int64 there, made without a wait.

    The sum over all words of a mixture of word and place. For each place it is a bijection of the
    word, so that no single change goes unnoticed; it spreads each bit, so that changes do not cancel.
    """
    total = torch.zeros((), dtype=torch.int64, device=tensors[0].device)
    begin = 1
    for chunk in _chunks(tensors):
        places = torch.arange(begin, begin + chunk.numel(), device=chunk.device)
        begin += chunk.numel()
        chunk.add_(places.mul_(0x9E3779B97F4A7C15 - _TOP))
        del places
        # The finalizer of MurmurHash3. What shifts in is the sign: it is masked out.
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            chunk.bitwise_xor_((chunk >> 33).bitwise_and_((1 << 31) - 1)).mul_(factor - _TOP)
        chunk.bitwise_xor_((chunk >> 33).bitwise_and_((1 << 31) - 1))
        total += chunk.sum()
    return total


def entries_of(named: NamedTensors) -> list[Entry]:
    """The digest of each; one for all kinds of NaN."""
    found = []
    for name, tensor in named:
        flat = _flat(tensor).cpu()
        missing = flat.isnan() if flat.is_floating_point() else None
        if missing is not None and bool(missing.any()):
            flat = flat.masked_fill(missing, float("nan"))
        found.append((name, _on_host(flat, replicas.digest_text(str(list(tensor.shape))))))
    return found


def check_replicas(
    params: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> None:
    """Compares tensors over ranks, all of which call it; with ``HVD_CHECK_REPLICAS=0``: nothing.

    Optimizers of ``DistributedOptimizer`` do so by themselves; this is for other loops.

    Parameters
    ----------
    params
        A ``state_dict()``, (name, tensor) pairs such as ``model.named_parameters()``, or tensors, of
        any shapes and types, on any device. Entries that are not tensors are left out.
    name
        What the names of its operations begin with; equal on all ranks.
    process_set
        The ranks that compare; on others nothing happens.

    Raises
    ------
    ReplicasDifferError
        On every rank: the tensors differ, in values, shapes or names. It names the first, and from 3
        ranks on the rank whose tensor is not that of the others.

    >>> check_replicas(torch.nn.Linear(2, 1).named_parameters())  # on one rank: always equal
    """
    if isinstance(params, torch.nn.Module):
        raise refused(
            "check_replicas: pass model.state_dict() or model.named_parameters(), not the model "
            f"({type(params).__name__})"
        )
    pairs = params.items() if isinstance(params, Mapping) else params
    named = [
        one if isinstance(one, tuple) else (str(place), one) for place, one in enumerate(pairs)
    ]
    tensors = [(f"'{key}'", one) for key, one in named if isinstance(one, torch.Tensor)]

    def mine() -> int:
        forms = replicas.digest_text(str([(key, *one.shape) for key, one in tensors]))
        return replicas.combined([forms, reading_of([one for _, one in tensors]).value()])

    replicas.check_given(name, process_set, mine, lambda: entries_of(tensors))
