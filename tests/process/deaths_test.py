# SPDX-License-Identifier: Apache-2.0
"""A rank dies, in every way and place: the others learn who, where and why, at once.

Usage: deaths_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import jobs

# The promise is 0.5 s for a process and 3 s for a node; busy test machines get more.
PROCESS_S = 3.0
NODE_S = 8.0

# How a rank dies, and the exit code that hvdrun then returns.
DEATHS = {
    "kill": ("os.kill(os.getpid(), signal.SIGKILL)", 137),
    "segv": ("os.kill(os.getpid(), signal.SIGSEGV)", 139),
    "_exit": ("os._exit(3)", 3),
    "exception": ("raise ZeroDivisionError('on purpose')", 1),
    "kill, a child lives": (
        "os.fork() or time.sleep(300); os.kill(os.getpid(), signal.SIGKILL)",
        137,
    ),
}

SURVIVE = """
def survive(early, name="what the dead never submits", count=4, operation=None):
    try:
        while True:
            operation() if operation else allreduce(name, count)
    except hvd.HvdError as failure:
        died = open(SCRATCH + "/died").read().split()[0]
        say("AFTER", time.monotonic() - float(died))
        say("FAILED", type(failure).__name__, str(failure).replace("\\n", " "))
    for wait in (early.wait, lambda: allreduce("later"), hvd.barrier):
        began = time.monotonic()
        try:
            wait()
            say("AGAIN", "nothing raised")
        except hvd.HvdError as failure:
            say("AGAIN", time.monotonic() - began, type(failure).__name__, failure)
    sys.exit(9)
"""

ONE_DIES = """
hvd.init()
allreduce("first")
if hvd.rank() == {dead}:
    hvd.barrier()
    note_time()
    {death}
early = Sum("submitted early")
hvd.barrier()
survive(early)
"""

IN_FLIGHT = """
hvd.init()
early = None if hvd.rank() == {dead} else Sum("submitted early")
allreduce("large", {count})
if hvd.rank() == {dead}:
    before = hvd.statistics().batches
    large = Sum("large", {count})
    while hvd.statistics().batches == before:
        pass
    note_time()
    os.kill(os.getpid(), signal.SIGKILL)
survive(early, "large", {count})
"""


IN_OPERATION = """
import threading
source, target = ((ctypes.c_float * (1 << 20))() for _ in range(2))
tensor = api.tensor_struct(
    _lib.DTYPES["float32"], (1 << 18, 4), 0, ctypes.addressof(source), ctypes.addressof(target)
)

def operation():
    handle = api.submit(Work({kind}, "operation", root=1), [tensor], waits=True)
    try:
        api.wait(handle)
    finally:
        api.release(handle)

def die():
    note_time()
    os.kill(os.getpid(), signal.SIGKILL)

hvd.init()
early = None if hvd.rank() == {dead} else Sum("submitted early")
operation()
hvd.barrier()
if hvd.rank() == {dead}:
    threading.Timer(0.05, die).start()
    while True:
        operation()
survive(early, operation=operation)
"""

# hvd_kind by name.
OPERATIONS = {"reducescatter": 4, "alltoall": 5, "reduce": 6, "gather": 7, "scatter": 8}


UNTIL_TOLD = """
hvd.init()
allreduce("first")
note_pid()
sums, enough = 0, False
while not enough:
    told = Sum("told", 1, float(os.path.exists(SCRATCH + "/enough")))
    told.wait()
    enough = told.values[0] > 0
    allreduce("many", 100000)
    sums += 1
    time.sleep(0.01)
