# SPDX-License-Identifier: Apache-2.0
"""`hvdrun test-preempt` with programs that survive a preemption, and with those that do not.

Usage: preempt_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from pathlib import Path
from typing import Callable

import jobs

# A training that takes steps of 10 ms; `saves` and what comes after the loop are the cases' own.
TRAINING = """
hvd.init()
checkpoints = Checkpoints(SCRATCH + "/checkpoints", keep=2)
found = checkpoints.load() if LOADS else None
step = found.step + 1 if found else 0
while not hvd.should_stop():
    time.sleep(0.01)
    step += 1
if SAVES:
    checkpoints.save(step, {"restarts": os.environ.get("SLURM_RESTART_COUNT", "0")})
"""
BEGIN = jobs.PROLOGUE + "from hvd.checkpoints import Checkpoints\nLOADS = SAVES = True\n"


class PreemptCase(unittest.TestCase):
    """Each test starts `hvdrun test-preempt`, which must leave nothing."""

    def setUp(self) -> None:
        self.mark = uuid.uuid4().hex
        folder = tempfile.TemporaryDirectory(prefix="hvd-test-")
        self.addCleanup(folder.cleanup)
        self.scratch = Path(folder.name)

    def launch(
        self, program: str, *options: str, ranks: int = 2, after: str = "0.1", grace: str = "20"
    ) -> subprocess.Popen[str]:
        """Starts it as a training would be tested, with waits as short as can be."""
        times = ("--after", after, "--grace", grace, "--folder", f"{self.scratch}/checkpoints")
        job = jobs.start(
            ["test-preempt", "-np", str(ranks), "--json", *times, *options],
            ["--", sys.executable, "-c", BEGIN + program],
            HVD_TEST_SCRATCH=str(self.scratch),
            **{jobs.MARK: self.mark},
        )
        self.addCleanup(job.__exit__, None, None, None)
        self.addCleanup(job.kill)
        return job

    def outcome(self, program: str, *options: str, **how: str | int) -> int:
        """Its exit code; what the report says is in `texts`, by part and check, and `failed`."""
        job = self.launch(program, *options, **how)
        out, self.stderr = job.communicate(timeout=jobs.LIMIT_S)
        self.assertEqual(jobs.marked_processes(self.mark), [], self.stderr)
        self.assertTrue(out, self.stderr)
        self.report = json.loads(out)
        checks = {f"{one['part']}: {one['check']}": one for one in self.report["checks"]}
        self.texts = {name: one["text"] for name, one in checks.items()}
        self.remedies = {name: one["remedy"] for name, one in checks.items()}
        self.failed = {name for name, one in checks.items() if one["verdict"] == "failed"}
        self.unknown = {name for name, one in checks.items() if one["verdict"] == "unknown"}
        return job.returncode


class Survives(PreemptCase):
    """Programs that save their work."""

    def test_a_training_that_saves_and_resumes(self):
        self.assertEqual(self.outcome(TRAINING), 0, self.stderr)
        self.assertEqual((self.failed, self.unknown), (set(), set()), self.report)
        self.assertEqual(self.report["signal"], "USR2")
        self.assertIn("all 2 ranks were in hvd.init()", self.texts["first run: start"])
        self.assertRegex(self.texts["first run: checkpoint"], r"^checkpoint-\d+ \(")
        resumed = self.texts["second run: resume"]
        self.assertRegex(resumed, r"^checkpoint-\d+ was read; the first run left checkpoint-# \d+")
        self.assertIn("--signal=USR2@60", self.texts["job: lead"])
        self.assertEqual(self.report["first_run"]["rank_exit_codes"], {"0": 0, "1": 0})
        newest = max((self.scratch / "checkpoints").iterdir(), key=os.path.getmtime)
        self.assertIn(b"restarts\x94\x8c\x011", newest.read_bytes())  # as the second run saw it

    def test_a_training_that_loses_its_node(self):
        # One file is whole, and a newer one was cut short.
        (self.scratch / "checkpoints").mkdir()
        program = f"""
