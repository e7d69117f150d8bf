# SPDX-License-Identifier: Apache-2.0
"""Errors shown by the user's own lines, without frames of this package.

An error that nobody catches is shown by a hook of the interpreter. The one that was there before
shows ours, too, while their tracebacks are cut; afterwards each has its whole one again, for debuggers.
HVD_FULL_TRACEBACK=1 cuts nothing.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from hvd import settings
from hvd.errors import HvdError, InternalError

VARIABLE = "HVD_FULL_TRACEBACK"
_PACKAGES = ("hvd", "horovod")


def shows_all() -> bool:
    """Whether the user wants every frame.

    >>> shows_all()
    False
    """
    return settings.given(VARIABLE) not in ("", "0")


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """`trace` without the frames of this package; None where nothing is left.

    >>> users_frames(None) is None
    True
    """
    kept = []
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").split(".")[0] not in _PACKAGES:
            kept.append(trace)
        trace = trace.tb_next
    part = None
    for one in reversed(kept):
        part = TracebackType(part, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return part


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


@contextlib.contextmanager
def cut(error: BaseException | None) -> Iterator[None]:
    """Has an error of ours, and what caused it, without our frames meanwhile.

    Of other errors, and of our own defects, every frame may matter.

    Parameters
    ----------
    error
        What is to be shown.

    >>> with cut(ValueError()):
    ...     pass
    """
    whole: list[tuple[BaseException, TracebackType | None]] = []
    is_ours = False
    for one in () if shows_all() else _chain(error):
        if isinstance(one, InternalError):
            break
        is_ours = is_ours or isinstance(one, (HvdError, KeyboardInterrupt))
        if is_ours:
            whole.append((one, one.__traceback__))
    try:
        for one, trace in whole:
            one.__traceback__ = users_frames(trace) or (trace if one is error else None)
        yield
    finally:
        for one, trace in whole:
            one.__traceback__ = trace


def rendered(error: BaseException) -> list[str]:
    """What IPython shows of an error of ours; it asks the error's class.

    Parameters
    ----------
    error
        What a cell raised.
    """
    from IPython import get_ipython

    with cut(error):
        shown = get_ipython().InteractiveTB.structured_traceback(
            type(error), error, error.__traceback__
        )
    return shown


def _program_hook(before: Callable[..., Any]) -> Callable[..., Any]:
    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with cut(error):
            before(kind, error, getattr(error, "__traceback__", trace))

    return show


def _thread_hook(before: Callable[..., Any]) -> Callable[..., Any]:
    def show(args: threading.ExceptHookArgs) -> None:
        error = args.exc_value
        with cut(error):
            trace = getattr(error, "__traceback__", args.exc_traceback)
            before(threading.ExceptHookArgs((args.exc_type, error, trace, args.thread)))

    return show


def install() -> None:
    """Puts the hooks around those that are there; hvd does so once, when it is imported."""
    sys.excepthook = _program_hook(sys.excepthook)
    threading.excepthook = _thread_hook(threading.excepthook)
