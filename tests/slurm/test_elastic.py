# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs of several nodes: tasks and nodes are lost, and training goes on with the same values."""

import re
import sys
import time
import unittest

import cluster
import slurm_test

sys.path.insert(0, str(slurm_test.SOURCE / "tests" / "process"))

import jobs  # noqa: E402
from elastic_program import TRAINING, all_steps, steps  # noqa: E402


@unittest.skipUnless(
    slurm_test.HVDRUN.exists() and slurm_test.LIBHVD.exists(), "hvdrun or libhvd is not built"
)
class ElasticTest(slurm_test.SlurmTest):
    """Runs the training on three nodes of two tasks each; processes 4 and 5 are on the last."""

    def launch(self, *options: str, program: str = TRAINING, **more: str):
        path = self.write_script("training.py", jobs.PROLOGUE + program)
        allocation = ["salloc", "--no-kill", "-N3", "--ntasks-per-node=2"]
        self.out = self.cluster.root / f"{self._testMethodName}.out"
        command = " ".join(map(str, [slurm_test.HVDRUN, *options, slurm_test.PYTHON, path]))
        script = self.write_script(
            "job.sh", f"#!/bin/bash\n{command} > {self.out} 2> {self.out}.err\necho code $?\n"
        )
        job = self.cluster.start(
            [*allocation, script],
            PYTHONPATH=slurm_test.SOURCE / "runtime" / "python",
            HVD_LIBRARY=slurm_test.LIBHVD,
            HVD_TEST_SCRATCH=self.cluster.root,
            OMP_NUM_THREADS="1",
            **more,
        )
        self.addCleanup(job.stdout.close)
        return job

    def finish(self, job, began: float) -> jobs.Ended:
        output, _ = job.communicate(timeout=60)
        code = int(re.search(r"code (\d+)", output).group(1))
        ended = jobs.Ended(
            code, jobs.split_lines(self.text()), self.errors(), time.monotonic() - began
        )
        cluster.await_true(
            lambda: not self.cluster.processes("training.py"), 10, "the end of every process"
        )
        return ended

    def text(self) -> str:
        return self.out.read_text(errors="replace") if self.out.exists() else ""

    def errors(self) -> str:
        path = self.out.with_name(self.out.name + ".err")
        return path.read_text(errors="replace") if path.exists() else ""

    def train(self, *options: str, deaths: str = "", **more: str) -> jobs.Ended:
        began = time.monotonic()
        return self.finish(self.launch(*options, DEATHS=deaths, **more), began)

    def last_step(self, process: int) -> float:
        """When that process ended its last step."""
        lines = jobs.split_lines(self.text()).get(process, [])
        return [float(line.split()[3]) for line in lines if line.startswith("STEP ")][-1]


