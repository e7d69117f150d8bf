# SPDX-License-Identifier: Apache-2.0
"""Every way to start ranks on a cluster: with and without hvdrun, under each MPI type, in a batch job and in salloc."""

import json
import re
import shutil
import unittest

import slurm_test

_PROBE = slurm_test.BUILD / "tests" / "process" / "bootstrap_probe"
_DIGITS = slurm_test.BUILD / "examples" / "digits"
_SITE = {
    "id": "lab",
    "name": "Lab",
    "provenance": {"wiki": {"source": "wiki", "date": "2026-10", "mark": "documented"}},
    "source": "wiki",
    "partitions": [],
    "gres_style": "none",
    "env": [],
    "bootstrap_if": "hsn9,eth0",
    "master_addr_suffix": "i",
}
_MPI_TYPES = ("none", "pmi2", "pmix")


@unittest.skipUnless(_PROBE.exists(), f"{_PROBE} is not built")
class TestPlainSrun(slurm_test.SlurmTest):
    """No launcher: the library finds the other ranks by itself."""

    def ranks(self, text: str) -> list[dict]:
        rows = [
            dict(re.findall(r"(\w+)=('[^']*'|\S+)", line))
            for line in text.splitlines()
            if "rank=" in line
        ]
        return sorted(rows, key=lambda row: int(row["rank"]))

    def assert_world(self, text: str, size: int) -> list[dict]:
        rows = self.ranks(text)
        self.assertEqual([row["rank"] for row in rows], [str(r) for r in range(size)], text)
        self.assertEqual({row["size"] for row in rows}, {str(size)}, text)
        return rows

    def test_each_mpi_type(self):
        for mpi in _MPI_TYPES:
            with self.subTest(mpi=mpi):
                self.assert_world(self.run_ok(["srun", f"--mpi={mpi}", "-N2", "-n4", _PROBE]), 4)

    def test_uneven_steps(self):
        for mpi in _MPI_TYPES:
            with self.subTest(mpi=mpi):
                rows = self.assert_world(
                    self.run_ok(["srun", f"--mpi={mpi}", "-N3", "-n7", _PROBE]), 7
                )
                locals_ = [row["local"] for row in rows]
                self.assertEqual(locals_, ["0/3", "1/3", "2/3", "0/2", "1/2", "0/2", "1/2"])

    def test_batch_shell_is_not_a_rank(self):
        script = self.write_script("shell.sh", f"#!/bin/bash\n{_PROBE}\n")
        state, output = self.run_batch(script, "-N2", "--ntasks-per-node=2")
        self.assertEqual(state, "FAILED")
        self.assertIn("srun", output)

    def test_requeued_job_meets_again(self):
        script = self.write_script(
            "again.sh",
            f"#!/bin/bash\nsrun --mpi=none {_PROBE}\n"
            '[ -z "$SLURM_RESTART_COUNT" ] && scontrol requeue $SLURM_JOB_ID && sleep 60\nexit 0\n',
        )
        state, output = self.run_batch(
            script, "-N2", "--ntasks-per-node=1", "--requeue", seconds=90
        )
        self.assertEqual(state, "COMPLETED", output)
        self.assertEqual(len(self.ranks(output)), 4, output)