hvd.init()
Checkpoints(SCRATCH + "/checkpoints").save(1, 0)
if "SLURM_RESTART_COUNT" not in os.environ and hvd.rank() == 0:
    open(SCRATCH + "/checkpoints/checkpoint-0000000002", "wb").write(b"cut")
{TRAINING}
"""
        self.assertEqual(self.outcome(program, "--kill"), 0, self.stderr)
        self.assertIn("SIGKILL", self.texts["first run: signal"])
        self.assertIn("was read", self.texts["second run: resume"])
        self.assertNotIn("first run: checkpoint", self.texts)

    def test_sigterm_and_the_report_as_text(self):
        job = jobs.start(
            ["test-preempt", "-np", "1", "--after", "0.1s", "--grace", "20", "--signal", "TERM"],
            ["--", sys.executable, "-c", BEGIN + TRAINING],
            HVD_TEST_SCRATCH=str(self.scratch),
        )
        out, err = job.communicate(timeout=jobs.LIMIT_S)
        self.assertEqual(job.returncode, 0, out + err)
        self.assertRegex(out, r"(?m)^  ok       signal      the program ended .* after SIGTERM")
        self.assertIn("-> --folder DIR", out)
        self.assertIn("as far as is known", out.splitlines()[-1])


class Fails(PreemptCase):
    """Programs that would lose work, or never end."""

    def test_a_program_without_a_handler_whose_second_start_fails(self):
        program = """
if "SLURM_RESTART_COUNT" in os.environ:
    sys.exit(3)
hvd.init()
time.sleep(60)
"""
        self.assertEqual(self.outcome(program, ranks=1), 1)
        self.assertIn("ended by SIGUSR2 itself (rank 0: signal 12", self.texts["first run: signal"])
        self.assertIn("hvd.should_stop()", self.remedies["first run: signal"])
        self.assertIn("there is no file", self.texts["first run: checkpoint"])
        self.assertIn("rank 0: exit code 3", self.texts["second run: signal"])
        self.assertIn("second run: signal", self.failed)

    def test_a_program_that_ignores_the_signal(self):
        program = "signal.signal(signal.SIGUSR2, signal.SIG_IGN)\nhvd.init()\ntime.sleep(60)"
        self.assertEqual(self.outcome(program, ranks=1, grace="0.2"), 1)
        self.assertIn("ignores SIGUSR2", self.texts["first run: signal"])

    def test_a_program_that_hangs_after_it_and_leaves_half_a_file(self):
        program = """
hvd.init()
os.makedirs(SCRATCH + "/checkpoints", exist_ok=True)
while not hvd.should_stop():
    time.sleep(0.01)
open(SCRATCH + "/checkpoints/model.pt.tmp", "w").write("half")
time.sleep(60)
"""
        self.assertEqual(self.outcome(program, grace="0.2"), 1)
        self.assertIn("handles the signal and does not end", self.texts["first run: signal"])
        self.assertIn("model.pt.tmp", self.texts["first run: files"])
        self.assertTrue(self.report["first_run"]["was_killed"])

    def test_a_program_that_ends_before_the_signal(self):
        self.assertEqual(self.outcome("hvd.init()", ranks=1, after="9"), 1)
        self.assertEqual(self.failed, {"first run: signal"})
        self.assertIn("nothing was tested", self.texts["first run: signal"])
        self.assertIsNone(self.report["second_run"])

    def test_a_program_that_begins_anew_and_leaves_a_process(self):
        program = f"""
import subprocess
LOADS = False
subprocess.Popen(["sleep", "61"], start_new_session=True)
{TRAINING}
"""
        self.assertEqual(self.outcome(program, ranks=1), 1)
        self.assertIn("began anew", self.texts["second run: resume"])
        self.assertIn("sleep 61", self.texts["first run: processes"])


class Ends(PreemptCase):
    """The test itself is told to end, or cannot begin."""

    def running(self) -> subprocess.Popen[str]:
        """A test whose program waits for its signal."""
        job = self.launch("hvd.init()\nnote_pid()\ntime.sleep(60)", ranks=1, after="1m")
        self.await_true((self.scratch / "pid.0").exists)
        return job

    def await_true(self, condition: Callable[[], bool]) -> None:
        """Looks again and again, for what no descriptor tells."""
        deadline = time.monotonic() + jobs.LIMIT_S
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_an_interrupt_ends_all(self):
        job = self.running()
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=jobs.LIMIT_S)
        self.assertEqual((job.returncode, out), (130, ""), err)
        self.assertIn("test-preempt was interrupted by signal 2", err)
        self.assertEqual(jobs.marked_processes(self.mark), [])

    def test_nothing_outlives_a_test_that_is_killed(self):
        self.running().kill()
        self.await_true(lambda: not jobs.marked_processes(self.mark))

    def test_what_cannot_be_started(self):
        for words, code, text in (
            (["no-such-program"], 127, "no such program"),
            (["--after", "soon", "true"], 2, "'soon' is not a time"),
            (["--folder", "/dev/null", "true"], 2, "--folder /dev/null is not a folder"),
            ([], 2, "no program to test"),
        ):
            with self.subTest(words):
                job = jobs.start(["test-preempt", "-np", "1"], words)
                out, err = job.communicate(timeout=jobs.LIMIT_S)
                self.assertEqual((job.returncode, out), (code, ""), err)
                self.assertIn(text, err)


if __name__ == "__main__":
    jobs.main()