class TestTasks(ElasticTest):
    def test_a_spare_on_another_node_takes_the_place_of_a_task(self):
        undisturbed = self.train("--spares", "2")
        self.assertEqual(undisturbed.code, 0, undisturbed.text())
        expected = steps(undisturbed, 0)
        self.assertEqual(len(expected), 12, undisturbed.text())
        self.assertNotIn(4, undisturbed.lines)
        self.assertEqual(undisturbed.stderr, "", "srun ends by itself when spares are not needed")
        ended = self.train("--spares", "2", deaths="1:3:SIGKILL 0:7:raise")
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(all_steps(ended), expected, ended.text())
        self.assertIn(
            "rank 1 on host jz1 was lost: signal 9 (Killed); a spare takes its place", ended.stderr
        )
        self.assertIn("rank 0 on host jz1 was lost: exit code 1", ended.stderr)
        self.assertIn("a fault of its own", ended.stderr)
        self.assertRegex(ended.stderr, r"membership 3: 4 ranks again, \d+ ms after hvdrun knew")
        self.assertNotIn("srun: error", ended.stderr)

    def test_fewer_ranks_go_on_down_to_the_least(self):
        ended = self.train("--min-np", "4", "--grace", "5", deaths="5:3:SIGKILL 0:5:raise")
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(len(all_steps(ended)), 12, ended.text())
        self.assertIn("membership 3: 4 ranks again", ended.stderr)
        ended = self.train("--min-np", "6", "--grace", "5", deaths="2:4:raise")
        self.assertEqual(ended.code, 1, ended.text())
        self.assertRegex(
            ended.stderr,
            r"rank 2 on host jz2 failed: exit code 1; the job ends, as 5 processes are left, and it "
            r"needs 6 ranks",
        )

    def test_a_stopped_task_is_killed_and_replaced(self):
        ended = self.train(
            *("--spares", "2", "--loss-timeout", "3"),
            deaths="2:5:SIGSTOP",
            HVD_SILENCE_TIMEOUT_SECONDS="2",
        )
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(len(all_steps(ended)), 12, ended.text())
        self.assertIn("rank 2 on host jz2 has not come back within 3 s", ended.stderr)

    def test_a_lost_task_is_started_again_where_it_was(self):
        ended = self.train("--restarts", "2", deaths="1:3:SIGKILL 6:6:SIGKILL")
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(len(all_steps(ended)), 12, ended.text())
        for again in (6, 7):
            self.assertIn(
                f"rank 1 on host jz1 was lost: signal 9 (Killed); it is started again as {again}",
                ended.stderr,
            )

    def test_the_most_ranks_alone_make_a_job_elastic_too(self):
        ended = self.train("--max-np", "8", deaths="", STEPS="3")
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(len(all_steps(ended)), 3, ended.text())

    def test_what_cannot_be_is_refused(self):
        for command, words in (
            ((slurm_test.HVDRUN, "--spares", "6", "true"), "--spares 6 leaves no rank"),
            ((slurm_test.HVDRUN, "--min-np", "7", "true"), "--min-np 7 is more than the 6 ranks"),
            (("srun", slurm_test.HVDRUN, "--spares", "1", "true"), "without srun or mpirun"),
        ):
            with self.subTest(words=words):
                result = self.cluster.login(["salloc", "-N3", "--ntasks-per-node=2", *command])
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(words, result.stderr)

    def test_a_node_of_the_job_without_processes_makes_it_larger(self):
        program = TRAINING.replace(
            "one.wait()\n", "one.wait()\n        time.sleep(0.02)\n"
        ).replace("state.step < STEPS", "state.step < STEPS or hvd.size() < 6")
        options = ["--nodes", "2", "--min-np", "2", "--max-np", "6"]
        ended = self.finish(self.launch(*options, program=program), time.monotonic())
        self.assertEqual(ended.code, 0, ended.text())
        self.assertRegex(ended.stderr, r"membership 2: 6 ranks; rank 4 is process \d now")
        self.assertIn("ENDS 5 6", ended.lines[5], ended.text())

    def test_a_program_that_is_not_there_is_said(self):
        result = self.cluster.login(
            ["salloc", "-N2", "--ntasks-per-node=1", slurm_test.HVDRUN, "--spares", "1", "nowhere"]
        )
        self.assertEqual(result.returncode, 127, result.stderr)
        self.assertIn("nowhere", result.stderr)

    def test_nothing_outlives_hvdrun(self):
        job = self.launch("--spares", "2", STEPS="1000000")
        cluster.await_true(lambda: "STEP" in self.text(), 30, "the first step")
        self.cluster.login(["pkill", "-9", "-f", "hvdrun --spares"])
        self.finish(job, time.monotonic())

    def test_ctrl_c_ends_ranks_and_spares(self):
        job = self.launch("--spares", "2", "--grace", "3", STEPS="1000000")
        cluster.await_true(lambda: "STEP" in self.text(), 30, "the first step")
        self.cluster.login(["pkill", "-INT", "-f", "hvdrun --spares"])
        ended = self.finish(job, time.monotonic())
        self.assertEqual(ended.code, 130, ended.text())
        self.assertLess(ended.seconds, 15, ended.text())


