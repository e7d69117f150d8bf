# SPDX-License-Identifier: Apache-2.0
"""Operations on their way: what they borrow, what they give, and what ends them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Union

from hvd import _lib, api
from hvd._lib import quick
from hvd.refusals import refused
from hvd.work import Work

# Type, shape, layout, and the addresses of input and output.
Flat = tuple[int, tuple[int, ...], int, int, int]
Described = Union[Flat, _lib.Tensor]


class _Pending(NamedTuple):
    key: tuple[int, str | None]  # process set and name
    memory: Any  # keeps tensors alive while the engine may touch them
    result: Callable[[int], Any]


class _Single:
    """A request of one tensor: kept because making one costs more than an operation."""

    __slots__ = ("request", "tensor", "handle", "request_reference", "handle_reference")

    def __init__(self, dtype: int, shape: tuple[int, ...], layout: int) -> None:
        array = (_lib.Tensor * 1)(api.tensor_struct(dtype, shape, layout))
        self.tensor = array[0]
        self.request = _lib.Request(struct_size=_lib.sizeof(_lib.Request))
        self.request.tensor_count = 1
        self.request.tensors = array
        self.handle = _lib.c_uint64()
        self.request_reference = _lib.byref(self.request)
        self.handle_reference = _lib.byref(self.handle)

    def submit(self, work: Work, source: int, target: int, waits: bool) -> int:
        """Starts an operation; returns its handle."""
        tensor, request = self.tensor, self.request
        tensor.input = source
        tensor.output = target
        kind, name, op, scales, process_set, root, wire, priority = work
        request.name = name.encode() if name else None
        request.kind = kind
        request.reduce_op = op
        request.prescale, request.postscale = scales
        request.process_set = process_set
        request.root = root
        request.wire = wire
        request.priority = priority
        request.flags = _lib.SUBMIT_MORE if waits else 0
        status = quick.hvd_submit(self.request_reference, self.handle_reference)
        if status:
            raise api.failure(status)
        return self.handle.value


_lock = threading.Lock()
_names: dict[tuple[int, str | None], int] = {}
_pending: dict[int, _Pending] = api.borrowed
# By type, shape and layout; whoever uses one takes it out meanwhile.
_singles: dict[tuple[int, tuple[int, ...], int], _Single] = {}
_MOST_SINGLES = 1024


def submit(work: Work, tensors: Sequence[Described], waits: bool) -> int:
    """Starts an operation whose memory the caller keeps; see ``api.submit``."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple):
        dtype, shape, layout, source, target = tensors[0]
        key = (dtype, shape, layout)
        single = _singles.pop(key, None) or _Single(dtype, shape, layout)
        handle = single.submit(work, source, target, waits)
        if len(_singles) < _MOST_SINGLES:
            _singles[key] = single
        return handle
    described = [
        api.tensor_struct(*tensor) if isinstance(tensor, tuple) else tensor for tensor in tensors
    ]
    kind, name, op, scales, process_set, root, wire, priority = work
    return api.submit(kind, described, name, op, root, scales, waits, wire, process_set, priority)


def _check_name(work: Work) -> None:
    if not isinstance(work.name, str):
        raise refused(
            f"the name {work.name!r} is of type {type(work.name).__name__}: "
            "pass a string, equal on all ranks, or None"
        )
    key = (work.process_set, work.name)
    running = _names.get(key)
    if running is None:
        return
    pending = _pending.get(running)
    # Numbers of handles begin anew after a shutdown.
    if pending is not None and pending.key == key and not api.is_done(running):
        raise refused(
            f"tensor '{work.name}' is still being processed: Requested to allreduce, allgather, or "
            "broadcast a tensor with the same name as another tensor that is currently being "
            "processed. Synchronize it first, or give it another name."
        )


def start(
    work: Work,
    tensors: Sequence[Described],
    memory: Any,
    result: Callable[[int], Any],
    waits: bool = False,
) -> int:
    """Starts an operation; returns a handle for ``synchronize()``, which returns its result.

    Parameters
    ----------
    memory
        Whatever has to live until the operation is over.
    result
        Makes the result from the handle.
    waits
        This thread waits for it next.
    """
    key = (work.process_set, work.name)
    with _lock:
        if work.name is not None:
            _check_name(work)
        handle = submit(work, tensors, waits)
        _pending[handle] = _Pending(key, memory, result)
        if work.name is not None:
            _names[key] = handle
    return handle


def run(
    work: Work,
    tensors: Sequence[Described],
    memory: Any,
    result: Callable[[int], Any],
) -> Any:
    """Completes an operation on this thread, which spares waking another; see ``start()``."""
    if work.name is not None:
        # Other threads must see the name.
        return synchronize(start(work, tensors, memory, result, True))
    handle = submit(work, tensors, True)
    try:
        api.wait(handle)
    except BaseException:
        if _is_over(handle):
            api.release(handle)
        else:
            _pending[handle] = _Pending((work.process_set, None), memory, result)
        raise
    try:
        return result(handle)
    finally:
        api.release(handle)


def poll(handle: int) -> bool:
    """True when ``synchronize(handle)`` would return at once.

    >>> handle = start(Work(_lib.BARRIER), [], (), lambda number: "all are here")
    >>> poll(handle) in (True, False)
    True
    """
    if handle not in _pending:
        raise refused(
            f"Handle {handle} was not created or has been cleared. A handle can be waited for once."
        )
    return api.is_done(handle)


def synchronize(handle: int) -> Any:
    """Waits for an asynchronous operation and returns its result; once per handle.

    >>> synchronize(start(Work(_lib.BARRIER), [], (), lambda number: "all are here"))
    'all are here'
    """
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
