# SPDX-License-Identifier: Apache-2.0
"""Ending in time: signals and the time limit, agreed on by all ranks."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import signal
import subprocess
import threading
import time
from types import FrameType
from typing import Any

from hvd import objects
from hvd._core import api
from hvd._core.refusals import refused
from hvd._core.work import Max

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)

# Rank 0 waits so long for scontrol, once.
_PATIENCE_SECONDS = 10

_before: dict[int, Any] = {}
_was_told = False
_has_agreed = False


def _note(number: int, frame: FrameType | None) -> None:
    global _was_told
    _was_told = True
    before = _before.get(number)
    if callable(before):
        before(number, frame)


def _watch() -> None:
    """From now on the signals are noted; what the program did at them before, it still does."""
    if _before:
        return
    if threading.current_thread() is not threading.main_thread():
        raise refused(
            "should_stop(): the first call must come from the main thread, which alone may handle "
            "signals; call it there before the training"
        )
    for number in SIGNALS:
        _before[number] = signal.signal(number, _note)
    # A child, as a loader's worker, must end when it is told to.
    os.register_at_fork(after_in_child=_unwatch)
    atexit.register(_ignore_reminders)


def _ignore_reminders() -> None:
    # Slurm and hvdrun may both tell; a program that ends already, whose handlers Python removes
    # before the process has gone, must not die of the second signal.
    if _was_told or _has_agreed:
        for number in _before:
            signal.signal(number, signal.SIG_IGN)


def _unwatch() -> None:
    for number, before in _before.items():
        signal.signal(number, signal.SIG_DFL if before is None else before)
    _before.clear()


def should_stop(margin_seconds: float = 0.0) -> bool:
    """True on every rank, at the same call, once any rank was told to stop; every rank calls it.

    Told by SIGTERM, SIGUSR1 or SIGUSR2, which hvdrun and Slurm send before they end a job; after
    the first call they no longer end the process by themselves. Call it once per step or every few
    steps: it costs an allreduce of one number.

    Parameters
    ----------
    margin_seconds
        Also stop when less than this is left of the time limit on some rank.

    >>> should_stop()
    False
    """
    global _has_agreed
    _watch()
    if _has_agreed:
        return True
    left = time_left()
    is_late = left is not None and left < margin_seconds
    told = objects.allreduce_numbers([float(_was_told or is_late)], Max, "should_stop")
    _has_agreed = told[0] > 0
    return _has_agreed


def time_left() -> float | None:
    """Seconds to the end of the Slurm job; None where there is no limit or none is known.

    From SLURM_JOB_END_TIME, which Slurm sets, since 23.02, when the job starts: a later limit is not
    seen. In an older Slurm rank 0 asks scontrol, once, and other ranks get None.

    >>> time_left() is None or time_left() > 0
    True
    """
    end = os.environ.get("SLURM_JOB_END_TIME")
    if end is None:
        known = _asked_end() if api.is_initialized() and api.rank() == 0 else None
    else:
        # The largest 32-bit number stands for no limit.
        known = int(end) if end.isdigit() and int(end) not in (0, 0xFFFFFFFF) else None
    return None if known is None else known - time.time()


@functools.cache
def _asked_end() -> float | None:
    """What scontrol says; None where there is none, or no job."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, OverflowError):
        answer = subprocess.run(
            ["scontrol", "show", "job", "--oneliner", job],
            env={**os.environ, "SLURM_TIME_FORMAT": "standard"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=True,
        )
        found = re.search(r" EndTime=(\S+)", answer.stdout)
        if found:
            return time.mktime(time.strptime(found.group(1), "%Y-%m-%dT%H:%M:%S"))
    return None
