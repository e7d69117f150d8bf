# SPDX-License-Identifier: Apache-2.0
"""What the surroundings may lack or get wrong: one clear sentence, or it simply works.

Usage: bad_input_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import runpy
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


def numbers_that_fail_start() -> dict[str, tuple[int, int]]:
    """The settings of the table whose wrong numbers fail init(), with their ranges."""
    table = jobs.ROOT / "runtime" / "python" / "hvd" / "_core" / "setting_rows.py"
    rows = runpy.run_path(str(table))["ROWS"]
    return {name: (low, high) for name, _, low, high, _, _, _, fails, *_ in rows if fails}


class Variables(jobs.JobCase):
    """Variables with a slip in them."""

    def run_two(self, body: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [jobs.arguments()[0], "-np", "2", sys.executable, "-c", jobs.PROLOGUE + body]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=jobs.LIMIT_S,
            env=jobs.clean_environment(HVD_TEST_SCRATCH="/tmp", **variables),
            check=False,
        )

    def test_a_wrong_number_fails_init_as_lint_says(self) -> None:
        checked = numbers_that_fail_start()
        self.assertGreater(len(checked), 10)
        for name, (lowest, highest) in checked.items():
            for value in ("64MB", "0x1", str(lowest - 1), str(highest + 1)):
                with self.subTest(variable=name, value=value):
                    done = self.run_two(FAILS, **{name: value})
                    for rank in (0, 1):
                        said = f"rank {rank}: {name}='{value}' is not "
                        self.assertEqual(done.stdout.count(said), 1, done.stdout + done.stderr)
            for value in ("", str(lowest), str(highest)):
                with self.subTest(variable=name, value=value):
                    if (name, value) == ("HVD_ARENA_BYTES", str(highest)):
                        continue  # more addresses than some machines give
                    done = self.run_two(FAILS, **{name: value})
                    self.assertNotIn(f"{name}='{value}'", done.stdout + done.stderr)

    def test_a_word_that_the_log_does_not_know_is_said_once(self) -> None:
        done = self.run_two(WORKS, HVD_LOG="nccl,infoo")
        self.assertEqual(done.stdout.count("FINE"), 2, done.stderr)
        self.assertEqual(
            done.stderr.count("HVD_LOG=nccl,infoo: 'infoo' is none of"), 1, done.stderr
        )
        self.assertNotIn("HVD_LOG", self.run_two(WORKS, HVD_LOG="nccl").stderr)


if __name__ == "__main__":
    jobs.main()
