# SPDX-License-Identifier: Apache-2.0
"""Operations on their way: what they borrow, what they give, and what ends them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Union

from hvd._core import _lib, api
from hvd._core._lib import quick, waiting
from hvd._core.refusals import refused
from hvd._core.work import Work

# Type, shape, layout, and the addresses of input and output.
Flat = tuple[int, tuple[int, ...], int, int, int]
Described = Union[Flat, _lib.Tensor]


class _At(NamedTuple):
    kind: int
    device: int
    stream: int


class Place(_At):
    """A GPU, as ``hvd_request`` names it, and the stream that holds what makes the tensors."""

    __slots__ = ()

    def arrive(self, memory: Any) -> int:
        """The stream that takes the results now; `memory` stays as long as it needs it."""
        return self.stream


class _Pending(NamedTuple):
    key: tuple[int, str | None]  # process set and name
    memory: Any  # keeps tensors alive while the engine may touch them
    result: Callable[[int], Any]
    place: Place | None = None  # None: CPU memory


class _Single:
    """A request of one tensor: kept because making one costs more than an operation."""

    __slots__ = ("request", "tensor", "handle", "told", "request_reference", "handle_reference")

    def __init__(self, dtype: int, shape: tuple[int, ...], layout: int) -> None:
        array = (_lib.Tensor * 1)(api.tensor_struct(dtype, shape, layout))
        self.tensor = array[0]
        self.request = _lib.Request(struct_size=_lib.sizeof(_lib.Request))
        self.request.tensor_count = 1
        self.request.tensors = array
        self.handle = _lib.c_uint64()
        self.told: tuple[Work, bool] | None = None  # what the request says
        self.request_reference = _lib.byref(self.request)
        self.handle_reference = _lib.byref(self.handle)

    def tell(self, work: Work, source: int, target: int, waits: bool) -> None:
        """Fills the request."""
        self.tensor.input = source
        self.tensor.output = target
        if self.told != (work, waits):
            self.told = None
            api.fill(self.request, work, waits)
            self.told = (work, waits)

    def submit_at(self, place: Place, work: Work, source: int, target: int, waits: bool) -> int:
        """Starts an operation on GPU memory; a request is for one kind of memory only."""
        self.request.device_kind, self.request.device_index, self.request.stream = place
        return self.submit(work, source, target, waits)

    def submit(self, work: Work, source: int, target: int, waits: bool) -> int:
        """Starts an operation; returns its handle."""
        self.tell(work, source, target, waits)
        status = quick.hvd_submit(self.request_reference, self.handle_reference)
        if status:
            raise api.failure(status)
        handle = self.handle.value
        self.handle.value = 0  # from now on the caller's
        return handle

    def run(self, work: Work, source: int, target: int) -> None:
        """Completes an operation on CPU memory; ``handle`` has what is left to release, or 0."""
        self.tell(work, source, target, True)
        status = waiting.hvd_run(self.request_reference, api.SLICE_SECONDS, self.handle_reference)
        if status == _lib.TIMEOUT:
            api.wait(self.handle.value)
        elif status:
            raise api.failure(status)


_lock = threading.Lock()
# The handle of each; below 0: the thread with that number, negated, awaits it.
_names: dict[tuple[int, str | None], int] = {}
api.at_start(_names.clear)
_pending: dict[int, _Pending] = api.borrowed
# By type, shape and layout; whoever uses one takes it out meanwhile. Of GPU memory apart.
_singles: dict[tuple[int, tuple[int, ...], int], _Single] = {}
_singles_of_gpus: dict[tuple[int, tuple[int, ...], int], _Single] = {}
_MOST_SINGLES = 1024


def _is_single(tensors: Sequence[Described]) -> bool:
    return len(tensors) == 1 and isinstance(tensors[0], tuple)


def submit(
    work: Work, tensors: Sequence[Described], waits: bool, place: Place | None = None
) -> int:
    """Starts an operation whose memory the caller keeps; see ``api.submit``."""
    if _is_single(tensors):
        dtype, shape, layout, source, target = tensors[0]
        key = (dtype, shape, layout)
        kept = _singles if place is None else _singles_of_gpus
        single = kept.pop(key, None) or _Single(dtype, shape, layout)
        if place is None:
            handle = single.submit(work, source, target, waits)
        else:
            handle = single.submit_at(place, work, source, target, waits)
        if len(kept) < _MOST_SINGLES:
            kept[key] = single
        return handle
    described = [
        api.tensor_struct(*tensor) if isinstance(tensor, tuple) else tensor for tensor in tensors
    ]
    return api.submit(work, described, waits, place)


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
    is_pending = pending is not None and pending.key == key and not api.is_done(running)
    # A mark of this thread is of a wait that Ctrl-C ended before it was taken back.
    is_awaited = running < 0 and running != -threading.get_ident()
    if is_pending or is_awaited:
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
    place: Place | None = None,
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
    place
        The GPU that the tensors are on; None: CPU memory.
    """
    key = (work.process_set, work.name)
    with _lock:
        if work.name is not None:
            _check_name(work)
        handle = submit(work, tensors, waits, place)
        _pending[handle] = _Pending(key, memory, result, place)
        if work.name is not None:
            _names[key] = handle
    return handle


