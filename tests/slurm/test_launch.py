# SPDX-License-Identifier: Apache-2.0
"""Every way to start ranks on a cluster: with and without hvdrun, under each MPI type, in a batch job and in salloc."""

import json
import re
import shutil
import subprocess
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
_STARTS_AGAIN = """
import os, sys, time
import hvd
rank = int(os.environ["SLURM_PROCID"])
note = sys.argv[1] + "." + os.environ["SLURM_STEP_ID"] + "." + os.environ["SLURM_JOB_ID"]
if not os.environ.get("HVD_RENDEZVOUS_DIR"):  # PMIx alone: its server ends a step in which a fence times out.
    if rank != 3:
        try:
            hvd.init(start_timeout=1)
            raise SystemExit("started without rank 3")
        except hvd.DeadlineError:
            open(f"{note}.{rank}", "w").close()
    # A rank whose first start is not over yet would end the second one of the others.
    while not all(os.path.exists(f"{note}.{other}") for other in range(3)):
        time.sleep(0.01)
for start in range(3):
    hvd.init(start_timeout=60)
    assert hvd.size() == 4, hvd.size()
    hvd.barrier()
    said = hvd.describe().split("found each other by", 1)[1].splitlines()[0]
    hvd.shutdown()
how = "by pmix" if "pmix" in said else "by another way"
os.write(1, f"FINE {how}\\n".encode())
"""


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

    def test_a_process_starts_again_and_after_a_start_that_timed_out(self):
        program = self.write_script("again.py", _STARTS_AGAIN)
        library = slurm_test.BUILD / "runtime" / "c" / "libhvd.so"
        names = {"HVD_LIBRARY": library, "PYTHONPATH": slurm_test.SOURCE / "runtime" / "python"}
        nowhere = {"HVD_RENDEZVOUS_DIR": "/proc/nowhere"}  # Leaves PMIx as the only way.
        for mpi, more in [*((mpi, {}) for mpi in _MPI_TYPES), ("pmix", nowhere)]:
            with self.subTest(mpi=mpi, more=more):
                ranks = ["python3", "-B", program, f"{program}.gave-up"]
                steps = ["srun", f"--mpi={mpi}", "-N2", "-n4", *ranks]
                output = self.run_ok(steps, **{k: str(v) for k, v in {**names, **more}.items()})
                self.assertEqual(output.count("FINE"), 4, output)
                self.assertEqual(output.count("by pmix"), 4 if more else 0, output)

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

    def test_np_in_a_task_of_several_is_refused(self):
        hvdrun = [slurm_test.HVDRUN, "-np", "2"]
        result = self.cluster.login(["srun", "-N2", "-n4", *hvdrun, _PROBE])
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(
            result.stderr, r"-np 2: this process is rank \d of 4 already \(by Slurm step\)"
        )
        self.assertIn("--nested", result.stderr)
        self.assertNotIn("size=", result.stdout)
        output = self.run_ok(["srun", "-N2", "-n2", *hvdrun, "--nested", _PROBE])
        self.assertEqual(output.count("size=2"), 4, output)
        output = self.run_ok(["srun", "-n1", *hvdrun, _PROBE])
        self.assertEqual(output.count("size=2"), 2, output)

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

    def test_variables_reach_the_ranks_whatever_srun_exports(self):
        command = [slurm_test.HVDRUN, "-x", "A=b c", "bash", "-c", "echo [$A] $MINE"]
        for export in ("ALL", "NONE", "PATH"):
            with self.subTest(export=export):
                output = self.run_ok(
                    ["salloc", "-N2", "-n2", *command], SLURM_EXPORT_ENV=export, MINE="mine"
                )
                self.assertEqual(output.count("[b c]"), 2, output)
                self.assertEqual(output.count("mine"), 2 if export == "ALL" else 0, output)

    def test_what_a_site_wants_of_srun_reaches_the_step(self):
        site = self.cluster.root / "lab.json"
        network = {"name": "SLURM_NETWORK", "value": "lab_net", "when": "nodes>1"}
        needs_it = {"name": "NEEDS_IT", "value": "yes", "when": "nodes>1 and step_network=lab_net"}
        env = [one | {"why": "faster", "source": "wiki"} for one in (network, needs_it)]
        site.write_text(json.dumps(_SITE | {"srun_flags": ["--chdir=/tmp"], "env": env}))
        show = [slurm_test.HVDRUN, "--site", site, "bash", "-c", "echo [$PWD $NEEDS_IT]"]
        with self.subTest("salloc"):
            self.assertEqual(self.run_ok(["salloc", "-N2", "-n2", *show]).count("[/tmp yes]"), 2)
        with self.subTest("a task that cannot know it"):
            done = self.cluster.login(["srun", "-N2", "-n2", *show])
            warnings = re.findall("warning: .*NEEDS_IT left unset.*", done.stderr)
            self.assertEqual(len(warnings), 1, done.stderr)
            self.assertIn("export SLURM_NETWORK=lab_net", warnings[0])
            self.assertNotIn("yes]", done.stdout)
        with self.subTest("a task that knows it"):
            output = self.run_ok(["srun", "-N2", "-n2", *show], SLURM_NETWORK="lab_net")
            self.assertEqual(output.count(" yes]"), 2, output)

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
            inner = [slurm_test.HVDRUN, "-np", "1", "--nested", "bash", "-c", show]
            output = self.run_ok(["srun", "-N2", "-n2", *hvdrun, *inner])
            self.assertEqual(len(set(re.findall(r"\[127\.0\.0\.1 2\d{4}\]", output))), 2, output)
        if shutil.which("mpirun.openmpi") is None:
            return
        with self.subTest("of the daemons of mpirun"):
            mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
            output = self.run_ok(
                ["salloc", "-Q", "-N2", "-n4", *mpirun, *hvdrun, "bash", "-c", show]
            )
            self.assertEqual(output.count("[ ]"), 4, output)

    def test_torch_distributed_alone_is_one_world(self):
        if (
            subprocess.run(
                [slurm_test.PYTHON, "-c", "import torch"], capture_output=True
            ).returncode
            != 0
        ):
            self.skipTest(f"{slurm_test.PYTHON} has no torch")
        program = (
            "import torch, torch.distributed as dist; dist.init_process_group('gloo'); "
            "given = torch.ones(1); dist.all_reduce(given); print('sum', int(given))"
        )
        command = [slurm_test.HVDRUN, "--site", "generic", slurm_test.PYTHON, "-c", program]
        for way in (["srun", "-N2", "-n2"], ["salloc", "-N2", "-n2"]):
            with self.subTest(way=way[0]):
                self.assertEqual(self.run_ok([*way, *command]).count("sum 2"), 2)

    def test_a_step_inside_a_task_has_ranks_of_its_own(self):
        nested = "srun --overlap -N2 -n2 " + str(_PROBE)
        outer = ["salloc", "-Q", "-N2", "-n2", "srun", "-N1", "-n1", "--overlap"]
        output = self.run_ok([*outer, slurm_test.HVDRUN, "bash", "-c", nested])
        self.assertEqual(output.count("size=2"), 2, output)

    def test_digits_over_four_nodes(self):
        output = self.run_ok(["srun", "-N4", slurm_test.HVDRUN, _DIGITS], timeout=120)
        self.assertIn("4 ranks on 4 nodes", output)
        self.assertIn("final test accuracy", output)


if __name__ == "__main__":
    slurm_test.main()
