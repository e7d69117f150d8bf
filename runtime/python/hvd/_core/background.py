# SPDX-License-Identifier: Apache-2.0
"""Work that goes on while a program trains, and whose failure is not lost."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable

# Tasks whose outcome nobody has asked for yet.
_untold: set[Task] = set()


class Task:
    """Something done on a thread of its own; the interpreter does not end before it has.

    Parameters
    ----------
    what
        What it does, for the sentence about its failure.
    act
        Calls no operation of the job: other ranks know nothing of this thread.

    >>> task = Task("a sum", lambda: 1 / 0)
    >>> task.outcome()
    ZeroDivisionError('division by zero')
    """

    def __init__(self, what: str, act: Callable[[], object]) -> None:
        self.what = what
        self._act = act
        self._error: BaseException | None = None
        _untold.add(self)
        self._thread = threading.Thread(target=self._run, name=f"hvd: {what}", daemon=False)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as error:  # whatever it is, it waits for whoever asks
            self._error = error
        finally:
            del self._act  # and what it holds

    def outcome(self, tells: bool = True) -> BaseException | None:
        """Waits for the end, and gives the error that it ended with.

        Parameters
        ----------
        tells
            Whether somebody hears of it: else the end of the program does.
        """
        self._thread.join()
        if tells:
            _untold.discard(self)
        return self._error


def program_has_ended() -> bool:
    """True while the interpreter waits for tasks only."""
    return not threading.main_thread().is_alive()


def _tell() -> None:
    """Prints what failed and nobody has heard of; tasks have ended before."""
    for task in list(_untold):
        error = task.outcome()
        if error is not None:
            print(f"hvd: {task.what} failed: {type(error).__name__}: {error}", file=sys.stderr)


atexit.register(_tell)
