# SPDX-License-Identifier: Apache-2.0
"""What becomes of an operation after it has been submitted: a wait, or a future."""

from __future__ import annotations

import collections
import datetime
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._C import _distributed_c10d as _c10d

from hvd import api
from hvd.errors import DeadlineError

_BASE: Any = _c10d.Work
_KEPT = 256
_RESULTS_KEPT = 8


class Operation(NamedTuple):
    """An operation on its way."""

    handle: int
    deadline: float  # of time.monotonic()
    what: str  # for messages
    finish: Callable[[int], None] | None  # puts the result where the caller wants it

    def complete(self, deadline: float) -> None:
        """Waits for the result and puts it where it belongs; until then it may be called again."""
        try:
            api.wait(self.handle, deadline)
        except DeadlineError as error:
            if not api.is_done(self.handle):
                raise _Late(self._late()) from None
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

    def _late(self) -> str:
        return (
            f"rank {api.rank()}: {self.what} did not complete within the timeout: another rank has "
            "not called it. The report of stalled tensors (HVD_STALL_CHECK_TIME_SECONDS) names the "
            "ranks; new_group() and init_process_group() take a longer timeout"
        )

    def _release(self) -> None:
        api.borrowed.pop(("torch.distributed", self.handle), None)
        api.release(self.handle)


class _Late(DeadlineError):
    """The operation is still on its way."""


def _outcome(source: torch.futures.Future) -> Any:
    value = source.value()
    if isinstance(value, Exception):
        raise value
    return value


class HvdWork(_BASE):
    """What ``async_op=True`` gives; whoever waits first completes the operation."""

    def __init__(self, operation: Operation, completions: Completions, result: Any) -> None:
        super().__init__()
        self._operation: Operation | None = operation
        self._completions = completions
        self._lock = threading.Lock()
        self._error: Exception | None = None
        self._result = result
        self._source: torch.futures.Future | None = None
        self._future: torch.futures.Future | None = None

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Returns when the result is there, or raises what went wrong; releases the GIL."""
        with self._lock:
            operation = self._operation
            if operation is not None:
                deadline = operation.deadline
                if timeout:
                    deadline = min(deadline, time.monotonic() + timeout.total_seconds())
                self._complete(operation, deadline)
        if self._error is not None:
            raise self._error
        return True

    def _complete(self, operation: Operation, deadline: float) -> None:
        try:
            operation.complete(deadline)
        except _Late as error:
            if deadline < operation.deadline:
                raise  # this wait had a shorter limit than the operation
            self._error = error  # what the engine may still write to stays borrowed
        except Exception as error:
            self._error = error
        self._operation = None

    def get_future(self) -> torch.futures.Future:
        """A future whose value is the list of tensors."""
        with self._lock:
            if self._future is not None:
                return self._future
            self._source = torch.futures.Future()
            # set_exception() makes the exception a value for C++, which DDP takes for a list of
            # tensors and dies; one that a callback raises is an error for both.
            self._future = self._source.then(_outcome)
            is_over = self._operation is None
        if is_over:
            self.fulfil()
        else:
            self._completions.add(self)
        return self._future

    def fulfil(self) -> None:
        """Waits and sets the future, if one is wanted."""
        result, source = self._result, self._source
        try:
            self.wait()
        except Exception as error:
            result = error
        if source is not None:
            source.set_result(result)

    def is_completed(self) -> bool:
        """True when ``wait()`` would return at once."""
        operation = self._operation
        return operation is None or api.is_done(operation.handle)

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
            self._completions.add(HvdWork(operation, self._completions, None))


class Completions:
    """Fulfils futures in the order of the operations of one process group, on a thread of its own.

    The thread exists from the first future on and waits without the interpreter lock.

    Parameters
    ----------
    keeps
        Whether the latest works are kept: where C++ alone holds a Work that Python made, older
        versions of PyTorch lose its Python half, and a wait for it would never end.
    """

    def __init__(self, label: str, keeps: bool) -> None:
        self._label = label
        self.keeps = keeps
        self._kept: collections.deque[HvdWork] = collections.deque(maxlen=_KEPT)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._queue: queue.SimpleQueue[HvdWork | None] = queue.SimpleQueue()

    def keep(self, work: HvdWork) -> None:
        """Keeps a work for as long as C++ may wait for it, and its result a while."""
        if not self.keeps:
            return
        self._kept.append(work)
        if len(self._kept) > _RESULTS_KEPT:
            self._kept[-1 - _RESULTS_KEPT].forget_result()

    def add(self, work: HvdWork) -> None:
        """To be waited for, after those before it."""
        self._queue.put(work)
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                name = f"hvd-torch-group-{self._label}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Ends the thread after what is under way."""
        with self._lock:
            if self._thread is not None:
                self._queue.put(None)
                self._thread = None

    def _run(self) -> None:
        while True:
            work = self._queue.get()
            if work is None:
                return
            work.fulfil()
            del work  # its tensors may be freed while the next one is awaited
