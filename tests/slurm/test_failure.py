# SPDX-License-Identifier: Apache-2.0
"""What happens when a node loses power or a job is cancelled: a named cause in time, and nothing left."""

import os
import signal
import time
import unittest

import cluster
import slurm_test

_PROGRAM = """
import os, sys
sys.path.insert(0, os.environ["HVD_SOURCE"] + "/runtime/python")
import hvd.torch as hvd, torch, time
hvd.init()
print("up", hvd.rank(), flush=True)
try:
    while True:
        hvd.allreduce(torch.ones(4), name="x")
        time.sleep(0.01)
except Exception as error:
    print("lost", hvd.rank(), time.time(), error, flush=True)
"""


@unittest.skipUnless(
    slurm_test.HVDRUN.exists() and slurm_test.LIBHVD.exists(), "hvdrun or libhvd is not built"
)
class LoopTest(slurm_test.SlurmTest):
    """Starts a program that reduces without end, one rank per node."""

    def start_loop(self, nodes: int):
        program = self.write_script("loop.py", _PROGRAM)
        self.out = self.cluster.root / f"{self._testMethodName}.log"
        command = ["srun", "--mpi=none", "--kill-on-bad-exit=0", f"-N{nodes}", f"-o{self.out}"]
        job = self.cluster.start(
            [*command, slurm_test.HVDRUN, slurm_test.PYTHON, program],
            HVD_SOURCE=slurm_test.SOURCE,
            HVD_LIBRARY=slurm_test.LIBHVD,
        )
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait, 30)
        self.addCleanup(os.killpg, job.pid, signal.SIGKILL)
        cluster.await_true(lambda: self.text().count("up ") == nodes, 60, f"{nodes} ranks")
        return job

    def text(self) -> str:
        return self.out.read_text(errors="replace") if self.out.exists() else ""


class TestCancel(LoopTest):
    def test_scancel_leaves_nothing(self):
        self.start_loop(2)
        self.cluster.login(["scancel", "--user=root"])
        cluster.await_true(
            lambda: not self.cluster.processes("loop.py"), 20, "end of every process"
        )


class TestPower(LoopTest):
    def tearDown(self) -> None:
        """The cluster ends with its one test: Slurm takes up to a minute to end a job that lost a node."""

    def test_a_node_without_power_is_named_in_time(self):
        self.start_loop(3)
        crashed = time.time()
        self.cluster.crash("jz3")
        cluster.await_true(
            lambda: self.text().count("lost ") == 2, 15, "error on the two other ranks"
        )
        for line in self.text().splitlines():
            if line.startswith("lost "):
                self.assertLess(float(line.split()[2]) - crashed, 3.5, line)
                self.assertIn("jz3", line)
                self.assertIn("rank 2", line)


if __name__ == "__main__":
    slurm_test.main()
