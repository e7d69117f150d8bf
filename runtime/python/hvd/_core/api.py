# SPDX-License-Identifier: Apache-2.0
"""The framework-free half of the Python interface: the job, handles, errors."""

from __future__ import annotations

import atexit
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hvd._core import _lib, newcomers
from hvd._core._lib import quick, waiting
from hvd._core.work import Work
from hvd.errors import BY_STATUS, HvdError, InvalidArgumentError, NotInitializedError

# A wait returns to the interpreter this often, so that Ctrl-C and other signals get through.
SLICE_SECONDS = 0.2
_PATIENCE_SECONDS = 10.0

# Whatever the engine may still write to, by handle, or by what else borrowed it; see
# _end_of_program().
borrowed: dict[Any, Any] = {}

_jobs = 0
_joins = 0
_at_start: list[Callable[[], None]] = []
_after_join: list[Callable[[int], None]] = []
_before_removal: list[Callable[[int], None]] = []


def check(status: int) -> None:
    """Raises the exception of a failure that happened on this thread.

    >>> check(0)
    """
    if status != _lib.OK:
        raise failure(status)


def failure(status: int) -> HvdError:
    """The exception for a status, with this thread's last error text."""
    text = (quick.hvd_last_error() or b"").decode(errors="replace")
    return BY_STATUS.get(status, HvdError)(text)


def job() -> int:
    """A number that changes whenever this process joins or leaves a job.

    >>> job() == job()
    True
    """
    return _jobs


def joins() -> int:
    """How many jobs this process has joined: as many as the other ranks of this job.

    >>> joins() >= 1
    True
    """
    return _joins


def at_start(action: Callable[[], None]) -> None:
    """Has a function called whenever this process has joined a job.

    >>> at_start(lambda: None)
    """
    _at_start.append(action)


def after_join(action: Callable[[int], None]) -> None:
    """Has a function called whenever all ranks of a process set have joined, with its number.

    >>> after_join(lambda process_set: None)
    """
    _after_join.append(action)


def before_removal(action: Callable[[int], None]) -> None:
    """Has a function called before this rank has a process set removed, with its number.

    >>> before_removal(lambda process_set: None)
    """
    _before_removal.append(action)