class TestPower(ElasticTest):
    def tearDown(self) -> None:
        """The cluster ends with its one test: Slurm takes up to a minute to end a job that lost a node."""

    def test_the_spares_of_a_third_node_take_the_place_of_a_node_without_power(self):
        slow = TRAINING.replace("one.wait()\n", "one.wait()\n        time.sleep(0.02)\n")
        job = self.launch("--spares", "2", program=slow, STEPS="150")
        cluster.await_true(lambda: "STEP 20 " in self.text(), 30, "step 20")
        began = time.monotonic()
        # Nothing says goodbye: neither its kernel nor its processes.
        self.cluster.login(["ip", "link", "set", "v-jz2", "down"])
        self.cluster.crash("jz2")
        cluster.await_true(lambda: "membership 2" in self.errors(), 20, "the next membership")
        ended = self.finish(job, began)
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(len(all_steps(ended)), 150, ended.text())
        self.assertEqual(ended.lines[0][-1], "ENDS 0 4", ended.text())
        for rank in (2, 3):
            self.assertRegex(
                ended.stderr, rf"rank {rank} on host jz2 was lost: its node does not answer"
            )
        first = min(float(line.split()[-1]) for line in ended.lines[4] if line.startswith("STEP "))
        self.assertLess(first - began, 20, ended.text())
        print(f"power off to the next step: {first - began:.2f} s")


class TestDaemons(ElasticTest):
    def test_a_job_needs_no_daemon_of_slurm_while_it_runs(self):
        slow = TRAINING.replace("one.wait()\n", "one.wait()\n        time.sleep(0.02)\n")
        job = self.launch("--restarts", "1", program=slow, STEPS="100", DEATHS="3:50:SIGKILL")
        cluster.await_true(lambda: "STEP 10 " in self.text(), 30, "step 10")
        began = time.monotonic()
        self.cluster.login(["pkill", "-9", "-x", "slurmctld"])
        self.cluster.on("jz2", ["pkill", "-9", "-x", "slurmd"])
        cluster.await_true(lambda: "STEP 100 " in self.text(), 30, "the last step")
        self.assertIn("STEP 60 ", self.text())
        # The tools of Slurm wait for it at the end.
        self.cluster.login(["sh", "-c", "slurmctld -D </dev/null >/dev/null 2>&1 &"])
        ended = self.finish(job, began)
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(len(all_steps(ended)), 100, ended.text())
        self.assertIn(
            "rank 3 on host jz2 was lost: signal 9 (Killed); it is started again as 6", ended.stderr
        )

    def tearDown(self) -> None:
        """The cluster ends with its one test: a node of it has no slurmd."""


class TestReturn(ElasticTest):
    def tearDown(self) -> None:
        """Likewise."""

    def test_a_node_that_is_there_again_has_ranks_again(self):
        slow = TRAINING.replace("one.wait()\n", "one.wait()\n        time.sleep(0.02)\n").replace(
            "state.step < STEPS", "state.step < STEPS or hvd.size() < 6"
        )
        job = self.launch("--min-np", "2", program=slow, STEPS="20")
        cluster.await_true(lambda: "STEP 10 " in self.text(), 30, "step 10")
        began = time.monotonic()
        self.cluster.login(["ip", "link", "set", "v-jz2", "down"])
        cluster.await_true(lambda: "membership 2: 4 ranks" in self.errors(), 20, "its loss")
        self.cluster.login(["ip", "link", "set", "v-jz2", "up"])
        back = time.monotonic()
        cluster.await_true(lambda: "membership 3: 6 ranks" in self.errors(), 40, "its return")
        print(f"network back to six ranks: {time.monotonic() - back:.2f} s")
        ended = self.finish(job, began)
        self.assertEqual(ended.code, 0, ended.text())
        self.assertIn("node jz2 may be there again: 2 processes start there", ended.stderr)
        # Their lines are those of their numbers.
        for process, rank in ((6, 4), (7, 5)):
            self.assertEqual(ended.lines[process][-1], f"ENDS {rank} 6", ended.text())
        self.assertGreater(len(all_steps(ended)), 20)


if __name__ == "__main__":
    slurm_test.main()