def run(
    work: Work,
    tensors: Sequence[Described],
    memory: Any,
    result: Callable[[int], Any],
    place: Place | None = None,
) -> Any:
    """Completes an operation on this thread, which spares waking another; see ``start()``.

    On a GPU it is complete in the order of the stream of now, for which the host does not wait.
    """
    if place is None and _is_single(tensors):
        return _run_single(work, tensors[0], memory, result)
    if work.name is not None:
        # Other threads must see the name.
        return synchronize(start(work, tensors, memory, result, True, place))
    handle = submit(work, tensors, True, place)
    try:
        _await(handle, place, memory)
    except BaseException:
        _abandon(handle, work, memory, result, place)
        raise
    try:
        return result(handle)
    finally:
        api.release(handle)


def _run_single(work: Work, tensor: Any, memory: Any, result: Callable[[int], Any]) -> Any:
    dtype, shape, layout, source, target = tensor
    key = (dtype, shape, layout)
    single = _singles.pop(key, None) or _Single(dtype, shape, layout)
    if work.name is not None:
        _take_name(work)
    try:
        single.run(work, source, target)
    except BaseException:
        if single.handle.value:
            _abandon(single.handle.value, work, memory, result, None)
        raise
    finally:
        if work.name is not None:
            _give_name_back(work)
    handle = single.handle.value
    single.handle.value = 0
    if len(_singles) < _MOST_SINGLES:
        _singles[key] = single
    if not handle:
        return result(0)
    try:
        return result(handle)
    finally:
        api.release(handle)


def _take_name(work: Work) -> None:
    """Other threads must see the name while this one waits."""
    with _lock:
        _check_name(work)
        _names[work.process_set, work.name] = -threading.get_ident()


def _give_name_back(work: Work) -> None:
    key = (work.process_set, work.name)
    with _lock:
        if _names.get(key) == -threading.get_ident():
            del _names[key]


def _abandon(
    handle: int, work: Work, memory: Any, result: Callable[[int], Any], place: Place | None
) -> None:
    """Ends a wait that was broken off: Ctrl-C ends none of the operation, which keeps its memory."""
    if _is_over(handle):
        api.release(handle)
    else:
        key = (work.process_set, work.name)
        _pending[handle] = _Pending(key, memory, result, place)
        if work.name is not None:
            _names[key] = handle


def _await(handle: int, place: Place | None, memory: Any) -> None:
    if place is None:
        api.wait(handle)
    else:
        api.wait_stream(handle, place.arrive(memory))


def poll(handle: int) -> bool:
    """True when the operation is over, on a GPU too: ``synchronize(handle)`` returns at once.

    Parameters
    ----------
    handle
        What an asynchronous operation returned.

    Raises
    ------
    InvalidArgumentError
        The handle is of no operation, or was waited for.

    >>> handle = start(Work(_lib.BARRIER), [], (), lambda number: "all are here")
    >>> poll(handle) in (True, False)
    True
    """
    if handle not in _pending:
        raise refused(
            f"Handle {handle} was not created or has been cleared. A handle can be waited for once."
        )
    return api.is_done(handle)


def synchronize(handle: int, host: bool = False) -> Any:
    """Waits for an asynchronous operation and returns its result; once per handle.

    On a GPU what follows in the stream of now sees the result, and this returns when the ranks have
    agreed on the operation: no wait for the device.

    Parameters
    ----------
    handle
        What an asynchronous operation returned; None is the result of one that was waited for.
    host
        Waits for the device as well, so that others than this stream see the result.

    >>> synchronize(start(Work(_lib.BARRIER), [], (), lambda number: "all are here"))
    'all are here'
    """
    pending = _pending.get(handle)
    if pending is None:
        return None
    is_over = False
    try:
        _await(handle, None if host else pending.place, pending.memory)
        is_over = True
        return pending.result(handle)
    finally:
        if is_over or _is_over(handle):
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