@unittest.skipUnless(
    slurm_test.HVDRUN.exists() and _DIGITS.exists(), "hvdrun or digits is not built"
)
class TestHvdrun(slurm_test.SlurmTest):
    def test_srun_hvdrun_under_each_mpi_type(self):
        for mpi in _MPI_TYPES:
            with self.subTest(mpi=mpi):
                command = ["srun", f"--mpi={mpi}", "-N2", "-n4", slurm_test.HVDRUN, _PROBE]
                self.assertEqual(self.run_ok(command).count("size=4"), 4)

    def test_srun_gives_back_the_exit_code(self):
        result = self.cluster.login(["srun", "-N2", slurm_test.HVDRUN, "bash", "-c", "exit 9"])
        self.assertEqual(result.returncode, 9, result.stderr)

    def test_hvdrun_in_a_batch_shell(self):
        script = self.write_script("job.sh", f"#!/bin/bash\n{slurm_test.HVDRUN} {_PROBE}\n")
        state, output = self.run_batch(script, "-N2", "--ntasks-per-node=2")
        self.assertEqual(state, "COMPLETED", output)
        self.assertEqual(output.count("size=4"), 4, output)

    def test_hvdrun_in_salloc(self):
        output = self.run_ok(["salloc", "-N2", "-n2", slurm_test.HVDRUN, _PROBE])
        self.assertEqual(output.count("size=2"), 2, output)

    def test_dry_run_starts_nothing(self):
        output = self.run_ok(
            ["salloc", "-N2", "-n2", slurm_test.HVDRUN, "--dry-run", "touch", "started"]
        )
        self.assertIn("srun", output)
        self.assertFalse((self.cluster.root / "started").exists())

    def test_np_over_several_nodes_says_which_stay_idle(self):
        hvdrun = [slurm_test.HVDRUN, "-np", "2"]
        said = r"warning: -np: all 2 ranks start on this machine \(\S+\), and the job has 2 nodes"
        salloc = ["salloc", "-Q", "-N2", "-n2"]
        result = self.cluster.login([*salloc, *hvdrun, _PROBE])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(re.findall(said, result.stderr)), 1, result.stderr)
        self.assertRegex(self.run_ok([*salloc, *hvdrun, "--dry-run", _PROBE]), said)
        for quiet in ([*salloc, *hvdrun, "--nodes", "1"], ["salloc", "-Q", "-N1", "-n2", *hvdrun]):
            result = self.cluster.login([*quiet, _PROBE])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("-np:", result.stderr)

    def test_a_program_that_does_not_exist(self):
        result = self.cluster.login(["srun", "-N1", slurm_test.HVDRUN, "/no/such/program"])
        self.assertEqual(result.returncode, 127, result.stderr)

    def test_ranks_meet_where_the_site_says(self):
        site = self.cluster.root / "lab.json"
        site.write_text(json.dumps(_SITE))
        names = "HVD_BOOTSTRAP_INTERFACE NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME MASTER_ADDR"
        show = "echo " + " ".join(f"${name}" for name in names.split())
        command = [slurm_test.HVDRUN, "--site", site, "bash", "-c", f"{show} $MASTER_PORT"]
        for way in (["srun", "-N2", "-n4"], ["salloc", "-N2", "-n4"]):
            with self.subTest(way=way[0]):
                lines = self.run_ok([*way, *command]).splitlines()
                self.assertEqual(len(lines), 4, lines)
                for line in lines:
                    self.assertRegex(line, r"eth0 eth0 eth0 jz1i 2\d{4}$")
                self.assertEqual(len({line.split()[-1] for line in lines}), 1, lines)
        with self.subTest("what the user set stays"):
            output = self.run_ok(["srun", "-N2", "-n2", *command], MASTER_ADDR="mine")
            self.assertEqual(output.count("eth0 eth0 eth0 mine 2"), 2, output)
        with self.subTest("one node"):
            line = self.run_ok(["srun", "-N1", "-n1", *command])
            self.assertRegex(line, r"^jz1 2\d{4}$")
        with self.subTest("the library finds rank 0"):
            output = self.run_ok(["srun", "-N2", "-n4", slurm_test.HVDRUN, "--site", site, _PROBE])
            self.assertEqual(output.count("size=4"), 4, output)
        with self.subTest("--dry-run says it before"):
            dry = [slurm_test.HVDRUN, "--site", site, "--dry-run", "true"]
            output = self.run_ok(["salloc", "-N2", "-n2", *dry])
            self.assertRegex(output, r"MASTER_ADDR=jz1i +site lab: .*master_addr_suffix: i")
            self.assertRegex(output, r"MASTER_PORT= +default: each task makes it")

    def test_ranks_take_no_master_of_another_step(self):
        site = self.cluster.root / "lab.json"
        site.write_text(json.dumps(_SITE))
        show = "echo [$MASTER_ADDR $MASTER_PORT]"
        hvdrun = [slurm_test.HVDRUN, "--site", site]
        with self.subTest("of another job"):
            old = {"HVD_MASTER_OF": "99999.0/old:1", "MASTER_ADDR": "old", "MASTER_PORT": "1"}
            for way in (["srun", "-N2", "-n2"], ["salloc", "-N2", "-n2"]):
                lines = self.run_ok([*way, *hvdrun, "bash", "-c", show], **old).splitlines()
                self.assertEqual(len(lines), 2, lines)
                for line in lines:
                    self.assertRegex(line, r"\[jz\di 2\d{4}\]$")
        with self.subTest("of the task around them"):
            inner = [slurm_test.HVDRUN, "-np", "1", "bash", "-c", show]
            output = self.run_ok(["srun", "-N2", "-n2", *hvdrun, *inner])
            self.assertEqual(output.count("[ ]"), 2, output)
        if shutil.which("mpirun.openmpi") is None:
            return
        with self.subTest("of the daemons of mpirun"):
            mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
            output = self.run_ok(
                ["salloc", "-Q", "-N2", "-n4", *mpirun, *hvdrun, "bash", "-c", show]
            )
            self.assertEqual(output.count("[ ]"), 4, output)

    def test_digits_over_four_nodes(self):
        output = self.run_ok(["srun", "-N4", slurm_test.HVDRUN, _DIGITS], timeout=120)
        self.assertIn("4 ranks on 4 nodes", output)
        self.assertIn("final test accuracy", output)


if __name__ == "__main__":
    slurm_test.main()
