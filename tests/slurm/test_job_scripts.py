# SPDX-License-Identifier: Apache-2.0
"""Job headers and scripts of `hvdrun header`, and the example, as a real sbatch takes and runs them."""

import unittest

import slurm_test

# One line per task: rank, size, host, visible GPUs.
_SAY = "srun bash -c 'echo $SLURM_PROCID $SLURM_NTASKS $(hostname) ${CUDA_VISIBLE_DEVICES:-none}'\n"


class HeaderTest(slurm_test.SlurmTest):
    """What both sites share."""

    def run_header(self, *options) -> list[str]:
        """Submits the header with a line that says what each task sees; the lines by rank."""
        header = self.run_ok([slurm_test.HVDRUN, "header", *options])
        state, output = self.run_batch(self.write_script("job.sh", header + _SAY))
        self.assertEqual(state, "COMPLETED", header + output)
        lines = [line for line in output.splitlines() if line[:1].isdigit()]
        return sorted(lines, key=lambda line: int(line.split()[0]))


class TestJeanZay(HeaderTest):
    profile_name = "jz"

    def test_eight_gpus_are_two_nodes_of_four(self):
        lines = self.run_header("--site", "jean-zay", "--gpus", "8")
        self.assertEqual(lines, [f"{rank} 8 jz{1 + rank // 4} 0,1,2,3" for rank in range(8)])

    def test_sixteen_gpus_of_gpu_p2_are_two_nodes_of_eight(self):
        lines = self.run_header("--site", "jean-zay", "--partition", "gpu_p2", "--gpus", "16")
        self.assertEqual(
            lines, [f"{rank} 16 p2n{1 + rank // 8} 0,1,2,3,4,5,6,7" for rank in range(16)]
        )

    def test_a_constraint_with_an_ampersand_arrives(self):
        lines = self.run_header(
            "--site", "generic", "--nodes", "2", "--gpus", "4", "-C", "v100&v100-16g"
        )
        self.assertEqual(lines, [f"{rank} 4 jz{1 + rank // 2} 0,1" for rank in range(4)])

    def test_a_whole_script_gives_each_rank_its_gpu(self):
        say = 'echo "$SLURM_PROCID $HVD_LOCAL_DEVICE it\'s $1"'
        program = ["bash", "-c", say, "x", "a & b"]
        script = self.run_ok(
            [slurm_test.HVDRUN, "script", "--site", "jz", "--gpus", "8", "--", *program]
        )
        path = f"{slurm_test.HVDRUN.parent}:/usr/bin:/bin"
        state, output = self.run_batch(self.write_script("whole.sh", script), PATH=path)
        self.assertEqual(state, "COMPLETED", script + output)
        lines = sorted(line for line in output.splitlines() if "it's" in line)
        self.assertEqual(lines, [f"{rank} {rank % 4} it's a & b" for rank in range(8)])

    @unittest.skipUnless(
        slurm_test.BUILD == slurm_test.SOURCE / "build", "scripts/env.sh names another build folder"
    )
    def test_the_example_trains_over_four_nodes(self):
        example = slurm_test.SOURCE / "examples" / "slurm" / "digits.sbatch"
        state, output = self.run_batch(
            example, "-D", slurm_test.SOURCE, seconds=200, HVD_PYTHON=slurm_test.PYTHON
        )
        self.assertEqual(state, "COMPLETED", output)
        self.assertIn("4 ranks on 4 nodes", output)
        self.assertIn("final test accuracy", output)


class TestPizDaint(HeaderTest):
    profile_name = "daint"

    def test_two_nodes_have_one_rank_each(self):
        lines = self.run_header("--site", "piz-daint", "--nodes", "2")
        self.assertEqual(lines, ["0 2 nid00001 none", "1 2 nid00002 none"])


if __name__ == "__main__":
    slurm_test.main()
