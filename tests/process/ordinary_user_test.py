# SPDX-License-Identifier: Apache-2.0
"""A user without rights, without a home that can be written, runs a job.

Usage: ordinary_user_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import jobs

NOBODY = 65534
WORKS = "hvd.init(); allreduce('x', 1 << 16); hvd.shutdown(); say('FINE', os.getuid())"


class OrdinaryUser(jobs.JobCase):
    """Of whom nothing is known but a number."""

    def setUp(self) -> None:
        super().setUp()
        # Copies: the build tree may lie where only its owner may look.
        self.folder = Path(tempfile.mkdtemp(prefix="hvdrun-user-"))
        self.addCleanup(shutil.rmtree, self.folder)
        hvdrun, libhvd = map(Path, jobs.arguments())
        shutil.copy(hvdrun, self.folder / "hvdrun")
        shutil.copy(libhvd, self.folder / "libhvd.so")
        shutil.copytree(jobs.ROOT / "runtime" / "python" / "hvd", self.folder / "hvd")
        self.folder.chmod(0o555)
        for path in self.folder.rglob("*"):
            path.chmod(0o555)

    def run_as_user(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command as nobody; as ourselves where we are ordinary too."""
        become = []
        if os.getuid() == 0:
            become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            become += ["--inh-caps=-all", "--no-new-privs"]
        environment = jobs.clean_environment(
            HVD_LIBRARY=str(self.folder / "libhvd.so"),
            PYTHONPATH=str(self.folder),
            PYTHONDONTWRITEBYTECODE="1",
            HVD_TEST_SCRATCH="/nowhere",
            **variables,
        )
        return subprocess.run(
            [*become, str(self.folder / "hvdrun"), *words],
            capture_output=True,
            text=True,
            timeout=jobs.LIMIT_S,
            cwd="/",
            env=environment,
            check=False,
        )

    def works(self, *options: str, **variables: str) -> None:
        done = self.run_as_user(
            "-np", "2", *options, sys.executable, "-c", jobs.PROLOGUE + WORKS, **variables
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("FINE"), 2, done.stdout + done.stderr)

    def test_home_cannot_be_written(self) -> None:
        self.works(HOME=str(self.folder))

    def test_home_is_not_there_over_two_nodes(self) -> None:
        self.works("--nodes", "2", HOME="/nowhere/at/all")

    def test_headers_need_no_home(self) -> None:
        done = self.run_as_user("header", "--site", "jean-zay", "--gpus", "8", HOME="/nowhere")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("#SBATCH --nodes=2", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
