# SPDX-License-Identifier: Apache-2.0
"""Starts, ends, forks and ranks that keep the others waiting.

Usage: life_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import unittest
from pathlib import Path

import jobs

LAYOUTS = ([], ["--nodes", "2"])


class Life(jobs.JobCase):
    """What a program may do with init and shutdown."""

    def assert_fine(self, ended: jobs.Ended, ranks: int = 4) -> None:
        self.assertEqual(ended.code, 0, ended.text())
        for rank in range(ranks):
            self.assertEqual(ended.line(rank, "FINE"), "", ended.text())

    def test_a_start_that_timed_out_leaves_the_next_one_whole(self) -> None:
        program = """
def note(name):
    open(f"{SCRATCH}/{name}", "w").close()

def wait_for(*names):
    while not all(os.path.exists(f"{SCRATCH}/{name}") for name in names):
        time.sleep(0.01)

rank = int(os.environ["HVD_RANK"])
if rank == 2:
    wait_for("failed.0", "failed.1", "failed.3")
began = time.monotonic()
try:
    hvd.init(start_timeout=1 if rank != 2 else 600)
    raise SystemExit("started without rank 2")
except hvd.HvdError as error:
    # The others have given up: the late rank hears so at once.
    assert time.monotonic() - began < 60, error
    assert "did not come" in str(error), error
note(f"failed.{rank}")
wait_for("failed.2")
for time_of_two in range(2):
    hvd.init(start_timeout=60)
    assert hvd.size() == 4
    allreduce("sum")
    hvd.shutdown()
say("FINE")
"""
        for layout in LAYOUTS:
            with self.subTest(layout=layout):
                self.assert_fine(self.run_job(["-np", "4", *layout], program))

    def test_shared_memory_outlives_the_job(self) -> None:
        program = """
def shared(count):
    memory = ctypes.c_void_p()
    api.check(_lib.quick.hvd_alloc(4 * count, ctypes.byref(memory)))
    return memory.value

def total(address, count):
    tensor = api.tensor_struct(FLOAT32, (count,), source=address, target=address)
    handle = api.submit(Work(_lib.ALLREDUCE, "shared"), [tensor])
    api.wait(handle)
    api.release(handle)

hvd.init()
count = 100000
first = shared(count)
values = (ctypes.c_float * count).from_address(first)
values[:] = [hvd.rank() + 1.0] * count
total(first, count)
assert values[0] == values[count - 1] == 10.0, values[0]
hvd.shutdown()
assert values[7] == 10.0, "gone with the job"
hvd.init()
total(first, count)  # memory of the former life is private now
assert values[7] == 40.0, values[7]
second = shared(count)
hvd.shutdown()
for address in (first, second):
    api.check(_lib.quick.hvd_free(address))
try:
    api.check(_lib.quick.hvd_free(first))
except ValueError as error:
    assert "freed before" in str(error), error
    say("FINE")
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                self.assert_fine(self.run_job(["-np", "4", *options], program))

    def test_five_lives_in_one_process(self) -> None:
        program = """
for life in range(5):
    hvd.init()
    allreduce("once", 1000)
    hvd.barrier()
    hvd.shutdown()
    assert not hvd.is_initialized()
fds = descriptors()
hvd.init(); hvd.shutdown()
assert descriptors() <= fds, "descriptors are lost"
say("FINE")
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                self.assert_fine(self.run_job(["-np", "4", *options], program))

    def test_a_handle_of_a_former_life_is_no_other_operation(self) -> None:
        program = """
def started():
    value = (ctypes.c_float * 1)(1.0)
    address = ctypes.addressof(value)
    tensor = api.tensor_struct(FLOAT32, (1,), source=address, target=address)
    return value, api.submit(Work(_lib.ALLREDUCE), [tensor])

hvd.init()
first, old = started()
hvd.shutdown()
hvd.init()
second, new = started()
try:
    api.wait(old)
