# SPDX-License-Identifier: Apache-2.0
"""The gradients of an optimizer, for any framework."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hvd._core import _lib, api
from hvd._core._lib import quick, waiting

# How long a step that is left waits for what is in flight, before this rank leaves the job.
_PATIENCE_SECONDS = 10.0


class Reduction(NamedTuple):
    """How gradients are reduced."""

    op: int = _lib.AVERAGE
    predivide: float = 1.0
    passes_per_step: int = 1
    process_set: int = 0


class Gradients:
    """The gradients an optimizer reduces in each step; one thread at a time.

    Parameters
    ----------
    names
        Unique, equal on all ranks.
    tensors
        Type, shape and layout of each gradient.
    device
        Kind and number of the GPU that they are on; without: CPU memory.
    tracks_use
        ``exchange()`` works, for one small request a step; alike on all ranks.
    """

    def __init__(
        self,
        names: Sequence[str],
        tensors: Sequence[_lib.Tensor],
        reduction: Reduction,
        device: tuple[int, int] = (_lib.CPU, 0),
        tracks_use: bool = False,
    ) -> None:
        self._set = _lib.c_void_p()
        count = len(names)
        options = _lib.GradientsOptions(
            _lib.sizeof(_lib.GradientsOptions), reduction.op, reduction.passes_per_step, 1.0, 1.0
        )
        options.predivide = reduction.predivide
        options.process_set = reduction.process_set
        options.device_kind, options.device_index = device
        options.tracks_use = tracks_use
        api.check(
            quick.hvd_gradients_create(
                _lib.byref(options),
                (_lib.c_char_p * count)(*[api.name_bytes(name) for name in names]),
                (_lib.Tensor * count)(*tensors),
                count,
                _lib.byref(self._set),
            )
        )
        self._indices = (_lib.c_uint32 * max(count, 1))()

    def __del__(self) -> None:
        # In the middle of a step it waits for other ranks, which a program that ends must not: the
        # library sees to what is in flight then.
        if getattr(self, "_set", None) and not sys.is_finalizing():
            waiting.hvd_gradients_destroy(self._set)

    def ready(self, index: int, address: int, last_pass: int = 0) -> None:
        """Gradient `index` at `address` is complete for one backward pass."""
        api.check(quick.hvd_gradient_ready(self._set, index, address, last_pass))

    def submitter(self, index: int) -> Callable[[int, int], int]:
        """submit(address, last_pass): ``ready()`` that returns its status, for hot loops.

        It must not be called when this set is gone.
        """
        return functools.partial(quick.hvd_gradient_ready, self._set, _lib.c_uint32(index))

    def submitter_on(self, index: int) -> Callable[[int, int, int], int]:
        """submit(address, last_pass, stream): the same for GPU memory, after what a stream holds."""
        return functools.partial(quick.hvd_gradient_ready_on, self._set, _lib.c_uint32(index))

    def describe(self, index: int, tensor: _lib.Tensor) -> None:
        """Gradient `index` has another type, shape or layout from now on."""
        api.check(quick.hvd_gradient_describe(self._set, index, _lib.byref(tensor)))

    def compress(
        self,
        index: int,
        method: int,
        rank: int = 0,
        ratio: float = 0.0,
        smallest: int = 0,
        momentum: float = 0.0,
    ) -> None:
        """Chooses how gradient `index` travels; 0: the default of the method."""
        chosen = _lib.Compression(
            _lib.sizeof(_lib.Compression), method, rank, ratio, smallest, momentum
        )
        api.check(quick.hvd_gradient_compress(self._set, index, _lib.byref(chosen)))

    def start(self, index: int, address: int) -> None:
        """This step reduces what changes in the values at `address`, which are float32."""
        api.check(quick.hvd_gradient_start(self._set, index, address))

    def elsewhere(self, index: int) -> None:
        """Gradient `index` of this step travels by other operations."""
        api.check(quick.hvd_gradient_elsewhere(self._set, index))

    def exchange(self, is_final: bool) -> tuple[list[int], bool]:
        """Tells the other ranks which gradients this one has submitted; waits for what they tell.

        Parameters
        ----------
        is_final
            This rank submits no more in this step, but what is needed.

        Returns
        -------
        tuple
            Gradients that other ranks have submitted and this one has not: zeros are needed. And
            True where no rank submits more in this step.
        """
        count, is_over = _lib.c_uint32(), _lib.c_int()
        capacity = len(self._indices)
        self._wait(
            lambda seconds: waiting.hvd_gradients_exchange(
                self._set,
                is_final,
                seconds,
                self._indices,
                capacity,
                _lib.byref(count),
                _lib.byref(is_over),
            )
        )
        return self._indices[: count.value], bool(is_over.value)

    def abandon(self, cause: str) -> None:
        """Ends the step without its results, once nothing of it is in flight; see ``hvd.h``."""
        api.check(waiting.hvd_gradients_abandon(self._set, cause.encode(), _PATIENCE_SECONDS))

    def missing(self) -> list[int]:
        """Gradients not submitted in this step."""
        return self._indices_of(quick.hvd_gradients_missing)

    def _indices_of(self, ask: Callable[..., int]) -> list[int]:
        count = _lib.c_uint32()
        api.check(ask(self._set, self._indices, len(self._indices), _lib.byref(count)))
        return self._indices[: count.value]

    def wait(self, ends: bool = True) -> None:
        """Waits for all reductions of the step, and ends it unless more follow."""
        wait = waiting.hvd_gradients_wait if ends else waiting.hvd_gradients_wait_part
        self._wait(functools.partial(wait, self._set))

    def wait_stream(self, stream: int, ends: bool = True) -> None:
        """Puts what follows in a stream after all reductions of the step; they are on a GPU."""
        wait = waiting.hvd_gradients_wait_part_stream
        if ends:
            wait = waiting.hvd_gradients_wait_stream
        self._wait(functools.partial(wait, self._set, stream))

    @staticmethod
    def _wait(await_it: Callable[[float], int]) -> None:
        while True:
            status = await_it(api.SLICE_SECONDS)
            if status == _lib.OK:
                return
            if status != _lib.TIMEOUT:
                raise api.failure(status)

    def set_passes(self, passes: int) -> None:
        """How many backward passes add up before a reduction."""
        api.check(quick.hvd_gradients_set_passes(self._set, passes))

    def set_loss_scale(self, scale: float) -> None:
        """Gradients of the next steps are the true ones times this: the scale of the loss.

        What compression keeps between steps is in true units, so that the scale may change. Between
        steps only: before the first ``ready()``. Equal on all ranks; 1 until it is called.

        Parameters
        ----------
        scale
            Above 0, between 2^-100 and 2^100.

        Raises
        ------
        InvalidArgumentError
            It is out of that range, or a gradient of this step is ready.
        """
        api.check(quick.hvd_gradients_set_loss_scale(self._set, scale))

    def save(self) -> bytes:
        """What compression keeps between steps on this rank."""
        size = _lib.c_size_t()
        api.check(quick.hvd_gradients_save(self._set, None, 0, _lib.byref(size)))
        state = _lib.create_string_buffer(size.value)
        api.check(quick.hvd_gradients_save(self._set, state, size.value, _lib.byref(size)))
        return state.raw

    def load(self, state: bytes) -> None:
        """Takes over what ``save()`` gave for the same gradients and methods."""
        api.check(quick.hvd_gradients_load(self._set, state, len(state)))
