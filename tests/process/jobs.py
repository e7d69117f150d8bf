# SPDX-License-Identifier: Apache-2.0
"""Runs small Python programs as ranks under the built hvdrun, and looks for what they leave behind.

Usage of the tests: SOMETHING_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from pathlib import Path
from typing import Callable, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 60
# Inherited by everything a job starts, so that whatever is left can be found.
MARK = "HVD_TEST_JOB"

# What every rank program begins with; no framework, so that a rank starts in a blink.
PROLOGUE = """
import ctypes, os, signal, sys, time
import hvd
from hvd._core import _lib, api
from hvd._core.work import Work

FLOAT32 = 7
SCRATCH = os.environ["HVD_TEST_SCRATCH"]


class Sum:
    def __init__(self, name, count=4, first=0.0):
        self.values = (ctypes.c_float * count)(first)
        address = ctypes.addressof(self.values)
        tensor = api.tensor_struct(FLOAT32, (count,), source=address, target=address)
        self.handle = api.submit(Work(_lib.ALLREDUCE, name), [tensor])

    def wait(self):
        try:
            api.wait(self.handle)
        finally:
            api.release(self.handle)


def allreduce(name, count=4):
    Sum(name, count).wait()


def say(*words):
    # One write for a line: a rank that dies has said all or nothing.
    os.write(1, (" ".join(str(word) for word in words) + "\\n").encode())


def descriptors():
    # Without files of /proc: the engine's thread opens those of its peers for a moment.
    count = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            count += not os.readlink("/proc/self/fd/" + number).startswith("/proc/")
        except FileNotFoundError:
            pass
    return count


def note_time():
    with open(SCRATCH + "/died.new", "w") as file:
        file.write(f"{time.monotonic()} {os.getpid()}")
    os.rename(SCRATCH + "/died.new", SCRATCH + "/died")


def note_pid():
    note = f"{SCRATCH}/pid.{hvd.rank()}"
    with open(note + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(note + ".new", note)

"""


class Ended(NamedTuple):
    """How a job ended; `lines` holds the standard output of each rank."""

    code: int
    lines: dict[int, list[str]]
    stderr: str
    seconds: float

    def line(self, rank: int, start: str) -> str:
        """What follows `start` in the one line of the rank that begins with it."""
        found = [line for line in self.lines.get(rank, []) if line.startswith(start)]
        if len(found) != 1:
            raise AssertionError(f"rank {rank}: {start!r} {len(found)} times in\n{self.text()}")
        return found[0][len(start) :].strip()

    def text(self) -> str:
        """Everything, for a failing assertion."""
        out = [f"[{rank}] {line}" for rank in sorted(self.lines) for line in self.lines[rank]]
        return "\n".join([f"exit code {self.code}", *out, self.stderr])


def arguments() -> tuple[str, str]:
    """HVDRUN and LIBHVD of the command line."""
    return sys.argv[1], sys.argv[2]


# What an outer launcher, or one who ran a job by hand, may have left in the environment.
OUTER = (
    *("HVD_", "SLURM_", "PMI", "OMPI_", "MASTER_", "TORCHELASTIC_"),
    *("CUDA_VISIBLE", "OMP_NUM", "PYTHONUNBUFFERED"),
)


def without_launchers(**more: str) -> dict[str, str]:
    """The environment as if no launcher were around."""
    return {k: v for k, v in os.environ.items() if not k.startswith(OUTER)} | more


def clean_environment(**more: str) -> dict[str, str]:
    """The same for ranks: they find libhvd and the package, and have a thread each."""
    packages = str(ROOT / "runtime" / "python")
    ours = {"HVD_LIBRARY": arguments()[1], "PYTHONPATH": packages, "OMP_NUM_THREADS": "1"}
    return without_launchers(**(ours | more))


def start(
    options: list[str],
    command: list[str],
    preexec_fn: Callable[[], None] | None = None,
    **more: str,
) -> subprocess.Popen[str]:
    """Starts hvdrun with its output in pipes."""
    return subprocess.Popen(
        [arguments()[0], *options, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(**more),
        preexec_fn=preexec_fn,
    )


def marked_processes(mark: str) -> list[int]:
    """Processes that have inherited the mark of a job and are not zombies."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"{MARK}={mark}".encode() in (
                folder / "environ"
            ).read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def split_lines(output: str) -> dict[int, list[str]]:
    """The lines of each rank, without their prefix."""
    lines: dict[int, list[str]] = {}
    for line in output.splitlines():
        head, _, text = line.partition("] ")
        if head[:1] == "[" and head[1:].isdigit():
            lines.setdefault(int(head[1:]), []).append(text)
    return lines


class JobCase(unittest.TestCase):
    """A test that runs jobs: each must end in time and leave nothing."""

    def setUp(self) -> None:
        self.mark = uuid.uuid4().hex
        self.scratch = ""
        self.before_exec: Callable[[], None] | None = None  # what hvdrun's process does first

    def launch(self, options: list[str], program: str, **more: str) -> subprocess.Popen[str]:
        """Starts the program as ranks, in a fresh scratch folder."""
        folder = tempfile.TemporaryDirectory(prefix="hvd-test-")
        self.addCleanup(folder.cleanup)
        self.scratch = folder.name
        job = start(
            ["--prefix", *options],
            [sys.executable, "-c", PROLOGUE + program],
            self.before_exec,
            HVD_TEST_SCRATCH=self.scratch,
            **{MARK: self.mark},
            **more,
        )
        self.addCleanup(job.__exit__, None, None, None)
        self.addCleanup(job.kill)
        return job

    def finish(self, job: subprocess.Popen[str], began: float) -> Ended:
        """Waits for the job and for everything it started."""
        out, err = job.communicate(timeout=LIMIT_S)
        ended = Ended(job.returncode, split_lines(out), err, time.monotonic() - began)
        self.assert_nothing_left(ended)
        return ended

    def run_job(self, options: list[str], program: str, **more: str) -> Ended:
        """Runs the program as ranks to its end."""
        began = time.monotonic()
        return self.finish(self.launch(options, program, **more), began)

    def assert_nothing_left(self, ended: Ended) -> None:
        """hvdrun has returned: no process of the job lives, and none left a name behind."""
        self.assertEqual(marked_processes(self.mark), [], ended.text())
        shared = [name for name in os.listdir("/dev/shm") if "hvd" in name]
        self.assertEqual(shared, [], "nothing may ever be named in /dev/shm")


def main() -> None:
    """unittest without the first two arguments."""
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