def start(start_timeout: float | None, process_sets: _lib.Array[_lib.Ranks]) -> None:
    """Joins the job, with process sets 1, 2, ..."""
    global _jobs, _joins
    options = _lib.InitOptions(struct_size=_lib.sizeof(_lib.InitOptions))
    options.start_timeout_seconds = start_timeout or 0.0
    options.process_sets = process_sets
    options.process_set_count = len(process_sets)
    outcome: list[HvdError] = []

    def begin() -> None:
        status = waiting.hvd_init(_lib.byref(options))
        if status != _lib.OK:
            outcome.append(failure(status))

    # On a thread of its own, so that Ctrl-C works while ranks are awaited.
    thread = threading.Thread(target=begin, name="hvd-init", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(SLICE_SECONDS)
    if outcome:
        raise outcome[0]
    _jobs += 1
    _joins += 1
    if _joins == 1:
        newcomers.note_start()


def act_at_start() -> None:
    """Calls what ``at_start()`` was given."""
    for action in _at_start:
        action()


def act_after_join(process_set: int) -> None:
    """Calls what ``after_join()`` was given."""
    for action in _after_join:
        action(process_set)


def act_before_removal(process_set: int) -> None:
    """Calls what ``before_removal()`` was given."""
    for action in _before_removal:
        action(process_set)


def shutdown() -> None:
    """Leaves the job: waits up to 10 s for the other ranks, then fails what is pending.

    Raises
    ------
    DeadlineError
        Not all ranks have shut down in that time. This one has left all the same.

    >>> shutdown()
    >>> is_initialized()
    False
    """
    global _jobs
    check(waiting.hvd_shutdown(_PATIENCE_SECONDS))
    borrowed.clear()
    _jobs += 1


def abort(cause: str) -> None:
    """Ends this rank's part in the job: what is pending fails on every rank, with `cause`."""
    check(waiting.hvd_abort(cause.encode()))


def is_initialized() -> bool:
    """True between ``init()`` and ``shutdown()``; in a forked child what it was at the fork.

    >>> is_initialized()
    True
    """
    return bool(quick.hvd_is_initialized())


def number(value: int) -> int:
    """The value, unless it is negative: then the error behind it."""
    if value < 0:
        raise NotInitializedError((quick.hvd_last_error() or b"").decode(errors="replace"))
    return value


def rank() -> int:
    """This rank, 0..size-1.

    >>> rank() in range(size())
    True
    """
    return number(quick.hvd_rank())


def size() -> int:
    """The number of ranks of the job.

    >>> size() >= 1
    True
    """
    return number(quick.hvd_size())


def local_rank() -> int:
    """The place of this rank among the ranks of its node.

    >>> local_rank() in range(local_size())
    True
    """
    return number(quick.hvd_local_rank())


def local_size() -> int:
    """The number of ranks of this node.

    >>> local_size() <= size()
    True
    """
    return number(quick.hvd_local_size())


def cross_rank() -> int:
    """The place of this rank among those with the same local rank on their nodes.

    >>> cross_rank() in range(cross_size())
    True
    """
    return number(quick.hvd_cross_rank())


def cross_size() -> int:
    """The number of nodes that have a rank with this local rank.

    >>> cross_size() <= size()
    True
    """
    return number(quick.hvd_cross_size())


def process_set_size(process_set: int) -> int:
    """The number of ranks of a process set."""
    count = quick.hvd_process_set_size(process_set)
    if count < 0 and is_initialized():
        raise failure(_lib.INVALID_ARGUMENT)
    return number(count)


def process_set_rank(process_set: int) -> int:
    """The place of this rank in a process set; -1 when it is not in the set."""
    process_set_size(process_set)
    return quick.hvd_process_set_rank(process_set)


def describe() -> str:
    """Ranks, nodes, how they found each other, which backend moves the bytes and why.

    Raises
    ------
    NotInitializedError
        There is no job.

    >>> "rank" in describe()
    True
    """
    text = quick.hvd_describe()
    if text is None:
        raise NotInitializedError(quick.hvd_last_error().decode(errors="replace"))
    return text.decode(errors="replace")


def build_info() -> dict[str, Any]:
    """What this build contains.

    >>> build_info()["version"].count(".")
    2
    """
    return json.loads(quick.hvd_build_info())


class Statistics(NamedTuple):
    """Counters since ``init()``. Requests of direct rounds are in no batch."""

    batches: int
    requests: int
    bytes: int
    waited_seconds: float


def statistics() -> Statistics:
    """How much was moved and how long callers waited.

    >>> statistics().requests >= 0
    True
    """
    counters = _lib.Counters(struct_size=_lib.sizeof(_lib.Counters))
    check(quick.hvd_statistics(_lib.byref(counters)))
    return Statistics(counters.batches, counters.requests, counters.bytes, counters.waited_seconds)


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """Writes from now on what becomes of each operation: see docs/how-to/read-a-timeline.md.

    Parameters
    ----------
    file_path
        Where to; what was in the file is lost. With ``{rank}`` in its name every rank that calls
        writes its own, else rank 0 alone does.
    mark_cycles
        Also when each batch was decided on: there are no cycles.

    Raises
    ------
    OperatingSystemError
        The file cannot be opened.
    InvalidArgumentError
        A timeline is on already.

    >>> start_timeline("/dev/null")
    >>> stop_timeline()
    """
    check(waiting.hvd_timeline_start(os.fsencode(file_path), mark_cycles))


def stop_timeline() -> None:
    """Ends the file of ``start_timeline()``; without one: nothing.

    Raises
    ------
    OperatingSystemError
        The file is not whole.

    >>> stop_timeline()
    """
    check(waiting.hvd_timeline_stop())


def learning_rate(
    base: float, step: int, warmup_steps: int = 0, factor: float | None = None
) -> float:
    """The rate of `step`: from `base` to `base * factor` in `warmup_steps`, then constant.

    Parameters
    ----------
    base
        The rate that suits one rank.
    step
        Steps done, 0 or more.
    warmup_steps
        Steps until the rate is `base * factor`; 0: none.
    factor
        What to multiply it by in the end; the number of ranks unless given.

    Raises
    ------
    InvalidArgumentError
        A number is out of range.

    >>> [learning_rate(0.1, step, warmup_steps=2, factor=4) for step in (0, 1, 2, 9)]
    [0.1, 0.25, 0.4, 0.4]
    """
    rate = quick.hvd_learning_rate(base, size() if factor is None else factor, warmup_steps, step)
    if math.isnan(rate):
        raise failure(1)
    return rate


def tensor_struct(
    dtype: int, shape: Sequence[int], layout: int = 0, source: int = 0, target: int = 0
) -> _lib.Tensor:
    """An ``hvd_tensor``; addresses may be 0 where no memory is needed."""
    return _lib.Tensor(
        source or None, target or None, dtype, len(shape), _lib.shape_array(tuple(shape)), layout
    )


def name_bytes(name: str) -> bytes:
    """A tensor's name as the library takes it; it would end at a NUL, and meet another's."""
    if "\0" in name:
        raise InvalidArgumentError(f"rank {rank()}: the name {name!r} has a NUL character in it")
    return name.encode()


def submit(
    work: Work,
    tensors: Sequence[_lib.Tensor] = (),
    waits: bool = False,
    place: tuple[int, int, int] | None = None,
) -> int:
    """Starts an operation; returns its handle. The memory stays the caller's to keep alive.

    `waits`: the caller waits at once and so drives the operation; the engine need not wake.
    `place`: kind and number of a GPU and the stream; None: CPU memory.
    """
    request = _lib.Request(struct_size=_lib.sizeof(_lib.Request))
    fill(request, work, waits)
    if place is not None:
        request.device_kind, request.device_index, request.stream = place
    request.tensor_count = len(tensors)
    request.tensors = (_lib.Tensor * len(tensors))(*tensors)
    handle = _lib.c_uint64()
    check(quick.hvd_submit(_lib.byref(request), _lib.byref(handle)))
    return handle.value


def fill(request: _lib.Request, work: Work, waits: bool) -> None:
    """Writes what an operation does into the ``hvd_request`` that starts it."""
    if newcomers.is_one:
        newcomers.refuse(repr(work.name), rank())
    kind, name, op, scales, process_set, root, wire, priority = work
    request.name = name_bytes(name) if name else None
    request.kind = kind
    request.reduce_op = op
    request.prescale, request.postscale = scales
    request.process_set = process_set
    request.root = root
    request.wire = wire
    request.priority = priority
    request.flags = _lib.SUBMIT_MORE if waits else 0


def is_done(handle: int) -> bool:
    """True when the operation has completed, well or not."""
    done = _lib.c_int()
    check(quick.hvd_poll(handle, _lib.byref(done)))
    return bool(done.value)


def wait(handle: int, deadline: float | None = None) -> None:
    """Waits for an operation; Ctrl-C interrupts the wait, not the operation.

    Parameters
    ----------
    deadline
        A time of ``time.monotonic()``, after which a DeadlineError is raised.
    """
    _wait(handle, waiting.hvd_wait, deadline)


def wait_stream(handle: int, stream: int) -> None:
    """Puts what follows in a stream after an operation on GPU memory; see ``hvd_wait_stream()``."""

    def wait_in_order(handle: int, seconds: float) -> int:
        return waiting.hvd_wait_stream(handle, stream, seconds)

    _wait(handle, wait_in_order, None)


def _wait(handle: int, await_it: Callable[[int, float], int], deadline: float | None) -> None:
    while True:
        seconds = SLICE_SECONDS
        if deadline is not None:
            seconds = min(seconds, max(deadline - time.monotonic(), 0.0))
        status = await_it(handle, seconds)
        if status == _lib.OK:
            return
        error = failure(status)
        if status != _lib.TIMEOUT:
            raise error
        if is_done(handle):
            # Since then, or it failed by a deadline of its own: now the outcome is known.
            check(await_it(handle, 0.0))
            return
        if deadline is not None and time.monotonic() >= deadline:
            raise error


def release(handle: int) -> None:
    """Forgets an operation."""
    quick.hvd_release(handle)


class Gathered(NamedTuple):
    """The result of an allgather: an address valid until the handle is released."""

    address: int | None
    shape: tuple[int, ...]
    rows: tuple[int, ...]


def gathered(handle: int, index: int = 0) -> Gathered:
    """The rows of all ranks, after the operation has completed."""
    result = _lib.Gather()
    check(quick.hvd_gathered(handle, index, _lib.byref(result)))
    return Gathered(
        result.data,
        tuple(result.shape[i] for i in range(result.dimensions)),
        tuple(result.rows[i] for i in range(result.ranks)),
    )


@atexit.register
def _end_of_program() -> None:
    # The library leaves after the interpreter has gone, because only then the exit code is known,
    # and because the launcher shall see a failing rank end before those that fail with it.
    kind = getattr(sys, "last_type", None)
    if kind is not None:
        cause = f"its program ended with {kind.__name__}: {sys.last_value}"
        quick.hvd_set_farewell(cause.encode())
    # Until then the engine may write to tensors that nobody waited for.
    if borrowed:
        _lib.immortal(dict(borrowed))
