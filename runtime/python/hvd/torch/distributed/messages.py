# SPDX-License-Identifier: Apache-2.0
"""Messages from rank to rank: what ``send()`` and ``recv()`` of ``torch.distributed`` do."""

from __future__ import annotations

import contextlib
import datetime
import struct
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

import torch

from hvd._core import api
from hvd.errors import AbortedError, HvdError, MismatchError, PeerLostError
from hvd.torch.distributed.completion import Completions
from hvd.torch.distributed.pairs import Links, loss
from hvd.torch.distributed.work import HvdWork, Late

MOST_TAGS = 1 << 30  # tags of gloo from here on are those of bodies
_LOOK_SECONDS = 0.2
_LOSS_SECONDS = 2.0  # so long after a closed connection the engine knows what became of the rank


class Message:
    """A tensor on its way to another rank, or from it.

    Gloo takes a message that is shorter than the memory for it without a word, and ends the program
    at one that is longer. So each has a head that says what follows, and the body has a tag of gloo
    that is made of the sender's tag and the size: only those that fit meet.

    Parameters
    ----------
    links
        Of the process group.
    completions
        Their threads wait for gloo, so that a caller's wait sees a lost rank, Ctrl-C and time.
    tensor
        Row-major memory of the CPU, that nobody else exchanges.
    peer
        The other rank's place in the group.
    tag
        0 to 2^30 - 1.
    sends
        True: to the other rank.
    deadline
        A time of ``time.monotonic()``.
    finish
        Called when it has come.
    """

    def __init__(
        self,
        links: Links,
        completions: Completions,
        tensor: torch.Tensor,
        peer: int,
        tag: int,
        sends: bool,
        deadline: float,
        finish: Callable[[], None] | None = None,
    ) -> None:
        self.deadline = deadline
        self._links = links
        self._peer = peer
        self._tag = tag
        self._tensor = tensor
        self._finish = finish
        self._what = f"{'send to' if sends else 'receive from'} rank {links.ranks[peer]}"
        self._own = (tensor.numel() * tensor.element_size(), _number(tensor.dtype), tag)
        self._head = torch.tensor(self._own if sends else (-1, -1, -1), dtype=torch.int64)
        self._sends = sends
        self._completions = completions
        self._works: list[Any] = []
        self._is_driven = False
        self._done = threading.Event()
        self._error: Exception | None = None
        self._followers: list[HvdWork] = []
        self._lock = threading.Lock()
        self._link = links.to(peer)
        try:
            self._link.post(self)
        except Exception as error:
            raise self._explained(error) from None

    def post(self, gloo: Any) -> None:
        """See ``Posted``."""
        act = gloo.send if self._sends else gloo.recv
        place = 1 - gloo.rank()
        self._works.append(act([self._head], place, self._tag))
        if self._own[0]:
            self._works.append(act([self._tensor], place, _body(self._own)))

    def is_over(self, seconds: float) -> bool:
        """For Completions: ``fulfil()`` waits, not the thread that leads."""
        return True

    def fulfil(self) -> None:
        """Waits for gloo, on a thread of Completions."""
        error: Exception | None = None
        try:
            self._drive()
            if self._finish is not None:
                self._finish()
        except Exception as failure:
            error = failure
        self._settle(error)

    def give_up(self) -> None:
        """See ``Posted``."""
        self._settle(self._explained(EOFError("the connection has ended")))

    def _settle(self, error: Exception | None) -> None:
        """The first call says how it went; a thread that gloo never wakes may come later, or not."""
        with self._lock:
            if self._done.is_set():
                return
            self._error = error
            self._done.set()
            followers, self._followers = self._followers, []
        for follower in followers:
            follower.fulfil()

    def forget_result(self) -> None:
        """For Completions."""

    def _drive(self) -> None:
        try:
            with self._completions.waiting():
                gloo = self._link.await_connection()
                for index, work in enumerate(self._works):
                    seconds = max(self.deadline - time.monotonic(), 0.001)
                    work.wait(datetime.timedelta(seconds=seconds))
                    if index == 0:
                        self._compare(gloo)
        except Exception as error:
            raise self._explained(error) from None
        finally:
            self._link.done(self)

    def _compare(self, gloo: Any) -> None:
        """Raises where the head that has come is not that of what is expected."""
        got = tuple(self._head.tolist())
        if got != self._own:
            # The other rank's half shall end; the memory that waits here cannot be taken back.
            if _body(got) != _body(self._own):
                with contextlib.suppress(Exception):
                    _take(gloo, torch.empty(got[0], dtype=torch.uint8), got)
            text = (
                f"rank {api.rank()}: {self._called()}: that rank sends {_described(*got[:2])}, "
                f"this one expects {_described(*self._own[:2])}: give both the same shape and type"
            )
            self._link.close(text)
            raise MismatchError(text)

    def _explained(self, error: Exception) -> HvdError:
        """What the caller is told; the connection has ended."""
        if isinstance(error, MismatchError):
            return error
        if time.monotonic() >= self.deadline and self._link.cause in (None, self._late()):
            return self._too_late()
        known = None if self._links.is_closed else loss()
        cause = self._link.cause or self._link.told()
        if known is None and cause is None:
            known = _loss_soon()
        result: HvdError
        if known is None and cause is not None:
            result = AbortedError(
                f"rank {api.rank()}: {self._called()}: the connection of these two ranks is "
                f"closed: {cause}"
            )
        else:
            cause = str(known or " ".join(str(error).split()))
            result = PeerLostError(
                f"rank {api.rank()}: {self._called()} failed: rank "
                f"{self._links.ranks[self._peer]} has ended or closed the connection: {cause}"
            )
        self._link.close(cause, tells=False)
        return result

    def _too_late(self) -> Late:
        self._link.close(self._late())  # the other half, if it came now, would find nobody
        return Late(self._late())

    def _start(self) -> None:
        with self._lock:
            if self._is_driven:
                return
            self._is_driven = True
        self._completions.add(self)

    def complete(self, deadline: float) -> None:
        """See ``Awaited``."""
        self._start()
        while not self._done.wait(min(_LOOK_SECONDS, max(deadline - time.monotonic(), 0.0))):
            if time.monotonic() >= deadline:
                if time.monotonic() >= self.deadline:
                    raise self._too_late()
                raise Late(self._late())
            error = loss()
            if error is not None:
                raise type(error)(f"rank {api.rank()}: {self._called()}: {error}")
        if self._error is not None:
            raise self._error

    def _called(self) -> str:
        return f"{self._what} (tag {self._tag}, process group '{self._links.label}')"

    def _late(self) -> str:
        return (
            f"rank {api.rank()}: {self._called()} did not complete within the timeout: that rank "
            "has not called its half, with this tag; new_group() and init_process_group() take a "
            "longer timeout"
        )

    def is_done(self, seconds: float = 0.0) -> bool:
        """See ``Awaited``."""
        self._start()
        return self._done.wait(seconds)

    def hand_over(self, work: HvdWork) -> None:
        """See ``Awaited``."""
        self._start()
        with self._lock:
            if not self._done.is_set():
                self._followers.append(work)
                return
        work.fulfil()


def _loss_soon() -> HvdError | None:
    end = time.monotonic() + _LOSS_SECONDS
    pause = threading.Event()
    while True:
        error = loss()
        if error is not None or time.monotonic() >= end:
            return error
        pause.wait(0.05)


def _body(head: tuple[int, ...]) -> int:
    """The tag of gloo of what follows a head."""
    return zlib.crc32(struct.pack("qq", head[0], head[2])) % MOST_TAGS + MOST_TAGS


def _take(gloo: Any, room: torch.Tensor, head: tuple[int, ...]) -> None:
    if head[0]:
        gloo.recv([room], 1 - gloo.rank(), _body(head)).wait(
            datetime.timedelta(seconds=_LOSS_SECONDS)
        )


def _number(dtype: torch.dtype) -> int:
    return zlib.crc32(str(dtype).encode())


def _described(size: int, number: int) -> str:
    for dtype in vars(torch).values():
        if isinstance(dtype, torch.dtype) and _number(dtype) == number:
            return f"{size} bytes of {dtype}"
    return f"{size} bytes"
