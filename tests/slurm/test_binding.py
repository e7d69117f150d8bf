# SPDX-License-Identifier: Apache-2.0
"""CPU masks of real steps under task/affinity, on nodes that declare the cores this machine has."""

import os
import unittest

import slurm_test

_PROBE = slurm_test.BUILD / "tests" / "process" / "bootstrap_probe"
_CPUS = len(os.sched_getaffinity(0))
# Rank, host, local rank and CPUs of each task, then what Slurm says that it did.
_SAY = (
    "echo $SLURM_PROCID $SLURMD_NODENAME $SLURM_LOCALID"
    " $(grep Cpus_allowed_list /proc/self/status | cut -f2) ${SLURM_CPU_BIND_TYPE:-unbound}"
)


def _cpu_set(text: str) -> set[int]:
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


@unittest.skipUnless(slurm_test.HVDRUN.exists(), "hvdrun is not built")
@unittest.skipUnless(_CPUS >= 2, "one CPU is not enough to bind anything")
class TestMasks(slurm_test.SlurmTest):
    profile_name = "cores"

    def masks(self, options: list, prefix=()) -> tuple[list[set[int]], set[str]]:
        """The mask of each rank, and the kinds of binding that Slurm names."""
        output = self.run_ok(["srun", *options, *prefix, "bash", "-c", _SAY])
        rows = sorted((line.split() for line in output.splitlines()), key=lambda row: int(row[0]))
        return [_cpu_set(row[3]) for row in rows], {row[4] for row in rows}

    def test_slurm_gives_each_task_a_core(self):
        masks, kinds = self.masks(["-N1", "-n2"])
        self.assertEqual(masks[0] & masks[1], set())
        self.assertEqual(kinds, {"mask_cpu:"})

    def test_the_nodes_are_what_this_machine_is(self):
        masks, _ = self.masks(["-N3", "-n3", f"-c{_CPUS}"])
        self.assertEqual([len(mask) for mask in masks], [_CPUS] * 3)

    def test_hvdrun_never_leaves_the_mask(self):
        for options in (
            ["-N2", "-n2"],
            ["-N2", "-n4"],
            ["-N1", "-n1", "-c2"],
            ["-N1", "-n2", "--hint=nomultithread"],
            ["-N1", "-n2", "--hint=nomultithread", "-c1", "--cpu-bind=cores"],
            ["-N1", "-n2", "--cpu-bind=sockets"],
            ["-N1", "-n2", "--cpu-bind=map_cpu:1,0"],
            ["-N1", "-n2", "--cpu-bind=mask_cpu:0x3,0x2"],
            ["-N1", "-n2", "--cpu-bind=none"],
            ["-N1", "-n4", "--overcommit"],
        ):
            with self.subTest(options=options):
                given, _ = self.masks(options)
                kept, _ = self.masks(options, [slurm_test.HVDRUN])
                for rank, (outer, inner) in enumerate(zip(given, kept)):
                    self.assertLessEqual(inner, outer, f"rank {rank}")

    def test_a_mask_of_its_own_is_left_to_the_rank(self):
        for binding in ("map_cpu:1,0", "mask_cpu:0x3,0x2"):
            with self.subTest(binding=binding):
                options = ["-N1", "-n2", f"--cpu-bind={binding}"]
                self.assertEqual(
                    self.masks(options)[0], self.masks(options, [slurm_test.HVDRUN])[0]
                )

    def test_a_shared_mask_is_divided(self):
        options = ["-N1", "-n2", "--exclusive", "--cpu-bind=none"]
        masks, _ = self.masks(options, [slurm_test.HVDRUN])
        self.assertEqual(masks[0] & masks[1], set())
        self.assertEqual(len(masks[0] | masks[1]), _CPUS)

    def test_more_ranks_than_cores_are_not_bound(self):
        masks, _ = self.masks(["-N1", "-n4", "--overcommit"], [slurm_test.HVDRUN])
        self.assertEqual(len({frozenset(mask) for mask in masks}), 1)
        command = ["srun", "-N1", "-n4", "--overcommit", slurm_test.HVDRUN, "--bind", "cores"]
        result = self.cluster.login([*command, "true"])
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("4 ranks share", result.stderr)


