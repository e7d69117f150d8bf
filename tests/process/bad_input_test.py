# SPDX-License-Identifier: Apache-2.0
"""What the surroundings may lack or get wrong: one clear sentence, or it simply works.

Usage: bad_input_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys

import jobs

WORKS = "hvd.init(); allreduce('x', 1 << 16); hvd.shutdown(); say('FINE')"
FAILS = """
try:
    hvd.init()
except hvd.HvdError as failure:
    say("FAILED", str(failure).replace("\\n", " "))
"""


class Surroundings(jobs.JobCase):
    """Limits and mounts that do not matter here."""

    def run_in(self, *prefix: str) -> None:
        command = [*prefix, jobs.arguments()[0], "-np", "2", "--prefix", sys.executable, "-c"]
        done = subprocess.run(
            [*command, jobs.PROLOGUE + WORKS],
            capture_output=True,
            text=True,
            timeout=jobs.LIMIT_S,
            env=jobs.clean_environment(HVD_TEST_SCRATCH="/tmp"),
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("FINE"), 2)

    def test_no_locked_memory(self) -> None:
        self.run_in("sh", "-c", 'ulimit -l 0; exec "$@"', "sh")

    def test_dev_shm_small_or_missing(self) -> None:
        unshare = [shutil.which("unshare") or "unshare", "-rm"]
        if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("mount name spaces are not allowed here")
        for options in "size=64k", "size=4k,mode=0555":
            with self.subTest(options=options):
                mount = f'mount -t tmpfs -o {options} none /dev/shm && exec "$@"'
                self.run_in(*unshare, "sh", "-c", mount, "sh")


class Stores(jobs.JobCase):
    """A rank that is pointed at the wrong place."""

    def fails_with(self, text: str, **variables: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", jobs.PROLOGUE + FAILS],
            capture_output=True,
            text=True,
            timeout=jobs.LIMIT_S,
            env=jobs.clean_environment(
                HVD_TEST_SCRATCH="/tmp", HVD_START_TIMEOUT_SECONDS="1", **variables
            ),
            check=False,
        )
        self.assertIn("FAILED", done.stdout, done.stderr)
        self.assertIn(text, done.stdout)

    RANK = {"HVD_RANK": "0", "HVD_SIZE": "2", "HVD_LOCAL_RANK": "0", "HVD_LOCAL_SIZE": "2"}

    def test_a_foreign_service_answers(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as service:
            address = f"127.0.0.1:{service.getsockname()[1]}"
            self.fails_with(address, HVD_STORE=address, HVD_JOB_KEY="0" * 64, **self.RANK)

    def test_the_key_is_missing_or_none(self) -> None:
        store = {"HVD_STORE": "127.0.0.1:1", **self.RANK}
        self.fails_with("HVD_JOB_KEY is not; start the program with hvdrun", **store)
        self.fails_with("HVD_JOB_KEY", HVD_JOB_KEY="secret", **store)


if __name__ == "__main__":
    jobs.main()
