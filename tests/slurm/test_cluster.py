# SPDX-License-Identifier: Apache-2.0
"""The test cluster itself: what it promises to the tests that stand on it."""

import os
import pathlib
import unittest

import cluster
import slurm_test


class TestCluster(slurm_test.SlurmTest):
    def test_each_node_has_its_own_hostname(self):
        names = self.run_ok(["srun", "-N4", "hostname"]).split()
        self.assertEqual(sorted(names), ["jz1", "jz2", "jz3", "jz4"])

    def test_nodes_do_not_share_dev_shm(self):
        self.run_ok(["srun", "-w", "jz1", "touch", "/dev/shm/of_jz1"])
        self.assertEqual(self.run_ok(["srun", "-w", "jz2", "ls", "/dev/shm"]), "")
        self.assertFalse(os.path.exists("/dev/shm/of_jz1"))

    def test_nodes_reach_each_other(self):
        script = "exec 3<>/dev/tcp/jz2/6818 && echo reached"
        self.assertEqual(self.run_ok(["srun", "-w", "jz1", "bash", "-c", script]), "reached\n")

    def test_exit_code_goes_through(self):
        self.assertEqual(
            self.cluster.login(["srun", "-N2", "bash", "-c", "exit 37"]).returncode, 37
        )

    def test_tasks_see_the_gpus_of_their_node(self):
        seen = self.run_ok(
            ["srun", "-p", "gpu_p2", "-N1", "--gres=gpu:8", "printenv", "CUDA_VISIBLE_DEVICES"]
        )
        self.assertEqual(seen, "0,1,2,3,4,5,6,7\n")

    def test_pmix_and_pmi2_give_their_variables(self):
        pmix = self.run_ok(["srun", "--mpi=pmix", "-N2", "printenv", "PMIX_RANK"]).split()
        self.assertEqual(sorted(pmix), ["0", "1"])
        pmi2 = self.run_ok(["srun", "--mpi=pmi2", "-N2", "bash", "-c", "echo ${PMI_FD:+set}"])
        self.assertEqual(pmi2, "set\nset\n")

    def test_batch_job_runs_to_its_end(self):
        script = self.write_script(
            "three.sh", "#!/bin/bash\nsrun -n3 bash -c 'echo rank $SLURM_PROCID'\n"
        )
        state, output = self.run_batch(script, "-N3")
        self.assertEqual(state, "COMPLETED")
        self.assertEqual(sorted(output.split("\n"))[1:], ["rank 0", "rank 1", "rank 2"])

    def test_power_off_and_boot(self):
        self.cluster.crash("jz4")
        cluster.await_true(
            lambda: self.cluster.on("jz4", ["true"]).returncode != 0, 10, "jz4 is off"
        )
        self.cluster.boot("jz4")
        self.assertEqual(self.run_ok(["srun", "-w", "jz4", "hostname"]), "jz4\n")


class TestTeardown(unittest.TestCase):
    def test_stop_ends_every_process(self):
        with cluster.Cluster("daint") as room:
            marker = str(room.root)
            job = room.start(["srun", "-N4", "sleep", "1000"])
            cluster.await_true(lambda: len(room.processes("sleep 1000")) >= 5, 20, "four tasks")
        job.wait(10)
        job.stdout.close()
        alive = [p for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if marker in _text(p)]
        self.assertEqual(alive, [])
        self.assertFalse(os.path.exists(marker))


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    slurm_test.main()