@unittest.skipUnless(slurm_test.HVDRUN.exists(), "hvdrun is not built")
@unittest.skipUnless(_CPUS == 2, "the expected CPUs are those of two cores")
class TestPolicies(slurm_test.SlurmTest):
    """What --bind and its like do in the tasks of a step."""

    profile_name = "cores"
    free = ("-N1", "-n2", "--exclusive", "--cpu-bind=none")

    def masks(self, options, *flags) -> list[str]:
        command = ["srun", *options, slurm_test.HVDRUN, *flags, "bash", "-c", _SAY]
        rows = sorted(line.split() for line in self.run_ok(command).splitlines())
        return [row[3] for row in rows]

    def fails(self, options, *flags) -> str:
        result = self.cluster.login(["srun", *options, slurm_test.HVDRUN, *flags, "true"])
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        return result.stderr

    def test_each_policy(self):
        for flags, masks in (
            (["--bind", "cores"], ["0", "1"]),
            (["--bind", "map:1:0"], ["1", "0"]),
            (["--bind", "map:0-1:1"], ["0-1", "1"]),
            (["--bind", "socket"], ["0-1", "0-1"]),
            (["--bind", "none"], ["0-1", "0-1"]),
            (["--bind", "cores", "--no-smt"], ["0", "1"]),
        ):
            with self.subTest(flags=flags):
                self.assertEqual(self.masks(self.free, *flags), masks)

    def test_a_map_stays_in_the_mask(self):
        bound = ("-N1", "-n2", "--cpu-bind=map_cpu:0,1")
        self.assertEqual(self.masks(bound, "--bind", "map:0:1"), ["0", "1"])
        self.assertIn("CPUs 1 are outside of the mask 0", self.fails(bound, "--bind", "map:1:0"))
        self.assertIn("1 CPU list for 2 ranks", self.fails(self.free, "--bind", "map:1"))

    def test_hints_of_slurm_are_kept(self):
        for hint in "nomultithread", "multithread":
            with self.subTest(hint=hint):
                self.assertEqual(self.masks(["-N1", "-n2", f"--hint={hint}"]), ["0", "1"])

    def test_every_task_reports_its_place(self):
        command = ["srun", *self.free, slurm_test.HVDRUN, "--report-bindings", "true"]
        result = self.cluster.login(command)
        lines = sorted(line for line in result.stderr.splitlines() if "[" in line)
        self.assertEqual(len(lines), 2, result.stderr)
        self.assertRegex(lines[0], r"hvdrun: rank 0 on c\d: no GPU, .*cores 0 \[B/\.\]")
        self.assertRegex(lines[1], r"hvdrun: rank 1 on c\d: no GPU, .*cores 1 \[\./B\]")

    def test_a_shell_hands_the_flags_to_its_tasks(self):
        script = self.write_script(
            "flags.sh",
            "#!/bin/bash\n"
            f"{slurm_test.HVDRUN} --bind map:1:0 --report-bindings --mem-bind local bash -c "
            f"'{_SAY}'\n",
        )
        state, output = self.run_batch(script, "-N1", "-n2", "--exclusive")
        self.assertEqual(state, "COMPLETED", output)
        self.assertEqual(output.count(" no GPU, "), 2, output)
        rows = sorted(line.split() for line in output.splitlines() if "[" not in line[1:])
        self.assertEqual([row[4] for row in rows], ["1", "0"], output)


@unittest.skipUnless(slurm_test.HVDRUN.exists(), "hvdrun is not built")
class TestGpus(slurm_test.SlurmTest):
    """GPUs by Slurm's numbers. Its device files are plain files here: what needs a device cgroup is not run."""

    profile_name = "jz"
    say = 'echo "$SLURM_PROCID $HVD_LOCAL_DEVICE $HVD_GPU_ID $CUDA_VISIBLE_DEVICES"'

    def step(self, *options, flags=()):
        command = ["srun", "-N1", *options, slurm_test.HVDRUN, *flags, "bash", "-c", self.say]
        result = self.cluster.login(command)
        self.assertEqual(result.returncode, 0, result.stderr)
        return sorted(result.stdout.splitlines()), result.stderr

    def test_each_task_has_its_own_and_sees_all(self):
        lines, _ = self.step("-n4", "--gres=gpu:4")
        self.assertEqual(lines, [f"{r} {r} slurm-gpu-{r} 0,1,2,3" for r in range(4)])

    def test_each_task_sees_its_own_alone(self):
        lines, _ = self.step("-n4", "--gres=gpu:4", flags=["--gpu-visibility", "one"])
        self.assertEqual(lines, [f"{r} 0 slurm-gpu-{r} {r}" for r in range(4)])

    def test_idle_gpus_are_told_once(self):
        _, errors = self.step("-n2", "--gres=gpu:4")
        self.assertEqual(errors.count("warning: 2 of 4 GPUs stay idle"), 1, errors)

    def test_gpus_that_tasks_hide_from_each_other_are_told_once(self):
        lines, errors = self.step("-n4", "--gpus-per-task=1")
        self.assertEqual(
            [line.split()[:3] for line in lines],
            [[str(r), "0", f"slurm-gpu-{r}"] for r in range(4)],
        )
        self.assertEqual(errors.count("hides the GPUs of a node's 4 ranks"), 1, errors)

    @unittest.skipUnless(_PROBE.exists(), f"{_PROBE} is not built")
    def test_one_gpu_for_two_tasks_is_refused_by_both(self):
        options = ["--mpi=none", "-N1", "-n2", "--gres=gpu:4", "--gpu-bind=map_gpu:1,1"]
        result = self.cluster.login(["srun", *options, slurm_test.HVDRUN, _PROBE])
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("ranks 0 and 1 on"), 2, result.stderr)
        self.assertIn("both chose GPU slurm-gpu-1", result.stderr)


if __name__ == "__main__":
    slurm_test.main()