say("SUMS", sums)
hvd.shutdown()
"""


class Case(jobs.JobCase):
    """What holds for every loss."""

    def assert_known(
        self, ended: jobs.Ended, dead: int, survivors: list[int], limit: float
    ) -> list[float]:
        """Every survivor raised in time, naming the dead, and raises again at once."""
        times = []
        host = os.uname().nodename
        for rank in survivors:
            failed = ended.line(rank, "FAILED")
            self.assertRegex(failed, f"PeerLostError .*rank {dead} on host {host}[/ ]", failed)
            times.append(float(ended.line(rank, "AFTER")))
            self.assertLess(times[-1], limit, ended.text())
            again = [line for line in ended.lines[rank] if line.startswith("AGAIN")]
            self.assertEqual(len(again), 3, ended.text())
            for line in again:
                self.assertLess(float(line.split()[1]), 0.5, ended.text())
                self.assertIn(f"PeerLostError rank {dead} ", line)
        return times

    def report(self, what: str, times: list[float], ended: jobs.Ended) -> None:
        """One line for people: when the survivors knew."""
        text = " ".join(f"{1000 * t:.0f}" for t in times)
        print(f"\n  {what}: {text} ms (job: {ended.seconds:.1f} s)", flush=True)


class Deaths(Case):
    """The matrix: ways to die x layouts x places."""

    def check(self, options: list[str], dead: int) -> None:
        host = os.uname().nodename
        for name, (death, code) in DEATHS.items():
            with self.subTest(death=name):
                ended = self.run_job(
                    ["-np", "4", *options], SURVIVE + ONE_DIES.format(dead=dead, death=death)
                )
                others = [rank for rank in range(4) if rank != dead]
                times = self.assert_known(ended, dead, others, PROCESS_S)
                self.report(f"{' '.join(options)} rank {dead} {name}", times, ended)
                self.assertEqual(ended.code, code, ended.text())
                self.assertIn(" failed first: ", ended.stderr)
                self.assertIn(f"hvdrun: rank {dead} on host {host}", ended.stderr)

    def test_the_root_of_one_node(self) -> None:
        self.check([], 0)

    def test_a_member_of_one_node(self) -> None:
        self.check([], 2)

    def test_the_root_of_two_nodes(self) -> None:
        self.check(["--nodes", "2"], 0)

    def test_the_leader_of_the_second_node(self) -> None:
        self.check(["--nodes", "2"], 2)

    def test_a_member_of_the_second_node(self) -> None:
        self.check(["--nodes", "2"], 3)

    def test_while_many_bytes_are_in_flight(self) -> None:
        nodes = ["--nodes", "2"]
        for options, dead, count in ([], 1, 25 << 20), (nodes, 2, 4 << 20), (nodes, 1, 4 << 20):
            with self.subTest(options=options, dead=dead):
                ended = self.run_job(
                    ["-np", "4", *options], SURVIVE + IN_FLIGHT.format(dead=dead, count=count)
                )
                others = [rank for rank in range(4) if rank != dead]
                times = self.assert_known(ended, dead, others, PROCESS_S)
                self.report(f"{count >> 18} MiB {' '.join(options)} rank {dead}", times, ended)
                self.assertEqual(ended.code, 137, ended.text())

    def test_in_each_operation(self) -> None:
        for name, kind in OPERATIONS.items():
            for options in [], ["--nodes", "2"]:
                with self.subTest(operation=name, options=options):
                    ended = self.run_job(
                        ["-np", "4", *options], SURVIVE + IN_OPERATION.format(dead=2, kind=kind)
                    )
                    times = self.assert_known(ended, 2, [0, 1, 3], PROCESS_S)
                    self.report(f"{name} {' '.join(options)} rank 2", times, ended)
                    self.assertEqual(ended.code, 137, ended.text())


class Pauses(Case):
    """A process that is stopped is not a loss, while the kernel of its host answers."""

    # Longer than what a host that does not answer gets.
    PAUSE_S = 6.0

    def pids(self, job: subprocess.Popen[str], ranks: list[int]) -> list[int]:
        """The processes of ranks, once each of them has noted its own."""
        began = time.monotonic()
        notes = [Path(self.scratch, f"pid.{rank}") for rank in ranks]
        while not all(note.exists() for note in notes):
            self.assertIsNone(job.poll())
            self.assertLess(time.monotonic() - began, jobs.LIMIT_S)
            time.sleep(0.01)
        return [int(note.read_text("ascii")) for note in notes]

    def assert_goes_on(self, stopped: list[int], pause: float = PAUSE_S) -> jobs.Ended:
        """Ranks of two nodes sum; some are stopped meanwhile; nobody loses anybody."""
        job = self.launch(["-np", "4", "--nodes", "2"], UNTIL_TOLD)
        began = time.monotonic()
        pids = self.pids(job, stopped)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(pause)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(1)
        Path(self.scratch, "enough").touch()
        ended = self.finish(job, began)
        self.assertEqual(ended.code, 0, ended.text())
        for rank in range(4):
            self.assertGreater(int(ended.line(rank, "SUMS")), 1, ended.text())
        return ended

    def test_who_is_stopped_is_waited_for_and_named(self) -> None:
        ended = self.assert_goes_on([1, 2, 3], pause=13.0)
        host = os.uname().nodename
        self.assertRegex(ended.stderr, rf"rank 2 on host {host}/?\S* has said nothing for 1\d s")
        self.assertRegex(ended.stderr, rf"rank 1 on host {host}/?\S* .* is stopped \(state T")

    def test_a_stopped_first_node_is_waited_for(self) -> None:
        self.assert_goes_on([0, 1])

    def test_a_stopped_job_goes_on(self) -> None:
        self.assert_goes_on([0, 1, 2, 3])

    def test_one_that_never_goes_on_is_lost_in_the_end(self) -> None:
        job = self.launch(
            ["-np", "4", "--nodes", "2", "--grace", "0.1"],
            SURVIVE
            + """
hvd.init()
early = Sum("submitted early") if hvd.rank() < 2 else None
note_pid()
if hvd.rank() < 2:
    survive(early)
while True:
    signal.pause()
""",
            HVD_SILENCE_TIMEOUT_SECONDS="2",
        )
        began = time.monotonic()
        pids = self.pids(job, [2, 3])
        with open(f"{self.scratch}/died", "w", encoding="ascii") as note:
            note.write(f"{time.monotonic()} 0")
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        ended = self.finish(job, began)
        times = self.assert_known(ended, 2, [0, 1], NODE_S)
        self.report("a node that is stopped for ever", times, ended)
        self.assertIn("though its host answers", ended.line(0, "FAILED"))
        self.assertEqual(ended.code, 9, ended.text())

    def test_a_member_that_never_goes_on_is_lost_in_the_end(self) -> None:
        job = self.launch(
            ["-np", "3", "--grace", "0.1"],
            SURVIVE
            + """
hvd.init()
early = Sum("submitted early") if hvd.rank() != 1 else None
note_pid()
if hvd.rank() != 1:
    survive(early)
while True:
    signal.pause()
""",
            HVD_SILENCE_TIMEOUT_SECONDS="1",
        )
        began = time.monotonic()
        (pid,) = self.pids(job, [1])
        with open(f"{self.scratch}/died", "w", encoding="ascii") as note:
            note.write(f"{time.monotonic()} 0")
        os.kill(pid, signal.SIGSTOP)
        ended = self.finish(job, began)
        times = self.assert_known(ended, 1, [0, 2], jobs.LIMIT_S)
        self.report("a member that is stopped for ever", times, ended)
        self.assertIn("stopped (state T", ended.line(0, "FAILED"))
        self.assertEqual(ended.code, 9, ended.text())


if __name__ == "__main__":
    jobs.main()
