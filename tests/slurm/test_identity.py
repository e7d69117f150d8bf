# SPDX-License-Identifier: Apache-2.0
"""Who a process is, in every situation that Slurm makes: what hvdrun derives against where the task really runs."""

import collections
import re
import shutil
import unittest

import slurm_test

_PROBE = slurm_test.BUILD / "tests" / "process" / "bootstrap_probe"
# What hvdrun makes of the task, then the truth: the rank that srun gave and the kernel's name of the node.
_SAY = f'{slurm_test.HVDRUN} --dry-run true; echo "truth: $SLURM_PROCID $(hostname)"'
# A program that initialises MPI first, as one with mpi4py does.
_MPI_PROGRAM = """
import ctypes, os, sys
sys.path.insert(0, os.environ["HVD_SOURCE"] + "/runtime/python")
ctypes.CDLL(sys.argv[1]).MPI_Init(None, None)
import hvd
hvd.init()
print("size", hvd.size())
"""
_HOSTFILE = "jz1\n" * 4 + "jz2\n" * 4 + "jz3\n" * 2


@unittest.skipUnless(
    slurm_test.HVDRUN.exists() and _PROBE.exists(), f"hvdrun or {_PROBE} is not built"
)
class TestIdentity(slurm_test.SlurmTest):
    def setUp(self) -> None:
        self.say = self.write_script("say.sh", f"#!/bin/bash\n{_SAY}\n")

    def check_step(self, output: str, layout: list) -> None:
        """The output of one labelled step of `say.sh`, whose nodes hold `layout` ranks."""
        lines: dict = collections.defaultdict(list)
        for line in output.splitlines():
            label, _, text = line.partition(": ")
            if label.strip().isdigit():
                lines[int(label)].append(text)
        size = sum(layout)
        self.assertEqual(sorted(lines), list(range(size)), output)
        derived = {rank: self.derived("\n".join(text)) for rank, text in lines.items()}
        ranks_of = collections.defaultdict(list)
        for rank, facts in derived.items():
            self.assertEqual((facts["rank"], facts["size"]), (str(rank), str(size)), output)
            self.assertEqual(facts["truth_rank"], str(rank), output)
            ranks_of[facts["truth_host"]].append(rank)
        self.assertEqual(sorted(map(len, ranks_of.values())), sorted(layout), output)
        for ranks in ranks_of.values():
            for local, rank in enumerate(sorted(ranks)):
                facts = derived[rank]
                self.assertEqual(facts["local_rank"], str(local), output)
                self.assertEqual(facts["local_size"], str(len(ranks)), output)
            self.assertEqual(len({derived[rank]["node"] for rank in ranks}), 1, output)
        self.assertEqual(len({facts["node"] for facts in derived.values()}), len(layout), output)

    def derived(self, text: str) -> dict:
        patterns = (
            r"identity: rank (?P<rank>\d+) of (?P<size>\d+) by (?P<source>.+)",
            r"rank \d+: node (?P<node>\d+), local rank (?P<local_rank>\d+) of (?P<local_size>\d+)",
            r"truth: (?P<truth_rank>\d+) (?P<truth_host>\w+)",
        )
        facts = {}
        for pattern in patterns:
            found = re.search(pattern, text)
            self.assertIsNotNone(found, f"{pattern} in {text}")
            facts.update(found.groupdict() if found else {})
        return facts

    def in_salloc(self, options: list, script: str) -> list[str]:
        """Runs a bash script in a salloc shell; its output, split at lines "===="."""
        shell = self.write_script("shell.sh", f"#!/bin/bash\nset -e\n{script}\n")
        # Only the backfill scheduler starts a heterogeneous job: it may wait for a round of it.
        return self.run_ok(["salloc", "-Q", *options, shell], timeout=150).split("====\n")

    def test_steps_of_every_shape(self):
        hostfile = self.cluster.root / "hosts"
        hostfile.write_text(_HOSTFILE)
        for options, layout in (
            (["-N2", "-n4"], [2, 2]),
            (["-N2", "-n4", "--mpi=pmix"], [2, 2]),
            (["-N2", "-n4", "--mpi=pmi2"], [2, 2]),
            (["-N2", "-n4", "--mpi=cray_shasta"], [2, 2]),
            (["-N4", "-n16"], [10, 2, 2, 2]),
            (["-n10", "--distribution=arbitrary"], [4, 4, 2]),
            (["-N2", "-n4", "--distribution=cyclic"], [2, 2]),
            (["-N2", "-n6", "--distribution=plane=2"], [4, 2]),
            (["-N1", "-n2", self.say, ":", "-p", "gpu_p2", "-N1", "-n3"], [2, 3]),
        ):
            with self.subTest(options=options):
                hosts = {"SLURM_HOSTFILE": hostfile} if "-n10" in options else {}
                self.check_step(self.run_ok(["srun", "-Ql", *options, self.say], **hosts), layout)

    def test_steps_inside_a_job(self):
        sections = self.in_salloc(
            ["-N3", "-n6"],
            f"srun -l -N2 -n2 {self.say}; echo ====\n"
            f"srun -l --relative=1 -N1 -n2 {self.say}; echo ====\n"
            f"srun --overlap -N1 -n1 bash -c 'until [ -e overlap ]; do :; done' &\n"
            f"srun -l --overlap -N3 -n3 {self.say}; touch overlap; wait",
        )
        for section, layout in zip(sections, ([1, 1], [2], [1, 1, 1])):
            self.check_step(section, layout)

    def test_steps_of_a_heterogeneous_job(self):
        """Without --mpi=pmix: its server races over such a step before Slurm 24.11. A recorded one is a unit test."""
        sections = self.in_salloc(
            ["-N1", "-n2", ":", "-p", "gpu_p2", "-N1", "-n3"],
            f"srun -l --het-group=0,1 {self.say}; echo ====\n"
            f"srun -l --het-group=1 {self.say}; echo ====\n"
            f"srun -l {self.say}; echo ====\n"
            f"srun --het-group=0,1 {_PROBE}; echo ====\n"
            f"{slurm_test.HVDRUN} bash -c 'echo started $SLURM_PROCID $(hostname)'",
        )
        for section, layout in zip(sections, ([2, 3], [3], [2])):
            self.check_step(section, layout)
        self.assertEqual(sections[3].count("size=5"), 5, sections[3])
        self.assert_started(sections[4], ["jz1"] * 2 + ["p2n1"] * 3)

    def assert_started(self, output: str, hosts: list) -> None:
        """Lines "started RANK HOST", of one rank on each of `hosts`."""
        found = sorted(re.findall(r"started (\d+) (\w+)", output), key=lambda row: int(row[0]))
        self.assertEqual(found, [(str(rank), host) for rank, host in enumerate(hosts)], output)

    def test_shells_are_no_ranks(self):
        start = f"{slurm_test.HVDRUN} bash -c 'echo started $SLURM_PROCID $(hostname)'"
        batch = self.write_script("batch.sh", f"#!/bin/bash\n{start}\n")
        state, output = self.run_batch(batch, "-N2", "--ntasks-per-node=2")
        self.assertEqual(state, "COMPLETED", output)
        self.assert_started(output, ["jz1"] * 2 + ["jz2"] * 2)
        future = "SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0"
        sections = self.in_salloc(
            ["-N2", "-n2"],
            f"{start}; echo ====\n"
            f"env SLURM_STEP_ID=-6 SLURM_STEPID=-6 {future} {start}; echo ====\n"
            # What salloc runs at sites with LaunchParameters=use_interactive_step.
            f"srun --interactive --preserve-env {start}",
        )
        self.assertEqual(len(sections), 3)
        for section in sections:
            self.assert_started(section, ["jz1", "jz2"])

    def test_heterogeneous_batch_shell(self):
        script = self.write_script(
            "het.sh",
            "#!/bin/bash\n#SBATCH -N1 -n2\n#SBATCH hetjob\n#SBATCH -p gpu_p2 -N1 -n3\n"
            f"{slurm_test.HVDRUN} bash -c 'echo started $SLURM_PROCID $(hostname)'\n",
        )
        state, output = self.run_batch(script)
        self.assertEqual(state, "COMPLETED", output)
        self.assert_started(output, ["jz1"] * 2 + ["p2n1"] * 3)

    @unittest.skipUnless(shutil.which("script"), "script (bsdutils) gives no terminal")
    def test_pty_shell_uses_all_it_was_given(self):
        typed = (
            f"{slurm_test.HVDRUN} bash -c 'echo started $HVD_RANK $(hostname)';"
            f" srun --overlap -l --mpi=none -n1 {self.say}"
        )
        shell = self.write_script("typed.sh", f"#!/bin/bash\n{typed}\nexit 0\n")
        step = f"srun --mpi=pmix --pty -N1 -n1 --gres=gpu:4 {shell}"
        output = self.run_ok(["script", "-qec", step, "/dev/null"]).replace("\r", "")
        self.assert_started(output, ["jz1"] * 4)
        self.check_step(output[output.index("0: placement") :], [1])

    def test_what_an_outer_step_left_behind(self):
        def around(mpi: str, command: str):
            inner = f"salloc -Q -N2 -n4 {command}"
            return self.cluster.login(["srun", f"--mpi={mpi}", "-N1", "-n1", "bash", "-c", inner])

        for mpi in ("pmix", "pmi2"):
            with self.subTest(mpi=mpi):
                result = around(mpi, f"srun -l --mpi=none {self.say}")
                self.check_step(result.stdout, [2, 2])
        for mpi, inner in (("pmi2", "none"), ("pmix", "pmi2"), ("pmi2", "pmix")):
            with self.subTest(mpi=mpi, inner=inner):
                result = around(mpi, f"srun --mpi={inner} {_PROBE}")
                self.assertEqual(result.stdout.count("size=4"), 4, result.stderr)
        result = around("none", f"{slurm_test.HVDRUN} touch started")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("unset SLURM_STEP_ID", result.stderr)
        self.assertFalse((self.cluster.root / "started").exists())

    def test_variables_of_the_job_and_requests_are_not_believed(self):
        wrong = ["SLURM_NTASKS=64", "SLURM_NTASKS_PER_NODE=9", "SLURM_LAUNCH_NODE_IPADDR=192.0.2.1"]
        output = self.run_ok(["srun", "-N2", "-n4", "env", *wrong, _PROBE])
        self.assertEqual(output.count("size=4"), 4, output)
        output = self.run_ok(["srun", "-l", "-N2", "-n4", "env", *wrong, self.say])
        self.check_step(output, [2, 2])

    def test_a_container_without_slurm(self):
        """Neither scontrol nor slurm.conf, and another hostname: what an image leaves of the node."""
        inside = self.write_script(
            "inside.sh",
            "#!/bin/bash\nmount -t tmpfs none /etc/slurm && hostname box || exit 9\n"
            f"export PATH=/nowhere\n{_PROBE} && {slurm_test.HVDRUN} --dry-run true\n",
        )
        contained = ["unshare", "--mount", "--uts", inside]
        output = self.run_ok(["srun", "--mpi=none", "-N2", "-n4", *contained])
        self.assertEqual(output.count("size=4"), 4, output)
        self.assertEqual(sorted(set(re.findall(r"node=(\d)", output))), ["0", "1"])
        self.assertEqual(len(re.findall(r"identity: rank \d of 4 by Slurm step", output)), 4)
        self.assertNotIn("box", "".join(re.findall(r"command on (\w+)", output)))

    def test_a_container_that_passes_on_pmix_alone(self):
        inside = self.write_script(
            "bare.sh",
            f"#!/bin/bash\nunset ${{!SLURM*}}\n{_PROBE} && {slurm_test.HVDRUN} --dry-run true\n",
        )
        output = self.run_ok(["srun", "--mpi=pmix", "-N2", "-n4", inside])
        self.assertEqual(output.count("size=4"), 4, output)
        self.assertEqual(len(re.findall(r"identity: rank \d of \? by PMIx", output)), 4, output)

    @unittest.skipUnless(shutil.which("mpiexec.mpich"), "MPICH is not installed")
    def test_mpi_singletons_are_named(self):
        program = self.write_script("mpi.py", _MPI_PROGRAM)
        names = {"HVD_SOURCE": slurm_test.SOURCE, "HVD_LIBRARY": slurm_test.LIBHVD}
        command = [slurm_test.PYTHON, program, "libmpich.so.12"]
        result = self.cluster.login(["srun", "--mpi=none", "-N2", *command], **names)
        self.assertEqual(result.stdout, "size 2\n" * 2, result.stderr)
        self.assertEqual(result.stderr.count("use --mpi=pmix"), 1, result.stderr)
        self.assertIn("MPI_COMM_WORLD has 1 rank in this process", result.stderr)
        result = self.cluster.login(["srun", "--mpi=pmi2", "-N2", *command], **names)
        self.assertNotIn("use --mpi=pmix", result.stderr)

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "Open MPI is not installed")
    def test_an_open_mpi_of_one_is_no_launcher(self):
        program = self.write_script("mpi.py", _MPI_PROGRAM)
        names = {"HVD_SOURCE": slurm_test.SOURCE, "HVD_LIBRARY": slurm_test.LIBHVD}
        command = [slurm_test.HVDRUN, "-np", "2", slurm_test.PYTHON, program, "libmpi.so.40"]
        result = self.cluster.login(command, **names)
        self.assertEqual(result.stdout.count("size 2\n"), 2, result.stderr)
        self.assertIn("MPI_COMM_WORLD has 1 rank in this process", result.stderr)

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "Open MPI is not installed")
    def test_mpirun_in_an_allocation(self):
        mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
        output = self.run_ok(["salloc", "-Q", "-N2", "-n4", *mpirun, _PROBE])
        self.assertEqual(output.count("size=4"), 4, output)
        self.assertEqual(output.count("local=1/2"), 2, output)


if __name__ == "__main__":
    slurm_test.main()