except ValueError as error:
    assert "of a job before hvd_shutdown()" in str(error), error
else:
    raise AssertionError("took it for an operation of this life")
api.release(old)
api.wait(new)
hvd.shutdown()
say("FINE")
"""
        self.assert_fine(self.run_job(["-np", "2"], program), 2)

    def test_before_init_and_after_shutdown_calls_say_so(self) -> None:
        program = """
def refused():
    for call in (hvd.rank, hvd.describe, hvd.barrier, lambda: allreduce("x")):
        try:
            call()
        except hvd.AbortedError as failure:
            assert "call hvd.init() first" in str(failure), failure
        else:
            raise AssertionError("answered without a job")
refused()
hvd.shutdown()
hvd.init()
hvd.init()
hvd.barrier()
hvd.shutdown()
hvd.shutdown()
refused()
say("FINE")
"""
        self.assert_fine(self.run_job(["-np", "2"], program), 2)

    def test_the_end_of_the_program_is_a_shutdown(self) -> None:
        for options in LAYOUTS:
            with self.subTest(options=options):
                program = "hvd.init(); allreduce('x'); say('FINE')"
                ended = self.run_job(["-np", "4", *options], program)
                self.assert_fine(ended)

    def test_a_death_during_shutdown_delays_nobody(self) -> None:
        program = """
hvd.init()
hvd.barrier()
if hvd.rank() == 1:
    note_time()
    os.kill(os.getpid(), signal.SIGKILL)
hvd.shutdown()
say("LEFT", time.monotonic() - float(open(SCRATCH + "/died").read().split()[0]))
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                ended = self.run_job(["-np", "4", *options], program)
                self.assertEqual(ended.code, 137, ended.text())
                for rank in 0, 2, 3:
                    self.assertLess(float(ended.line(rank, "LEFT")), 3, ended.text())

    def test_a_rank_that_never_comes_is_named(self) -> None:
        program = """
if os.environ["HVD_RANK"] == "1":
    os._exit(4)
began = time.monotonic()
try:
    hvd.init()
except hvd.HvdError as failure:
    say("FAILED", time.monotonic() - began, failure)
    sys.exit(9)
"""
        ended = self.run_job(["-np", "3"], program, HVD_START_TIMEOUT_SECONDS="2")
        self.assertEqual(ended.code, 4, ended.text())
        for rank in 0, 2:
            failed = ended.line(rank, "FAILED")
            self.assertLess(float(failed.split()[0]), 6, failed)
            self.assertIn("rank 1", failed)

    def test_a_forked_child_is_no_rank_and_does_no_harm(self) -> None:
        program = """
hvd.init()
allreduce("before")
mine = hvd.rank()
place = (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
child = os.fork()
if child == 0:
    began = time.monotonic()
    # Who it belongs to is known, as data sets ask in their workers.
    assert (hvd.is_initialized(), hvd.rank(), hvd.size()) == (True, mine, 4)
    assert (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()) == place
    try:
        allreduce("in the child")
    except hvd.AbortedError as failure:
        fine = "forked" in str(failure) and time.monotonic() - began < 0.5
        hvd.shutdown()
        sys.exit(0 if fine else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0
for step in range(100):
    allreduce("after", 1000)
hvd.shutdown()
say("FINE")
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                self.assert_fine(self.run_job(["-np", "4", *options], program))


class Apart(unittest.TestCase):
    """Ranks that never come to the job are told of, and only they."""

    NOTE = "note: none of the 2 ranks called hvd.init(): train.py ran 2 times, each by itself"

    def end_of(self, ranks: int, text: str, *command: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory(prefix="hvd-test-") as folder:
            script = Path(folder, "train.py")
            script.write_text(text)
            command = tuple(one.replace("train.py", str(script)) for one in command)
            job = jobs.start(["-np", str(ranks)], [*command])
            _, told = job.communicate(timeout=60)
            return job.returncode, told

    def test_a_script_without_init_is_told_of(self) -> None:
        python = sys.executable
        for command in ((python, "train.py"), ("env", "A=1", python, "-u", "train.py", "--epochs")):
            code, told = self.end_of(2, "print('trained')", *command)
            self.assertEqual(code, 0)
            self.assertIn(f"hvdrun: {self.NOTE}\nhint: ", told)
        for options in (["-m"], ["-u", "-m"]):
            code, told = self.end_of(2, "", python, *options, "this")
            self.assertIn("ranks called hvd.init(): this ran 2 times", told)

    def test_others_are_not(self) -> None:
        python = sys.executable
        for ranks, text, command, wanted in (
            (2, "import hvd; hvd.init()", (python, "train.py"), 0),
            (1, "print('alone')", (python, "train.py"), 0),
            (2, "raise SystemExit(3)", (python, "train.py"), 3),
            (2, "", (python, "-c", "print('one line')"), 0),
            (2, "", ("hostname",), 0),
        ):
            code, told = self.end_of(ranks, text, *command)
            self.assertEqual(code, wanted, told)
            self.assertNotIn("hvd.init()", told)


class Neighbours(jobs.JobCase):
    """Jobs beside and after one another on the same machine."""

    SUMS = """
