# SPDX-License-Identifier: Apache-2.0
"""Jobs on a kernel, or under a seccomp profile, without pidfds: who dies is seen nevertheless.

Usage: without_pidfds_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

import deaths_test
import endings_test
import jobs
import without_pidfds

FORBID = f"""
sys.path.insert(0, {str(Path(__file__).parent)!r})
import errno, without_pidfds
"""
AT_ONCE = "lost: a process of this node that ends, seen at once by its pidfd"
BY_LOCK = "lost: a process of this node that ends, seen within 0.2 s by its lock"


def setUpModule() -> None:
    if not without_pidfds.are_forbidden_here():
        raise unittest.SkipTest("no seccomp filters here")


class WithoutPidfds(deaths_test.Case):
    """Neither the launcher nor a rank has pidfds."""

    def setUp(self) -> None:
        super().setUp()
        self.before_exec = without_pidfds.forbid_pidfds

    def check(self, options: list[str], dead: int, deaths: tuple[str, ...]) -> None:
        host = os.uname().nodename
        for name in deaths:
            death, code = deaths_test.DEATHS[name]
            with self.subTest(death=name, options=options):
                program = deaths_test.ONE_DIES.format(dead=dead, death=death)
                ended = self.run_job(["-np", "4", *options], deaths_test.SURVIVE + program)
                others = [rank for rank in range(4) if rank != dead]
                times = self.assert_known(ended, dead, others, deaths_test.PROCESS_S)
                self.report(f"{' '.join(options)} rank {dead} {name}", times, ended)
                self.assertEqual(ended.code, code, ended.text())
                self.assertIn(f"hvdrun: rank {dead} on host {host}", ended.stderr)
                self.assertIn(" failed first: ", ended.stderr)

    def test_a_member_of_one_node(self) -> None:
        self.check([], 2, ("kill", "_exit", "exception", "kill, a child lives"))

    def test_the_root_of_one_node(self) -> None:
        self.check([], 0, ("kill",))

    def test_the_leader_of_the_second_node(self) -> None:
        self.check(["--nodes", "2"], 2, ("kill",))

    def test_while_many_bytes_are_in_flight(self) -> None:
        program = deaths_test.IN_FLIGHT.format(dead=1, count=25 << 20)
        ended = self.run_job(["-np", "4"], deaths_test.SURVIVE + program)
        self.assert_known(ended, 1, [0, 2, 3], deaths_test.PROCESS_S)
        self.assertEqual(ended.code, 137, ended.text())

    def test_a_rank_that_stays_after_its_shutdown_harms_nobody(self) -> None:
        ended = self.run_job(
            ["-np", "3"],
            """
hvd.init()
allreduce("first")
print(hvd.describe(), flush=True)
hvd.shutdown()
hvd.init()
allreduce("second")
hvd.shutdown()
say("DONE")
""",
        )
        self.assertEqual(ended.code, 0, ended.text())
        for rank in range(3):
            ended.line(rank, "DONE")
            others = [other for other in range(3) if other != rank]
            self.assertIn(f"ranks {others} have no pidfd", ended.line(rank, BY_LOCK))

    def test_who_is_stopped_is_named(self) -> None:
        job = self.launch(["-np", "2"], deaths_test.UNTIL_TOLD)
        began = time.monotonic()
        note = Path(self.scratch, "pid.1")
        while not note.exists():
            self.assertIsNone(job.poll())
            time.sleep(0.01)
        pid = int(note.read_text("ascii"))
        os.kill(pid, signal.SIGSTOP)
        line = ""
        while "is stopped (state T" not in line:
            line = job.stderr.readline()
            self.assertTrue(line, "the job has ended")
        self.assertIn(f"(process {pid})", line)
        os.kill(pid, signal.SIGCONT)
        Path(self.scratch, "enough").touch()
        ended = self.finish(job, began)
        self.assertEqual(ended.code, 0, ended.text())


class OneWithout(deaths_test.Case):
    """Only one rank runs under such a profile."""

    def test_it_is_seen_by_its_lock_and_the_others_by_their_pidfds(self) -> None:
        for dead in 1, 2:
            with self.subTest(dead=dead):
                program = (
                    FORBID
                    + "if os.environ['HVD_RANK'] == '1': without_pidfds.forbid_pidfds(errno.EPERM)\n"
                    + deaths_test.SURVIVE
                    + deaths_test.ONE_DIES.format(
                        dead=dead,
                        death="print(hvd.describe(), flush=True); os.kill(os.getpid(), signal.SIGKILL)",
                    )
                )
                ended = self.run_job(["-np", "3"], program)
                self.assert_known(ended, dead, [r for r in range(3) if r != dead], 3.0)
                if dead == 1:
                    ended.line(1, AT_ONCE)
                else:
                    self.assertIn("ranks [1] have no pidfd", ended.line(2, BY_LOCK))


class Launcher(jobs.JobCase):
    """hvdrun knows processes by their numbers and start times then."""

    saved = ""
    assert_saved = endings_test.GraceToSave.assert_saved
    test_programs_behind_a_shell_may_save = endings_test.GraceToSave.test_behind_a_shell

    def setUp(self) -> None:
        super().setUp()
        endings_test.GraceToSave.setUp(self)

    def start(self, *command: str) -> subprocess.Popen[str]:
        forbid = without_pidfds.forbid_pidfds
        return endings_test.GraceToSave.start(self, *command, preexec_fn=forbid)

    def test_a_daemon_does_not_outlive_the_job(self) -> None:
        self.before_exec = without_pidfds.forbid_pidfds
        ended = self.run_job(
            ["-np", "2"],
            """
import subprocess
daemon = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
say("PID", daemon.pid)
os._exit(0)
""",
        )
        self.assertEqual(ended.code, 0, ended.text())  # and assert_nothing_left() has looked


if __name__ == "__main__":
    jobs.main()
