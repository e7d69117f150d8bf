# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while TensorFlow waits for other ranks.

Python raises ``KeyboardInterrupt`` on the main thread, once that is back from TensorFlow: an operation
that waits for a rank which never comes would hold it up for ever. So this rank's part in the job is
ended, as its program is about to end: what waits fails, on every rank, and the main thread comes back.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.eager import core as _core

from hvd._core import _lib, api
from hvd.errors import HvdError

# An operation that completes within this time needs no help.
_PATIENCE_SECONDS = 0.5
_SLICE_SECONDS = 0.05
# So long at most errors are made as _made_at_once() has it.
_RETURN_SECONDS = 10.0

_watched = -1  # the descriptor that Python writes signals to, when it is ours


class _Place(NamedTuple):
    """Where the main thread is; the frame itself, so that no other gets its address."""

    frame: FrameType | None
    instruction: int


def _place() -> _Place:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return _Place(frame, -1 if frame is None else frame.f_lasti)


def watch(calls: _lib.PluginCalls) -> None:
    """Starts the thread that looks out for Ctrl-C, where Python handles that as it does by itself.

    No handler of signals is touched. Nothing happens outside of the main thread, or where something
    else is told of signals by ``signal.set_wakeup_fd()``.
    """
    global _watched
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or _watched >= 0 or not _is_default():
        return
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        os.close(read_end)
        os.close(write_end)
        return
    _watched = write_end
    # A child, as a loader's worker, would tell us of its own signals.
    os.register_at_fork(after_in_child=_unwatch)
    threading.Thread(
        target=_wait_for_signals, args=(calls, read_end), name="hvd-interrupts", daemon=True
    ).start()


def _unwatch() -> None:
    if threading.current_thread() is threading.main_thread():
        before = signal.set_wakeup_fd(-1)
        if before not in (-1, _watched):
            signal.set_wakeup_fd(before)


def _is_default() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _wait_for_signals(calls: _lib.PluginCalls, descriptor: int) -> None:
    while True:
        numbers, begun, ended = calls.at_next_signals(descriptor)
        if not numbers:
            return
        if signal.SIGINT in numbers and begun > ended:
            _end_wait(calls, ended)


def _end_wait(calls: _lib.PluginCalls, ended: int) -> None:
    """Fails what waits, unless the main thread comes back by itself."""
    place = _place()
    if calls.now()[1] != ended:
        return  # The handler may have run already: what waits now was begun knowingly.
    since = time.monotonic()
    while place.frame is not None and _place() == place and _is_default():
        time.sleep(_SLICE_SECONDS)
        begun, now_ended = calls.now()
        if now_ended != ended or begun == now_ended:
            ended, since = now_ended, time.monotonic()
        elif time.monotonic() - since >= _PATIENCE_SECONDS:
            return _abort(place)


def _abort(place: _Place) -> None:
    cause = "interrupted (SIGINT, as of Ctrl-C) while it waited for other ranks"
    with _made_at_once(cause), contextlib.suppress(HvdError):
        api.abort(cause)
        deadline = time.monotonic() + _RETURN_SECONDS
        while _place() == place and time.monotonic() < deadline:
            time.sleep(_SLICE_SECONDS)


@contextlib.contextmanager
def _made_at_once(text: str) -> Iterator[None]:
    """Errors of TensorFlow are made by no code of Python, which the interrupt would be raised in.

    There, before Python 3.12, pybind11 would turn it into a RuntimeError. They all say `text`.
    """
    if sys.version_info >= (3, 12):
        yield
        return
    kinds = [_core._NotOkStatusException, *tf.errors.OpError.__subclasses__()]
    given = {kind: vars(kind)["__init__"] for kind in kinds if "__init__" in vars(kind)}
    # What they lack then; any other error has its own.
    message = f"HvdError status=ABORTED: {text}"
    for name, value in {"message": message, "code": tf.errors.UNKNOWN, "payloads": {}}.items():
        setattr(_core._NotOkStatusException, name, value)
    own = {"message": message, "error_code": tf.errors.UNKNOWN, "op": None, "node_def": None}
    for name, value in {**own, "experimental_payloads": {}}.items():
        setattr(tf.errors.OpError, f"_{name}", value)
    for kind in given:
        kind.__init__ = BaseException.__init__
    try:
        yield
    finally:
        for kind, made_by in given.items():
            kind.__init__ = made_by
