# SPDX-License-Identifier: Apache-2.0
"""run_all.py over the doubles of the driver and of NCCL: that what waits for a GPU still runs.

Usage: run_all_test.py BUILD CUDA_DOUBLE NCCL_DOUBLE [unittest arguments]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD, CUDA_DOUBLE, NCCL_DOUBLE = sys.argv[1:4]
HERE = Path(__file__).resolve().parent
# Programs that need neither torch nor a GPU; the Python suite has the cases of torch.
PARTS = [
    "table",
    "table-3-ranks",
    "table-graphs",
    "table-staged",
    "steps",
    "steps-graphs",
    "steps-waits",
    "allreduce",
    "packing-25",
]
LIMIT_S = 200


def run(
    script: str, *arguments: str, gpus: str = "1", **more: str
) -> subprocess.CompletedProcess[str]:
    """One of the scripts on a machine with so many GPUs of the double."""
    command = [sys.executable, "-B"] if script.endswith(".py") else []
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(CUDA_DOUBLE, f"{folder}/libcuda.so.1")  # what libgpu_waits.so needs
        environment = {k: v for k, v in os.environ.items() if k != "HVD_SHARE_GPU"}
        environment.update(
            HVD_CUDA_LIBRARY=CUDA_DOUBLE,
            HVD_NCCL_LIBRARY=NCCL_DOUBLE,
            HVD_DOUBLE_GPUS=gpus,
            HVD_TEST_PYTHON=sys.executable,
            LD_LIBRARY_PATH=folder,
            **more,
        )
        return subprocess.run(
            [*command, str(HERE / script), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


def results(output: str) -> dict[str, str]:
    """The last column but two of the table at the end, by part."""
    table = output.rpartition("remark\n")[2].splitlines()[:-1]
    return {line.split()[0]: line.split()[1] for line in table}


class TestRun(unittest.TestCase):
    def test_every_program_passes_and_is_in_the_table(self) -> None:
        only = [word for part in PARTS for word in ("--only", part)]
        done = run("run_all.py", BUILD, "--quick", *only)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(results(done.stdout), {part: "passed" for part in PARTS}, done.stdout)
        for row in (
            "steps | host time to submit 161 gradients, us",
            "waits | of the program's thread in 3 steps | 0.0 ",
            "allreduce | 16384 bytes, us",
        ):
            self.assertIn(row, done.stdout)

    def test_figures_of_torch_are_printed(self) -> None:
        parts = ["torch-hooks", "torch-step", "torch-allreduce"]
        done = run("run_all.py", BUILD, "--quick", *[w for p in parts for w in ("--only", p)])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = results(done.stdout)
        if "no torch in " in done.stdout:
            self.skipTest("no torch here")
        self.assertEqual(found, {part: "passed" for part in parts}, done.stdout)
        self.assertRegex(done.stdout, r"step \| ResNet-50, 2 images, us \| [\d.]+ \| [\d.]+ \|")

    def test_programs_that_were_collected_run_elsewhere(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = run("collect.py", BUILD, folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            done = run("run.sh", folder, "--quick", "--only", "table", "--only", "steps-waits")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        wanted = {"table": "passed", "steps-waits": "passed"}
        self.assertEqual(results(done.stdout), wanted, done.stdout)

    def test_headers_that_came_with_a_torch_are_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for header in "nccl/include/nccl.h", "cu13/include/cuda.h", "cufft/include/cufft.h":
                path = Path(folder) / "nvidia" / header
                path.parent.mkdir(parents=True)
                path.touch()
            done = run("found.py", PYTHONPATH=folder)
            wanted = f"{folder}/nvidia/cu13,{folder}/nvidia/nccl"
        self.assertEqual(done.stdout.strip(), wanted, done.stderr)

    def test_without_a_gpu_it_is_a_skip(self) -> None:
        done = run("run_all.py", BUILD, "--quick", gpus="0")
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "^skipped: no GPU: error 100 of the driver")

    def test_what_finds_no_time_is_left_out(self) -> None:
        done = run("run_all.py", BUILD, "--quick", "--within", "0", "--only", "table")
        self.assertEqual(results(done.stdout), {"table": "left"}, done.stdout + done.stderr)

    def test_a_failing_part_fails_the_run_and_shows_its_output(self) -> None:
        with tempfile.TemporaryDirectory() as build:
            for folder in "launcher", "runtime":
                os.symlink(Path(BUILD) / folder, f"{build}/{folder}")
            program = Path(build) / "tests" / "gpu" / "gpu_table_rank"
            program.parent.mkdir(parents=True)
            program.write_text("#!/bin/sh\necho sum is wrong\nexit 1\n")
            program.chmod(0o755)
            done = run("run_all.py", build, "--quick", "--only", "table")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(results(done.stdout), {"table": "failed"})
        self.assertIn("sum is wrong", done.stdout)

    def test_an_unknown_part_names_those_that_there_are(self) -> None:
        done = run("run_all.py", BUILD, "--only", "no-such-part")
        self.assertEqual(done.returncode, 2)
        self.assertIn("table-3-ranks", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
