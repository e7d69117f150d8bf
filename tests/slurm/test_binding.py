# SPDX-License-Identifier: Apache-2.0
"""CPU masks of real steps under task/affinity, on nodes that declare the cores this machine has."""

import os
import unittest

import slurm_test

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


if __name__ == "__main__":
    slurm_test.main()
