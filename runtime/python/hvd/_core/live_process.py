# SPDX-License-Identifier: Apache-2.0
"""A program whose output appears here line by line while it runs."""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# How often a wait looks whether the program has ended or the time is up.
_SLICE_SECONDS = 0.2
# What may still be in the pipes after the program has ended.
_DRAIN_SECONDS = 2.0
_KEPT_CHARACTERS = 8192

# Becomes the program, in a process group of its own (a terminal's Ctrl-C reaches the caller alone,
# who hands it on), and gets SIGTERM when the caller dies, even of SIGKILL.
_BECOME = """
import ctypes, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.setpgrp()
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class LiveProcess:
    """Runs one program and shows what it writes. One thread.

    Everything happens in the thread that calls :meth:`wait`: notebooks attach what is written from
    there to the cell that runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        shows: bool = True,
        ending_seconds: float = 30.0,
    ) -> None:
        self._shows = shows
        self._ending_seconds = ending_seconds
        self._hides = ""
        self._begun_line = ""
        self.last_error_text = ""
        starter = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid())]
        self._process = subprocess.Popen(
            [*starter, *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._selector = selectors.DefaultSelector()
        for stream, write in (
            (self._process.stdout, self._write_out),
            (self._process.stderr, self._write_error),
        ):
            assert stream is not None
            decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
            self._selector.register(stream, selectors.EVENT_READ, (decoder, write))

    def wait(self, deadline: float | None = None) -> int | None:
        """Shows output until the program ends: its exit code. None: the deadline came first.

        Ctrl-C: hands the interrupt on, waits for the end, raises KeyboardInterrupt.
        """
        try:
            return self._pump(deadline, lambda: False)
        except KeyboardInterrupt:
            self.end(signal.SIGINT)
            raise

    def ask(self, number: int, is_answered: Callable[[], bool], seconds: float) -> None:
        """Sends a signal and shows output until the answer is there, or the seconds are over."""
        self._send(number)
        self._pump(time.monotonic() + seconds, is_answered)

    def end(self, number: int = signal.SIGTERM, hides: str = "") -> None:
        """Ends the program and all it started; a Ctrl-C meanwhile kills it, as does the time.

        Lines that it writes meanwhile on standard error, and that begin with `hides`, are not
        shown: they would only tell of this end.
        """
        self._hides = hides
        self._send(number)
        try:
            self._pump(time.monotonic() + self._ending_seconds, lambda: False)
        finally:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            self._hides = ""
            self._write_error("")

    def close(self) -> None:
        """Lets go of the pipes; the program has ended or is ended."""
        if self._process.poll() is None:
            self.end()
        self._selector.close()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _send(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _pump(self, deadline: float | None, is_done: Callable[[], bool]) -> int | None:
        drained_at: float | None = None
        while self._selector.get_map():
            ready = self._selector.select(_SLICE_SECONDS)
            for key, _ in ready:
                self._take(key)
            now = time.monotonic()
            if is_done() or (deadline is not None and now >= deadline):
                return self._process.poll()
            if self._process.poll() is not None:
                # Something it left may hold the pipes open: do not wait for that.
                drained_at = drained_at or now + _DRAIN_SECONDS
                if not ready or now >= drained_at:
                    break
        remaining = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        try:
            return self._process.wait(remaining)
        except subprocess.TimeoutExpired:
            return None

    def _take(self, key: selectors.SelectorKey) -> None:
        decoder, write = key.data
        content = os.read(key.fd, 65536)
        write(decoder.decode(content, final=not content))
        if not content:
            self._selector.unregister(key.fileobj)

    def _write_out(self, text: str) -> None:
        if self._shows:
            _show(sys.stdout, text)

    def _write_error(self, text: str) -> None:
        self.last_error_text = (self.last_error_text + text)[-_KEPT_CHARACTERS:]
        if self._shows:
            _show(sys.stderr, self._without_hidden(text))

    def _without_hidden(self, text: str) -> str:
        text, self._begun_line = self._begun_line + text, ""
        if not self._hides:
            return text
        *lines, self._begun_line = text.split("\n")
        return "".join(f"{line}\n" for line in lines if not line.startswith(self._hides))


def _show(stream: Any, text: str) -> None:
    """Writes to a stream of this program; it may have none, or one that lacks letters."""
    if stream is None or not text:
        return
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(text.encode("ascii", "backslashreplace").decode())
    stream.flush()