hvd.init()
share = hvd.rank() + int(os.environ["SHARE"])
print("READY", flush=True)
for step in range(int(os.environ["STEPS"])):
    values = (ctypes.c_float * 5000)(share, *[0.0] * 4998, share)
    place = ctypes.addressof(values)
    tensor = api.tensor_struct(FLOAT32, (5000,), source=place, target=place)
    handle = api.submit(Work(_lib.ALLREDUCE, "x"), [tensor])
    api.wait(handle)
    api.release(handle)
    assert values[0] == values[4999] == 3 + 3 * int(os.environ["SHARE"]), values[0]
hvd.shutdown()
say("FINE")
"""

    def test_two_jobs_side_by_side_do_not_meet(self) -> None:
        for options in LAYOUTS:
            with self.subTest(options=options):
                ranks = ["-np", "3", *options]
                first = self.launch(ranks, self.SUMS, SHARE="10", STEPS="300")
                second = self.launch(ranks, self.SUMS, SHARE="1000", STEPS="300")
                for job in first, second:
                    out, err = job.communicate(timeout=jobs.LIMIT_S)
                    self.assertEqual((job.returncode, out.count("FINE")), (0, 3), out + err)

    def test_a_job_killed_whole_leaves_nothing_for_the_next(self) -> None:
        first = self.launch(["-np", "3"], self.SUMS, SHARE="10", STEPS="1000000000")
        assert first.stdout is not None
        self.assertIn("READY", first.stdout.readline())
        for process in jobs.marked_processes(self.mark):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue  # its keeper was quicker
        first.communicate(timeout=jobs.LIMIT_S)
        ended = self.run_job(["-np", "3"], self.SUMS, SHARE="1", STEPS="20")
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(ended.line(2, "FINE"), "", ended.text())


class Stalls(jobs.JobCase):
    """A rank that never submits is not lost: rank 0 reports it, for all that wait."""

    # The report comes on standard error, which a pipe makes readable for us.
    PROLOGUE = """
hvd.init()
if hvd.rank() == 0:
    readable, writable = os.pipe()
    os.dup2(writable, 2)

def report_until(*words):
    text = ""
    while not all(word in text for word in words):
        text += os.read(readable, 65536).decode().replace("\\n", " ")
    return text

def tell():
    open(f"{SCRATCH}/told", "w").close()

def wait_until_told():
    while not os.path.exists(f"{SCRATCH}/told"):
        time.sleep(0.01)
"""

    def run_stall(self, options: list[str], program: str, **more: str) -> jobs.Ended:
        """Run the program with a short stall time; it must end well."""
        ended = self.run_job(
            ["-np", "4", *options],
            self.PROLOGUE + program,
            HVD_STALL_CHECK_TIME_SECONDS="1",
            **more,
        )
        self.assertEqual(ended.code, 0, ended.text())
        return ended

    def test_rank_0_says_for_whom_the_others_wait_and_in_which_process_it_is(self) -> None:
        program = """
