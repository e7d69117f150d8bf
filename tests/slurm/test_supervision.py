# SPDX-License-Identifier: Apache-2.0
"""`hvdrun prog` around srun: the failing rank is named, bad input never reaches srun, and nothing stays behind."""

import re
import unittest

import cluster
import slurm_test

_LOOP = "echo up; exec sleep 9731"


@unittest.skipUnless(slurm_test.HVDRUN.exists(), "hvdrun is not built")
class TestSupervision(slurm_test.SlurmTest):
    def in_salloc(self, *arguments):
        command = ["salloc", "-N2", "--ntasks-per-node=2", slurm_test.HVDRUN, *arguments]
        return self.cluster.login(command)

    def test_the_first_failing_rank_is_named_and_its_code_returned(self):
        script = "[ $SLURM_PROCID = 2 ] || exit 0; echo why it failed >&2; exit 7"
        result = self.in_salloc("bash", "-c", script)
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertIn("hvdrun: rank 2 on host jz2 failed first: exit code 7\n", result.stderr)
        self.assertEqual(result.stderr.count("why it failed"), 1, result.stderr)
        self.assertNotIn("rank -1", result.stderr)

    def test_a_signal_gives_128_plus_its_number(self):
        result = self.in_salloc("bash", "-c", "[ $SLURM_PROCID != 1 ] || kill -9 $$")
        self.assertEqual(result.returncode, 137, result.stderr)
        self.assertIn("rank 1 on host jz1 failed first: signal 9 (Killed)", result.stderr)

    def test_an_srun_that_cannot_start_is_named_with_its_host(self):
        result = self.in_salloc("-c", "300", "true")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("hvdrun: srun on login failed: exit code 1\n", result.stderr)
        self.assertNotIn("rank", result.stderr)

    def test_an_unknown_site_is_refused_once_and_starts_nothing(self):
        result = self.in_salloc("--site", "nowhere", "touch", "started")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("no site 'nowhere'"), 1, result.stderr)
        self.assertFalse((self.cluster.root / "started").exists())

    def test_output_dir_holds_what_each_rank_wrote(self):
        result = self.in_salloc("--output-dir", "logs", "bash", "-c", "echo o$SLURM_PROCID")
        self.assertEqual(result.returncode, 0, result.stderr)
        logs = {
            path.name: path.read_text()
            for path in (self.cluster.root / "logs" / "latest").iterdir()
        }
        self.assertEqual(logs, {f"rank-{rank}.out": f"o{rank}\n" for rank in range(4)})

    def start_loop(self):
        """hvdrun with four ranks that run on; the process, once all of them said so."""
        log = self.cluster.root / "loop.log"
        log.unlink(missing_ok=True)
        command = f"{slurm_test.HVDRUN} bash -c '{_LOOP}' > {log} 2>&1"
        script = self.write_script("loop.sh", f"#!/bin/bash\n{command}\necho code $?\n")
        job = self.cluster.start(["salloc", "-N2", "--ntasks-per-node=2", script])
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait, 30)
        self.addCleanup(lambda: self.cluster.login(["scancel", "--user=root"]))
        cluster.await_true(lambda: log.exists() and log.read_text().count("up") == 4, 30, "4 ranks")
        self.assertEqual(len(self.cluster.processes("sleep 9731")), 4 + self.launchers())
        return job, log

    def launchers(self) -> int:
        """Processes that have the ranks' command on their own command line."""
        return len(self.cluster.processes(_LOOP))

    def kill(self, pattern: str, how: str = "-9") -> None:
        pids = [
            int(line.split()[0])
            for line in self.cluster.processes("hvdrun")
            if re.search(pattern, line)
        ]
        self.assertTrue(pids, pattern)
        self.cluster.login(["kill", how, min(pids)])

    def states(self) -> list[str]:
        """The state of each rank: "S" sleeps, "T" is stopped."""
        lines = self.cluster.login(["ps", "-eo", "stat=,args="]).stdout.splitlines()
        return [line[0] for line in lines if line.split(None, 1)[1:] == ["sleep 9731"]]

    def await_nothing(self) -> None:
        cluster.await_true(
            lambda: not self.cluster.processes("sleep 9731"), 20, "end of every rank"
        )

    def test_srun_killed_is_named_and_leaves_nothing(self):
        job, log = self.start_loop()
        self.kill(r"\d \S+ +srun --label")
        output, _ = job.communicate(timeout=30)
        self.assertIn("code 137", output)
        self.assertIn("hvdrun: srun on login failed: signal 9 (Killed)", log.read_text())
        self.await_nothing()

    def test_ctrl_z_stops_the_tasks_and_a_continued_hvdrun_continues_them(self):
        self.start_loop()
        self.kill(r"\d \S+ +\S*/hvdrun bash -c", "-TSTP")
        cluster.await_true(lambda: self.states() == ["T"] * 4, 30, "four stopped tasks")
        self.kill(r"\d \S+ +\S*/hvdrun bash -c", "-CONT")
        cluster.await_true(lambda: self.states() == ["S"] * 4, 30, "four tasks that go on")

    def test_hvdrun_killed_leaves_nothing(self):
        job, _ = self.start_loop()
        self.kill(r"\d \S+ +\S*/hvdrun bash -c")
        output, _ = job.communicate(timeout=30)
        self.assertIn("code 137", output)
        self.await_nothing()


if __name__ == "__main__":
    slurm_test.main()
