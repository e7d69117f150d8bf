# SPDX-License-Identifier: Apache-2.0
"""What becomes of an operation after it has been submitted: a wait, or a future."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch._C import _distributed_c10d as _c10d

from hvd._core import api
from hvd.errors import DeadlineError
from hvd.torch.distributed import futures
from hvd.torch.distributed.completion import Completions
from hvd.torch.distributed.futures import Place

_BASE: Any = _c10d.Work


class Late(DeadlineError):
    """The operation is still on its way."""


class Awaited(Protocol):
    """An operation on its way."""

    @property
    def deadline(self) -> float:
        """A time of ``time.monotonic()``."""

    def complete(self, deadline: float) -> None:
        """Waits for the result and puts it where it belongs; until then it may be called again."""

    def is_done(self, seconds: float = 0.0) -> bool:
        """Whether ``complete()`` would return at once, after at most so many seconds."""

    def hand_over(self, work: HvdWork) -> None:
        """Has ``fulfil()`` of `work` called when the operation is over."""


class Operation(NamedTuple):
    """An operation of the engine."""

    handle: int
    deadline: float
    what: str  # for messages
    finish: Callable[[int], None] | None  # puts the result where the caller wants it
    completions: Completions

    def complete(self, deadline: float) -> None:
        """See ``Awaited``."""
        try:
            api.wait(self.handle, deadline)
        except DeadlineError as error:
            if not api.is_done(self.handle):
                raise Late(self._late()) from None
            self._release()
            raise error
        except Exception:
            self._release()
            raise
        try:
            if self.finish is not None:
                self.finish(self.handle)
        finally:
            self._release()

    def is_done(self, seconds: float = 0.0) -> bool:
        """See ``Awaited``."""
        if seconds > 0:
            with contextlib.suppress(Exception):  # which complete() raises
                api.wait(self.handle, time.monotonic() + seconds)
        return api.is_done(self.handle)

    def hand_over(self, work: HvdWork) -> None:
        """See ``Awaited``."""
        self.completions.add(work)

    def _late(self) -> str:
        return (
            f"rank {api.rank()}: {self.what} did not complete within the timeout: another rank has "
            "not called it. The report of stalled tensors (HVD_STALL_CHECK_TIME_SECONDS) names the "
            "ranks; new_group() and init_process_group() take a longer timeout"
        )

    def _release(self) -> None:
        api.borrowed.pop(("torch.distributed", self.handle), None)
        api.release(self.handle)


def _outcome(source: torch.futures.Future) -> Any:
    value = source.value()
    if isinstance(value, Exception):
        raise value
    return value


class HvdWork(_BASE):
    """What ``async_op=True`` gives; whoever waits first completes the operation.

    Parameters
    ----------
    operation
        What is waited for.
    result
        The value of the future: the tensors.
    place
        Where callbacks of the future are counted from.
    """

    def __init__(self, operation: Awaited, result: Any, place: Place | None) -> None:
        super().__init__()
        self._operation: Awaited | None = operation
        self._lock = threading.Lock()
        self._lock = threading.Lock()
        self._error: Exception | None = None
        self._result = result
        self._place = place
        self._making = threading.Lock()
        self._source: torch.futures.Future | None = None
        self._future: torch.futures.Future | None = None

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Returns when the result is there, or raises what went wrong; releases the GIL."""
        if self._operation is not None:
            with futures.blocking():
                self._wait(timeout.total_seconds() if timeout else None)
        if self._error is not None:
            raise self._error
        return True

    def _wait(self, seconds: float | None) -> None:
        limit = float("inf") if seconds is None else time.monotonic() + seconds
        if not self._lock.acquire(timeout=-1 if seconds is None else max(seconds, 0)):
            raise Late(f"rank {api.rank()}: a wait of {seconds} s ended before the operation")
        try:
            operation = self._operation
            if operation is not None:
                self._complete(operation, min(operation.deadline, limit))
        finally:
            self._lock.release()

    def _complete(self, operation: Awaited, deadline: float) -> None:
        try:
            operation.complete(deadline)
        except Late as error:
            if deadline < operation.deadline:
                raise  # this wait had a shorter limit than the operation
            self._error = error  # what the engine may still write to stays borrowed
        except Exception as error:
            self._error = error
        self._operation = None

    def get_future(self) -> torch.futures.Future:
        """A future whose value is the list of tensors."""
        with self._making:
            if self._future is None:
                self._source = torch.futures.Future()
                # set_exception() makes the exception a value for C++, which DDP takes for a list
                # of tensors and dies; one that a callback raises is an error for both.
                self._future = futures.unplaced(self._source, _outcome)
                operation = self._operation
                if operation is None:
                    self.fulfil()
                else:
                    operation.hand_over(self)
            if self._place is not None:
                futures.register(self._future, self._place)
            return self._future

    def is_over(self, seconds: float) -> bool:
        """Whether ``fulfil()`` would return at once, after at most so many seconds."""
        operation = self._operation
        if operation is None or time.monotonic() >= operation.deadline:
            return True
        try:
            return operation.is_done(seconds)
        except Exception:  # another thread has waited for it
            return True

    def fulfil(self) -> None:
        """Waits, and sets the future if one is wanted."""
        try:
            self._wait(None)
        except Exception as error:
            self._error = error
        if self._source is not None:
            self._source.set_result(self._result if self._error is None else self._error)

    def is_completed(self) -> bool:
        """True when ``wait()`` would return at once."""
        operation = self._operation
        return operation is None or operation.is_done(0.0)

    def result(self) -> Any:
        """The tensors, after ``wait()``."""
        self.wait()
        return self._result

    def forget_result(self) -> None:
        """For a work that lives on only to be waited for."""
        if self._operation is None:
            self._result = None

    def __del__(self) -> None:
        # Nobody waited: the memory must live on, and what belongs elsewhere be put there.
        operation = getattr(self, "_operation", None)
        if operation is not None and api.is_initialized():
            operation.hand_over(HvdWork(operation, None, None))
