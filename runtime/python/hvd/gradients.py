# SPDX-License-Identifier: Apache-2.0
"""The gradients of an optimizer, for any framework."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hvd import _lib, api
from hvd._lib import quick, waiting


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
    """

    def __init__(
        self,
        names: Sequence[str],
        tensors: Sequence[_lib.Tensor],
        reduction: Reduction,
        device: tuple[int, int] = (_lib.CPU, 0),
    ) -> None:
        self._set = _lib.c_void_p()
        count = len(names)
        options = _lib.GradientsOptions(
            _lib.sizeof(_lib.GradientsOptions), reduction.op, reduction.passes_per_step, 1.0, 1.0
        )
        options.predivide = reduction.predivide
        options.process_set = reduction.process_set
        options.device_kind, options.device_index = device
        api.check(
            quick.hvd_gradients_create(
                _lib.byref(options),
                (_lib.c_char_p * count)(*[name.encode() for name in names]),
                (_lib.Tensor * count)(*tensors),
                count,
                _lib.byref(self._set),
            )
        )
        self._missing = (_lib.c_uint32 * max(count, 1))()

    def __del__(self) -> None:
        if getattr(self, "_set", None):
            quick.hvd_gradients_destroy(self._set)

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
        self, index: int, method: int, rank: int = 0, ratio: float = 0.0, smallest: int = 0
    ) -> None:
        """Chooses how gradient `index` travels; 0: the default of the method."""
        chosen = _lib.Compression(_lib.sizeof(_lib.Compression), method, rank, ratio, smallest)
        api.check(quick.hvd_gradient_compress(self._set, index, _lib.byref(chosen)))

    def start(self, index: int, address: int) -> None:
        """This step reduces what changes in the values at `address`, which are float32."""
        api.check(quick.hvd_gradient_start(self._set, index, address))

    def missing(self) -> list[int]:
        """Gradients not submitted in this step."""
        count = _lib.c_uint32()
        capacity = len(self._missing)
        api.check(
            quick.hvd_gradients_missing(self._set, self._missing, capacity, _lib.byref(count))
        )
        return list(self._missing[: count.value])

    def wait(self) -> None:
        """Waits for all reductions of the step."""
        self._wait(functools.partial(waiting.hvd_gradients_wait, self._set))

    def wait_stream(self, stream: int) -> None:
        """Puts what follows in a stream after all reductions of the step; they are on a GPU."""
        self._wait(functools.partial(waiting.hvd_gradients_wait_stream, self._set, stream))

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
