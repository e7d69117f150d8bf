# SPDX-License-Identifier: Apache-2.0
"""What every test on the cluster shares: one cluster per class, paths of the build tree, skipping with 77."""

import os
import pathlib
import sys
import unittest

import cluster

SOURCE = pathlib.Path(os.environ.get("HVD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", SOURCE / "build"))
HVDRUN = BUILD / "launcher" / "hvdrun"
LIBHVD = BUILD / "runtime" / "c" / "libhvd.so"
PYTHON = sys.executable


class SlurmTest(unittest.TestCase):
    """Tests against one running cluster of `profile_name`."""

    profile_name = "jz"
    maxDiff = None

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = cluster.Cluster(cls.profile_name)
        cls.addClassCleanup(cls.cluster.stop)

    def tearDown(self) -> None:
        # A test leaves no job behind for the next one.
        if self.cluster.login(["squeue", "-h", "-o", "%i"]).stdout.strip():
            self.cluster.login(["scancel", "--user=root"])
            cluster.await_true(
                lambda: not self.cluster.login(["squeue", "-h"]).stdout.strip(), 30, "empty queue"
            )

    def run_ok(self, command: list, timeout: float = 60, **env) -> str:
        """Runs on the login node, demands exit code 0, gives stdout."""
        result = self.cluster.login(command, timeout=timeout, **env)
        self.assertEqual(
            result.returncode, 0, f"{command}\nstdout: {result.stdout}\nstderr: {result.stderr}"
        )
        return result.stdout

    def write_script(self, name: str, text: str) -> pathlib.Path:
        """A script in the cluster's shared folder."""
        path = self.cluster.root / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def run_batch(self, script, *options, seconds: float = 60, **env) -> tuple[str, str]:
        """Submits a script and waits for its end: final state and output."""
        output = self.cluster.root / f"{self._testMethodName}.out"
        job = self.cluster.submit("-o", output, "--open-mode=append", *options, script, **env)
        state = self.cluster.await_job(job, seconds)
        return state, output.read_text(errors="replace") if output.exists() else ""


def main() -> None:
    reason = cluster.why_unavailable()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
