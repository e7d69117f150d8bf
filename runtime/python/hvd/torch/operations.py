# SPDX-License-Identifier: Apache-2.0
"""Asynchronous operations on torch tensors, and what ends them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from hvd import _lib, api
from hvd.errors import InvalidArgumentError
from hvd.process_sets import ProcessSet, global_process_set, process_set_id
from hvd.torch import tensors as _tensors

Average, Sum, Adasum, Min, Max, Product = range(6)


class _Pending(NamedTuple):
    key: tuple[int, str | None]  # process set and name
    memory: Any  # keeps tensors alive while the engine may touch them
    result: Callable[[int], Any]


_lock = threading.Lock()
_names: dict[tuple[int, str | None], int] = {}
_pending: dict[int, _Pending] = api.borrowed


def _op(average: bool | None, op: int | None) -> int:
    if average is not None and op is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if op is not None:
        return op
    return Sum if average is False else Average


def _start(
    kind: int,
    name: str | None,
    described: Sequence[_lib.Tensor],
    memory: Any,
    result: Callable[[int], Any],
    **parameters: Any,
) -> int:
    key = (parameters.get("process_set", 0), name)
    with _lock:
        if name is not None:
            running = _names.get(key)
            if running is not None and running in _pending and not api.is_done(running):
                raise ValueError(
                    f"tensor '{name}' is still being processed: Requested to allreduce, allgather, "
                    "or broadcast a tensor with the same name as another tensor that is currently "
                    "being processed. Synchronize it first, or give it another name."
                )
        handle = api.submit(kind, described, name, **parameters)
        _pending[handle] = _Pending(key, memory, result)
        if name is not None:
            _names[key] = handle
    return handle


def poll(handle: int) -> bool:
    """True when ``synchronize(handle)`` would return at once."""
    if handle not in _pending:
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    return api.is_done(handle)


def synchronize(handle: int) -> Any:
    """Waits for an asynchronous operation and returns its result; once per handle."""
    pending = _pending.get(handle)
    if pending is None:
        return None
    try:
        api.wait(handle)
        return pending.result(handle)
    finally:
        if _is_over(handle):
            with _lock:
                _pending.pop(handle, None)
                if _names.get(pending.key) == handle:
                    del _names[pending.key]
            api.release(handle)


def _is_over(handle: int) -> bool:
    # Ctrl-C may end a wait while the engine still writes: then the memory must stay.
    try:
        return api.is_done(handle)
    except RuntimeError:
        return True


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts a reduction into a new tensor; returns a handle for ``synchronize``."""
    scales = (prescale_factor, postscale_factor)
    return grouped_start([tensor], average, name, op, scales, True, process_set=process_set)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts a reduction in place; returns a handle for ``synchronize``."""
    scales = (prescale_factor, postscale_factor)
    return grouped_start_([tensor], average, name, op, scales, True, process_set=process_set)


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts the reduction of a group that completes as one, into new tensors."""
    scales = (prescale_factor, postscale_factor)
    return grouped_start(tensors, average, name, op, scales, False, process_set=process_set)


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts the reduction in place of a group that completes as one."""
    scales = (prescale_factor, postscale_factor)
    return grouped_start_(tensors, average, name, op, scales, False, process_set=process_set)


def _check_group(tensors: Sequence[torch.Tensor]) -> None:
    if not tensors:
        raise ValueError("grouped_allreduce: the list of tensors is empty")


def grouped_start(
    tensors: Sequence[torch.Tensor],
    average: bool | None,
    name: str | None,
    op: int | None,
    scales: tuple[float, float],
    single: bool,
    waits: bool = False,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts a reduction into new tensors; `single`: the result is a tensor, not a list."""
    _check_group(tensors)
    sources = [_tensors.plain(tensor, f"allreduce '{name}'") for tensor in tensors]
    targets = [torch.empty_like(source) for source in sources]
    described = [_tensors.to_result(*pair) for pair in zip(sources, targets)]
    result: Any = targets[0] if single else targets
    return _start(
        _lib.ALLREDUCE,
        name,
        described,
        (sources, targets),
        lambda handle: result,
        op=_op(average, op),
        scales=scales,
        waits=waits,
        process_set=process_set_id(process_set),
    )


def grouped_start_(
    tensors: Sequence[torch.Tensor],
    average: bool | None,
    name: str | None,
    op: int | None,
    scales: tuple[float, float],
    single: bool,
    waits: bool = False,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts a reduction in place; `single`: the result is a tensor, not a list."""
    _check_group(tensors)
    described = [_tensors.in_place(tensor, f"allreduce_ '{name}'") for tensor in tensors]
    result: Any = tensors[0] if single else list(tensors)
    return _start(
        _lib.ALLREDUCE,
        name,
        described,
        tensors,
        lambda handle: result,
        op=_op(average, op),
        scales=scales,
        waits=waits,
        process_set=process_set_id(process_set),
    )


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts a broadcast into a new tensor; `root_rank` is a rank of the job."""
    source = _tensors.plain(tensor, f"broadcast '{name}'")
    target = torch.empty_like(source)
    return _start(
        _lib.BROADCAST,
        name,
        [_tensors.to_result(source, target)],
        (source, target),
        lambda handle: target,
        root=root_rank,
        process_set=process_set_id(process_set),
    )


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts replacing a tensor by that of rank `root_rank`."""
    return _start(
        _lib.BROADCAST,
        name,
        [_tensors.in_place(tensor, f"broadcast_ '{name}'")],
        tensor,
        lambda handle: tensor,
        root=root_rank,
        process_set=process_set_id(process_set),
    )


def allgather_async(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts concatenating the tensors of all ranks along the first dimension."""
    source = _tensors.plain(tensor, f"allgather '{name}'")
    if source.dim() == 0:
        raise InvalidArgumentError(
            f"allgather '{name}': a scalar has no first dimension; use tensor.reshape(1)"
        )
    address = source.data_ptr()
    described = api.tensor_struct(_tensors.DTYPES[source.dtype], source.shape, 0, address)
    # Ranks most often have equally many rows: then this is the result, else only too long or short.
    guess = source.new_empty((len(source) * process_set.size(), *source.shape[1:]))
    described.output = guess.data_ptr()
    described.output_bytes = guess.numel() * guess.element_size()

    def result(handle: int) -> torch.Tensor:
        gathered = api.gathered(handle)
        if gathered.shape == tuple(guess.shape):
            return guess
        output = torch.empty(gathered.shape, dtype=source.dtype)
        _lib.copy_bytes(output.data_ptr(), gathered.address, output.numel() * output.element_size())
        return output

    return _start(
        _lib.ALLGATHER,
        name,
        [described],
        (source, guess),
        result,
        process_set=process_set_id(process_set),
    )
