# SPDX-License-Identifier: Apache-2.0
"""`hvdrun submit --follow`, with doubles of sbatch, scontrol and squeue, where output is long or unread.

Usage: follow_test.py HVDRUN [unittest arguments]
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HVDRUN = ""
LIMIT_S = 60
STATUS = (
    "JobId=7 JobName=p UserId=me(1) JobState={state} Reason=None ExitCode=0:0 Restarts=0"
    " StartTime=2026-01-01T00:00:00 Partition=p NodeList=n1 StdOut={folder}/7.out"
)
LINE = b"x" * 99 + b"\n"


class Follow(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.write_tool("sbatch", "echo 7")
        self.write_tool("squeue", "exit 0")
        self.tell("RUNNING")
        self.write_tool("scontrol", f"cat {self.folder}/status")

    def write_tool(self, name, line):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{line}\n", encoding="ascii")
        path.chmod(0o755)

    def tell(self, state):
        new = self.folder / "status.new"
        new.write_text(STATUS.format(state=state, folder=self.folder) + "\n", encoding="ascii")
        new.rename(self.folder / "status")

    def write_output(self, mebibytes):
        with open(self.folder / "7.out", "wb") as output:
            for _ in range(mebibytes):
                output.write(LINE * (1024 * 1024 // len(LINE)))
        return mebibytes * (1024 * 1024 // len(LINE)) * len(LINE)

    def follow(self, **options):
        names = ("PATH", "HOME", "LANG")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        environment["PATH"] = f"{self.folder}:{environment['PATH']}"
        job = subprocess.Popen(
            [HVDRUN, "submit", "--site", "jean-zay", "--account", "abc@v100", "--gpus", "1"]
            + ["--time", "1:00:00", "--follow", "--", "true"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            **options,
        )
        self.addCleanup(job.__exit__, None, None, None)
        self.addCleanup(job.kill)
        return job

    def test_signals_are_served_where_nobody_reads(self):
        self.write_output(4)
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        job = self.follow(stdout=writer)
        os.close(writer)
        # The pipe is full once its first bytes are there and no more fit.
        self.assertTrue(os.read(reader, 1))
        while b"is running" not in job.stderr.readline():
            self.assertIsNone(job.poll())
        job.send_signal(signal.SIGINT)
        _, said = job.communicate(timeout=LIMIT_S)
        self.assertEqual(job.returncode, 130, said)
        self.assertIn(b"job 7 goes on", said)

    def test_an_answer_of_the_controller_that_does_not_come_stops_no_signal(self):
        self.write_tool("scontrol", f"echo asked >{self.folder}/asked; exec sleep 300")
        os.mkfifo(self.folder / "asked")
        job = self.follow(stdout=subprocess.DEVNULL)
        self.assertEqual((self.folder / "asked").read_text(encoding="ascii"), "asked\n")
        job.send_signal(signal.SIGTERM)
        _, said = job.communicate(timeout=LIMIT_S)
        self.assertEqual(job.returncode, 143, said)
        self.assertIn(b"job 7 goes on", said)

    def test_output_that_cannot_be_written_is_said_and_a_failure(self):
        self.write_output(1)
        self.tell("COMPLETED")
        with open("/dev/full", "wb") as full:
            job = self.follow(stdout=full)
        _, said = job.communicate(timeout=LIMIT_S)
        self.assertEqual(job.returncode, 1, said)
        self.assertEqual(said.count(b"standard output cannot be written: No space left"), 1, said)
        self.assertIn(b"job 7 ended: completed", said)

    def test_tools_that_leave_processes_behind_are_not_waited_for(self):
        # A wrapper of a site that writes a note in the background.
        for name, line in (("sbatch", "echo 7"), ("scontrol", f"cat {self.folder}/status")):
            self.write_tool(name, f"sleep 40 &\n{line}")
        self.tell("COMPLETED")
        began = time.monotonic()
        job = self.follow(stdout=subprocess.DEVNULL)
        _, said = job.communicate(timeout=LIMIT_S)
        self.assertEqual(job.returncode, 0, said)
        self.assertLess(time.monotonic() - began, 30)

    def test_a_controller_that_closed_its_streams_stops_no_signal(self):
        self.write_tool(
            "scontrol", f"exec >&- 2>&-; echo asked >{self.folder}/asked; exec sleep 300"
        )
        os.mkfifo(self.folder / "asked")
        job = self.follow(stdout=subprocess.DEVNULL)
        self.assertEqual((self.folder / "asked").read_text(encoding="ascii"), "asked\n")
        job.send_signal(signal.SIGINT)
        _, said = job.communicate(timeout=LIMIT_S)
        self.assertEqual(job.returncode, 130, said)

    def test_long_output_is_shown_whole_and_not_kept_in_memory(self):
        size = self.write_output(192)
        self.tell("COMPLETED")
        job = self.follow(stdout=subprocess.PIPE)
        got = 0
        while part := job.stdout.read(1 << 20):
            got += len(part)
        said = job.stderr.read()
        _, status, usage = os.wait4(job.pid, 0)
        job.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual((got, job.returncode), (size, 0), said)
        self.assertIn(b"job 7 ended: completed", said)
        self.assertLess(usage.ru_maxrss, 128 * 1024, "KiB")


if __name__ == "__main__":
    HVDRUN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
