# SPDX-License-Identifier: Apache-2.0
"""Jobs in the background: hvdrun --detach starts them, hvdrun attach watches and ends them."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import jobs


class Detach(jobs.JobCase):
    def setUp(self) -> None:
        super().setUp()
        self.state = tempfile.mkdtemp(prefix="hvd-detach-")
        self.addCleanup(shutil.rmtree, self.state)
        self.addCleanup(self.end_all)

    def end_all(self) -> None:
        for job in json.loads(self.attach("--json").stdout):
            if job["state"] == "running":
                self.attach(str(job["job"]), "--end")
        deadline = time.monotonic() + 10
        while jobs.marked_processes(self.mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(jobs.marked_processes(self.mark), [])

    def attach(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "XDG_STATE_HOME": self.state}
        return subprocess.run(
            [jobs.arguments()[0], "attach", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=jobs.LIMIT_S,
            check=False,
        )

    def detach(self, *options: str, program: str) -> tuple[int, str]:
        """The exit code, and what is said on standard error."""
        job = self.launch(["--detach", *options], program, XDG_STATE_HOME=self.state)
        _, errors = job.communicate(timeout=jobs.LIMIT_S)
        return job.returncode, errors

    def test_a_job_outlives_its_terminal_and_is_watched_to_its_end(self) -> None:
        program = """
hvd.init()
say("WORKS", sys.stdin.read() == "")
while not os.path.exists(SCRATCH + "/go"): time.sleep(0.01)
say("DONE")
sys.exit(3 if hvd.rank() == 1 else 0)
"""
        code, said = self.detach("-np", "2", program=program)
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"job 1 runs in the background: 'hvdrun attach 1' shows")
        listed = self.attach()
        self.assertRegex(listed.stdout, r"   1  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  running  ")
        (job,) = json.loads(self.attach("--json").stdout)
        self.assertEqual(os.getsid(job["pid"]), job["pid"])
        watched = subprocess.Popen(
            [jobs.arguments()[0], "attach", "1"],
            env={**os.environ, "XDG_STATE_HOME": self.state},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(watched.__exit__, None, None, None)
        assert watched.stdout is not None
        lines = {watched.stdout.readline(), watched.stdout.readline()}
        self.assertEqual(lines, {"[0] WORKS True\n", "[1] WORKS True\n"})
        watched.send_signal(signal.SIGINT)
        _, errors = watched.communicate(timeout=jobs.LIMIT_S)
        self.assertEqual(watched.returncode, 128 + signal.SIGINT)
        self.assertIn("job 1 goes on", errors)
        Path(self.scratch, "go").touch()
        ended = self.attach("1")
        self.assertEqual(ended.returncode, 3, ended.stderr)
        self.assertIn("[0] DONE", ended.stdout)
        self.assertRegex(ended.stdout, r"hvdrun: rank 1 on host \S+ failed first: exit code 3")
        self.assertIn("ended with exit code 3", self.attach().stdout)
        self.assertEqual(job["output"], f"{self.state}/hvdrun/jobs/1/output")

    def test_a_job_is_told_to_end(self) -> None:
        program = """
hvd.init()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
say("READY")
time.sleep(100)
"""
        self.assertEqual(self.detach("-np", "1", program=program)[0], 0)
        output = Path(self.state, "hvdrun/jobs/1/output")
        while "READY" not in output.read_text():
            time.sleep(0.02)
        ended = self.attach("1", "--end")
        self.assertEqual(ended.returncode, 128 + signal.SIGTERM, ended.stdout)
        self.assertIn("the ranks have 10 s to end", ended.stdout)

    def test_a_killed_hvdrun_takes_its_ranks_along_and_is_told_of(self) -> None:
        self.assertEqual(self.detach("-np", "1", program="time.sleep(100)")[0], 0)
        (job,) = json.loads(self.attach("--json").stdout)
        os.kill(job["pid"], signal.SIGKILL)
        ended = self.attach("1")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("job 1 has ended: its hvdrun was killed", ended.stderr)

    def test_what_fails_at_once_is_said_at_once(self) -> None:
        code, said = self.detach("-np", "1", program="sys.exit('no data')")
        self.assertEqual(code, 1, said)
        self.assertIn("no data", said)
        task = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}
        refused = subprocess.run(
            [jobs.arguments()[0], "--detach", "true"],
            env={**os.environ, **task, "XDG_STATE_HOME": self.state},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("leave out what starts it (srun, mpirun)", refused.stderr)
        missing = self.attach("7")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("there is no job 7 in the background", missing.stderr)
        self.assertEqual(self.attach("--end").returncode, 2)
        home = subprocess.run(
            [jobs.arguments()[0], "--detach", "true"],
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertIn("--detach: jobs in the background are kept below HOME", home.stderr)

    def test_a_job_that_cannot_be_recorded_does_not_run(self) -> None:
        def fill_disk() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

        self.before_exec = fill_disk
        code, said = self.detach("-np", "1", program="open(SCRATCH + '/ran', 'w')")
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"--detach: write \S+/job.json.new: File too large")
        self.assertFalse(Path(self.scratch, "ran").exists())

    def test_long_output_is_shown_from_its_end_or_whole(self) -> None:
        program = "print('x' * 99 + '\\n' + ('y' * 99 + '\\n') * 400, flush=True)"
        self.assertEqual(self.detach("-np", "1", program=program)[0], 0)
        tail = self.attach("1")
        self.assertRegex(tail.stderr, r"the last 163\d\d bytes of what job 1 wrote")
        self.assertTrue(re.fullmatch(r"(\[0\] y{99}\n)+\[0\] \n", tail.stdout), tail.stdout[:300])
        self.assertTrue(self.attach("1", "--all").stdout.startswith("[0] " + "x" * 99))


if __name__ == "__main__":
    jobs.main()
