# SPDX-License-Identifier: Apache-2.0
"""A rank dies, in every way and place: the others learn who, where and why, at once.

Usage: deaths_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import os
import signal
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
    handle = api.submit({kind}, [tensor], "operation", root=1, waits=True)
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


class PowerOff(Case):
    """A node that is switched off sends nothing: neither data nor an end of file."""

    def test_a_silent_node_is_lost(self) -> None:
        job = self.launch(
            ["-np", "4", "--nodes", "2", "--grace", "0.1"],
            SURVIVE
            + """
hvd.init()
early = Sum("submitted early") if hvd.rank() < 2 else None
open(f"{SCRATCH}/pid.{hvd.rank()}.new", "w").write(str(os.getpid()))
os.rename(f"{SCRATCH}/pid.{hvd.rank()}.new", f"{SCRATCH}/pid.{hvd.rank()}")
if hvd.rank() < 2:
    survive(early)
while True:
    signal.pause()
""",
        )
        began = time.monotonic()
        for rank in range(4):
            while not os.path.exists(f"{self.scratch}/pid.{rank}"):
                self.assertIsNone(job.poll())
                self.assertLess(time.monotonic() - began, jobs.LIMIT_S)
                time.sleep(0.01)
        pids = [int(Path(f"{self.scratch}/pid.{rank}").read_text("ascii")) for rank in (2, 3)]
        with open(f"{self.scratch}/died", "w", encoding="ascii") as note:
            note.write(f"{time.monotonic()} 0")
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        ended = self.finish(job, began)
        times = self.assert_known(ended, 2, [0, 1], NODE_S)
        self.report("a node is switched off", times, ended)
        self.assertIn("silent for", ended.line(0, "FAILED"))
        self.assertEqual(ended.code, 9, ended.text())


if __name__ == "__main__":
    jobs.main()
