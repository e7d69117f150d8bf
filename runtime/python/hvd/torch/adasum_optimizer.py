# SPDX-License-Identifier: Apache-2.0
"""The Adasum optimizer: each rank steps by itself, and what that changed is reduced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from hvd._core import handles
from hvd._core.settings import Settings, check_passes, is_shared
from hvd._core.work import Adasum, Max
from hvd.errors import UnsupportedError
from hvd.torch import devices, tensors
from hvd.torch.ops.allreduce import allreduce_async, allreduce_of
from hvd.torch.parameters import Named, trained
from hvd.torch.replicas import guard_of
from hvd.torch.wrapping import Wrapped


class AdasumOptimizer(Wrapped):
    """What ``DistributedOptimizer(op=Adasum)`` adds to the class of the optimizer it is given.

    Momentum and the like stay those of each rank (Maleki et al. 2020,
    https://arxiv.org/abs/2006.02924).
    """

    _hvd_settings: Settings
    _hvd_names: dict[int, str] | None

    def _hvd_begin(
        self, settings: Settings, names: dict[int, str] | None, waits: bool, made: str
    ) -> None:
        if not hasattr(settings.compression, "compress") or hasattr(settings.compression, "method"):
            raise UnsupportedError(
                "DistributedOptimizer(op=Adasum): use Compression.none, fp16 or bf16; the other "
                "methods are for sums and averages"
            )
        self._hvd_settings = settings
        self._hvd_names = names
        named = trained(self, names)  # type: ignore[arg-type]  # says what has no name
        self._hvd_guard = guard_of(self, named)

    def _hvd_agree_on_infinite(self, found: dict[torch.device, torch.Tensor]) -> None:
        """What a gradient scaler found in local gradients, by device: of any rank, of all."""
        if not is_shared(self._hvd_settings.process_set):
            return
        largest = max((float(one) for one in found.values()), default=0.0)
        handle = allreduce_async(
            torch.tensor(largest),
            name="infinite",
            op=Max,
            process_set=self._hvd_settings.process_set,
        )
        if float(handles.synchronize(handle)) > 0:
            for one in found.values():
                one.fill_(1.0)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Any number of passes may add up before ``step()``."""
        check_passes(passes)

    def synchronize(self) -> None:
        """Nothing: gradients stay local, ``step()`` reduces what it changed."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[NoReturn]:
        """Refused: the reduction is part of the step."""
        raise AssertionError(
            "Skipping synchronization is not supported when using Adasum optimizer."
        )
        yield

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Steps locally, then adds the Adasum of what changed on each rank to the old values."""
        masters = getattr(self, "_hvd_masters", ())
        if masters:
            self._follow_model()  # type: ignore[attr-defined]
        named = self._shared(masters)
        with torch.no_grad():
            before = [parameter.detach().clone() for _, parameter in named]
        result = super().step(closure) if closure is not None else super().step()  # type: ignore[misc]
        with torch.no_grad():
            self._reduce(named, before)
            if masters:
                self._to_model()  # type: ignore[attr-defined]
        self._tell_schedulers()
        if is_shared(self._hvd_settings.process_set):
            self._hvd_guard.reductions += 1
            self._hvd_guard.act()
        return result

    def _shared(self, masters: Any) -> Named:
        """Name and parameter, or its float32 copy, of all that ranks train together."""
        if not is_shared(self._hvd_settings.process_set):
            return []
        every = trained(self, None)  # type: ignore[arg-type]
        names = self._hvd_names or {}
        copies = {id(parameter): master for parameter, master in masters}
        return [
            (names.get(id(p), place), copies.get(id(p), p)) for place, p in every if p.requires_grad
        ]

    def _reduce(self, named: Named, before: list[torch.Tensor]) -> None:
        settings = self._hvd_settings
        waited = []
        for (name, parameter), old in zip(named, before):
            delta = parameter.detach() - old
            # Partial results of Adasum travel in float32: what is cast is cast here.
            small, context = settings.compression.compress(delta)
            work = allreduce_of(f"delta.{name}", Adasum, (1.0, 1.0), settings.process_set)
            flat = [tensors.in_place(small, "DistributedOptimizer", name)]
            place = devices.place_of([small], "DistributedOptimizer")
            handle = handles.start(work, flat, small, lambda handle: None, place=place)
            waited.append((handle, small, context))
        for (handle, small, context), (_, parameter), old in zip(waited, named, before):
            handles.synchronize(handle)
            if context is not None:
                small = settings.compression.decompress(small, context)
            parameter.copy_(old.add_(small))


AdasumOptimizer.step.hooked = True  # type: ignore[attr-defined]  # as of sums and averages