if hvd.rank() == 3:
    say("PID", os.getpid())
    wait_until_told()
    allreduce("forgotten")
    sys.exit(0)
waiting = Sum("forgotten")
if hvd.rank() == 0:
    say("REPORT", report_until("forgotten", "own code", "py-spy"))
    tell()
waiting.wait()
"""
        host = os.uname().nodename
        for options in LAYOUTS:
            with self.subTest(options=options):
                ended = self.run_stall(options, program)
                report = ended.line(0, "REPORT")
                pid = ended.line(3, "PID").strip()
                self.assertRegex(report, rf"waits? for rank 3 \(host {host}.*forgotten")
                self.assertRegex(report, rf"py-spy dump --pid {pid}' on host {host}")
                self.assertNotIn("stall:", ended.stderr, "no other rank says it again")

    def test_the_time_for_it_ends_the_job_on_every_rank_and_a_new_one_may_begin(self) -> None:
        program = """
try:
    if hvd.rank() == 3:
        wait_until_told()
    allreduce("forgotten")
except hvd.AbortedError as error:
    from hvd import elastic
    say("ERROR", elastic.is_recoverable(error), error)
tell()
hvd.shutdown()
hvd.init()
allreduce("again")
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                ended = self.run_stall(options, program, HVD_STALL_SHUTDOWN_TIME_SECONDS="2")
                for rank in range(4):
                    self.assertRegex(
                        ended.line(rank, "ERROR"),
                        r"^True .*HVD_STALL_SHUTDOWN_TIME_SECONDS \(2\).* rank 3 .*'forgotten'",
                    )

    def test_ranks_in_opposite_order_are_called_so(self) -> None:
        program = """
names = ["left", "right"] if hvd.rank() < 3 else ["right", "left"]
first = Sum(names[0])
if hvd.rank() == 0:
    say("REPORT", report_until("'left' for rank 3", "'right' for rank 0", "different orders"))
    tell()
wait_until_told()
second = Sum(names[1])
first.wait()
second.wait()
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                report = self.run_stall(options, program).line(0, "REPORT")
                self.assertIn("these ranks call in different orders", report)


class EndsApart(jobs.JobCase):
    """Ranks that come to their end long before others, with their whole node."""

    def test_a_node_that_has_ended_is_missed_by_nobody(self) -> None:
        program = """
hvd.init()
first = hvd.add_process_set([0, 1])
allreduce("all")
if hvd.rank() < 2:
    time.sleep(4)
    for _ in range(3):
        hvd.barrier(first)
    say("DONE")
"""
        for nodes, ends in (("2", ""), ("2", "else: hvd.shutdown()"), ("4", "")):
            with self.subTest(nodes=nodes, ends=ends):
                if nodes == "4":  # a chain of leaders, of which the lower ones go first
                    given = program.replace("[0, 1]", "[0]").replace("< 2", "< 1")
                else:
                    given = program + ends
                ended = self.run_job(["-np", "4", "--nodes", nodes], given)
                self.assertEqual(ended.code, 0, ended.text())
                self.assertIn("DONE", ended.lines[0], ended.text())
                self.assertEqual(ended.stderr, "", ended.text())

    def test_the_last_checkpoint_of_one_rank_takes_its_time(self) -> None:
        program = """
hvd.init()
allreduce("all")
if hvd.rank() == 0:
    time.sleep(4)
"""
        for nodes in "1", "2", "4":
            with self.subTest(nodes=nodes):
                ended = self.run_job(["-np", "4", "--nodes", nodes], program)
                self.assertEqual(ended.code, 0, ended.text())
                self.assertEqual(ended.stderr, "", ended.text())


if __name__ == "__main__":
    jobs.main()
