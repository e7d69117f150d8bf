# SPDX-License-Identifier: Apache-2.0
"""Ranks that end after their GPU has reported a fault: hvdrun says so, of that rank alone.

Usage: gpu_faults_test.py HVDRUN FAKE_NVML [unittest arguments]
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import jobs

# The fault comes once hvdrun listens, which its ranks cannot see: they give it time.
PROGRAM = "sleep 2; [ $HVD_RANK = $VICTIM ] || sleep 30; exit 3"
XID_79 = "after its GPU GPU-bb reported Xid 79 (the GPU has fallen off the bus)"


class Faults(unittest.TestCase):
    def run_job(self, victim: int, *options: str) -> str:
        with tempfile.TemporaryDirectory(prefix="hvd-test-") as folder:
            Path(folder, "libnvidia-ml.so.1").symlink_to(sys.argv[2])
            job = subprocess.run(
                [sys.argv[1], "-np", "2", "--grace", "0", *options, "bash", "-c", PROGRAM],
                env=jobs.without_launchers(
                    CUDA_VISIBLE_DEVICES="GPU-aa,GPU-bb",
                    LD_LIBRARY_PATH=folder,
                    HVD_FAKE_NVML_FAULT="79",
                    VICTIM=str(victim),
                ),
                capture_output=True,
                text=True,
                timeout=jobs.LIMIT_S,
            )
            self.assertEqual(job.returncode, 3, job.stderr)
            return job.stderr

    def test_are_named_where_they_may_be_the_cause(self) -> None:
        said = rf"rank 1 on host \S+ failed first: exit code 3, {re.escape(XID_79)}"
        self.assertRegex(self.run_job(1), said)

    def test_of_other_gpus_are_not(self) -> None:
        self.assertNotIn("Xid", self.run_job(0))

    def test_are_named_in_an_elastic_job(self) -> None:
        self.assertIn(XID_79, self.run_job(1, "--min-np", "2"))


if __name__ == "__main__":
    arguments = [sys.argv[0], *sys.argv[3:]]
    unittest.main(argv=arguments, verbosity=2)
