# SPDX-License-Identifier: Apache-2.0
"""A libhvd whose build had no headers of GPUs: it says so, and does all else.

Usage: without_gpus_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import subprocess
import sys
import unittest

import jobs

REMEDY = "scripts/gpu_packages.sh brings them"


class WithoutGpus(jobs.JobCase):
    def test_tensors_on_gpus_are_refused_and_those_of_the_cpu_are_not(self) -> None:
        program = """
hvd.init()
rank = hvd.rank()
values = (ctypes.c_float * 4)()
address = ctypes.addressof(values)
tensor = api.tensor_struct(FLOAT32, (4,), source=address, target=address)
try:
    api.submit(Work(_lib.ALLREDUCE, "x"), [tensor], place=(_lib.CUDA, 0, 0))
except hvd.HvdError as failure:
    say("REFUSED", type(failure).__name__, failure)
allreduce("x")
say("DESCRIBED", "GPU" in hvd.describe())
"""
        for options in [], ["--nodes", "2"]:
            ended = self.run_job(["-np", "2", *options], program)
            self.assertEqual(ended.code, 0, ended.text())
            for rank in range(2):
                said = ended.line(rank, "REFUSED")
                begin = (
                    f"UnsupportedError rank {rank}: allreduce 'x': this build has no part for GPUs"
                )
                self.assertTrue(said.startswith(begin), said)
                self.assertIn(REMEDY, said)
                self.assertEqual(ended.line(rank, "DESCRIBED"), "False")

    def test_check_says_what_was_missing(self) -> None:
        done = subprocess.run(
            [jobs.arguments()[0], "check", "--build"],
            env=jobs.clean_environment(),
            capture_output=True,
            text=True,
            timeout=jobs.LIMIT_S,
            check=True,
        )
        lines = {line[:20].strip(): line for line in done.stdout.splitlines()}
        for part in "[ ] nccl", "[ ] GPU driver", "[ ] GPU kernels":
            self.assertIn(part, lines, done.stdout)
            self.assertIn(REMEDY, lines[part])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
