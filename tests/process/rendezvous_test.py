# SPDX-License-Identifier: Apache-2.0
"""Two jobs of one user at once, with one home: each meets its own ranks and no others.

Usage: rendezvous_test.py LIBHVD [unittest arguments]. Two hosts are network name spaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import network_test
from jobs import without_launchers

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 120

# Each job adds up numbers of its own: any stranger shows in the sum.
PROGRAM = """
import ctypes, os, sys
import hvd
from hvd._core import _lib, api
from hvd._core.work import Work
hvd.init()
values = (ctypes.c_float * 2)(*[float(os.environ["HVD_TEST_BASE"]) + hvd.rank()] * 2)
address = ctypes.addressof(values)
tensor = api.tensor_struct(7, (2,), source=address, target=address)
handle = api.submit(Work(_lib.ALLREDUCE, "sum"), [tensor])
api.wait(handle)
api.release(handle)
os.write(1, f"rank {hvd.rank()} of {hvd.size()} has {values[0]:.0f}\\n".encode())
hvd.shutdown()
"""

# What torchrun does with its defaults: starts ranks, one for each line that it reads.
AGENT = """
import os, subprocess, sys
ranks = []
for line in sys.stdin:
    rank = line.strip()
    named = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
             "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none",
             "TORCHELASTIC_RESTART_COUNT": "0"}
    wrapped = ["sh", "-c", '"$@"; exit $?', "sh"] if rank == "1" else []  # Ranks may have wrappers.
    ranks.append(subprocess.Popen([*wrapped, sys.executable, "-B", "-c", sys.argv[1]],
                                  env={**os.environ, **named}, stdin=subprocess.DEVNULL))
sys.exit(max(abs(rank.wait()) for rank in ranks))
"""


def job_environment(folder: str, base: int) -> dict[str, str]:
    """What the processes of one job inherit; its sum is 2 * base + 1."""
    return {
        **without_launchers(),
        "HOME": folder,
        "PYTHONPATH": str(ROOT / "runtime" / "python"),
        "HVD_LIBRARY": network_test.LIBRARY,
        "HVD_START_TIMEOUT_SECONDS": "60",
        "HVD_TEST_BASE": str(base),
    }


class Job:
    """A job of two ranks under something like torchrun, on this host or in a name space."""

    def __init__(self, folder: str, base: int, where: list[str]) -> None:
        self.agent = subprocess.Popen(
            [*where, sys.executable, "-B", "-c", AGENT, PROGRAM],
            env=job_environment(folder, base),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def start(self, rank: int) -> None:
        self.agent.stdin.write(f"{rank}\n")
        self.agent.stdin.flush()

    def outcome(self) -> str:
        try:
            return self.agent.communicate(timeout=LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            self.agent.kill()
            raise


def working_torchrun() -> str | None:
    """A torchrun that can start a program: Debian 12's cannot, under its own Python."""
    newest = ROOT / "build-newest-torch" / "bin" / "torchrun"
    for path in (os.environ.get("HVD_TEST_TORCHRUN"), str(newest), shutil.which("torchrun")):
        if path is None or not Path(path).exists():
            continue
        trial = [path, "--standalone", "--nproc_per_node", "1", "--no-python", "true"]
        if subprocess.run(trial, capture_output=True, timeout=LIMIT_S).returncode == 0:
            return path
    return None


class TwoJobs(unittest.TestCase):
    """Jobs that their launchers name alike."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="hvd-home-")
        self.addCleanup(folder.cleanup)
        self.home = folder.name

    def two_hosts(self) -> list[list[str]]:
        """What to put before a command that runs on one of two joined hosts."""
        if not network_test.has_name_spaces():
            self.skipTest("needs root, unshare, nsenter and ip")
        hosts = [network_test.Host(), network_test.Host()]
        for host in hosts:
            self.addCleanup(host.close)
        network_test.join(hosts, "eth0", "10.78.0.{}/24")
        return [["nsenter", "-t", host.pid, "-n"] for host in hosts]

    def wait_for_ticket(self) -> None:
        deadline = time.monotonic() + LIMIT_S
        folder = Path(self.home, ".cache", "hvd")
        while not any(folder.glob("torchrun.*")):
            self.assertLess(time.monotonic(), deadline, "rank 0 writes no ticket")
            time.sleep(0.01)

    def check(self, where: list[list[str]]) -> None:
        """The second job's rank 1 comes first after the first job's rank 0."""
        first, second = Job(self.home, 10, where[0]), Job(self.home, 100, where[1])
        first.start(0)
        self.wait_for_ticket()
        second.start(1)
        time.sleep(1)  # Gives it the time to join a stranger; correct code does not care.
        second.start(0)
        first.start(1)
        for job, total in ((first, 21), (second, 201)):
            text = job.outcome()
            self.assertEqual(text.count(f"of 2 has {total}\n"), 2, text)
            self.assertEqual(job.agent.returncode, 0, text)
        self.assertEqual(list(Path(self.home, ".cache", "hvd").iterdir()), [])

    def test_on_one_host(self) -> None:
        self.check([[], []])

    def test_on_two_hosts(self) -> None:
        self.check(self.two_hosts())

    def torchrun(self) -> str:
        found = working_torchrun()
        if found is None:
            self.skipTest("there is no torchrun that works")
        return found

    def test_of_the_real_torchrun_over_two_hosts_each(self) -> None:
        torchrun, hosts = self.torchrun(), self.two_hosts()
        script = Path(self.home, "rank.py")
        script.write_text(PROGRAM)
        nodes = ["--nnodes", "2", "--nproc_per_node", "1", "--master_addr", "10.78.0.1"]
        agents = [
            subprocess.Popen(
                [*where, torchrun, *nodes, "--master_port", str(29500 + base)]
                + ["--node_rank", str(node), str(script)],
                env=job_environment(self.home, base),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for base in (10, 100)
            for node, where in enumerate(hosts)
        ]
        texts = [agent.communicate(timeout=LIMIT_S)[0] for agent in agents]
        for base, text in ((10, texts[0] + texts[1]), (100, texts[2] + texts[3])):
            self.assertEqual(text.count(f"of 2 has {2 * base + 1}\n"), 2, text)

    def test_of_the_real_torchrun_with_its_defaults_on_two_hosts(self) -> None:
        torchrun = self.torchrun()
        script = Path(self.home, "rank.py")
        script.write_text(PROGRAM)
        jobs = {}
        for where, base in zip(self.two_hosts(), (10, 100), strict=True):
            jobs[base] = subprocess.Popen(
                [*where, torchrun, "--nproc_per_node", "2", str(script)],
                env=job_environment(self.home, base),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        for base, job in jobs.items():
            text = job.communicate(timeout=LIMIT_S)[0]
            self.assertEqual(text.count(f"of 2 has {2 * base + 1}\n"), 2, text)


if __name__ == "__main__":
    network_test.LIBRARY = sys.argv.pop(1)
    unittest.main(verbosity=2)
