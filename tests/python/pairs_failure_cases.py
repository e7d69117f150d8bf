# SPDX-License-Identifier: Apache-2.0
"""Programs that end with messages of the backend "hvd" under way, and pairs that are dead."""

from __future__ import annotations

import sys
import unittest

import ranks

PROLOGUE = """
import datetime, os, socket, sys
import torch, torch.distributed as dist
import hvd.torch.distributed
torch.set_num_threads(1)
dist.init_process_group("hvd", init_method="hvd://")
rank = dist.get_rank()
store = torch.distributed.distributed_c10d._get_default_store()
big = torch.ones(3_000_000)
def connect():
    for sender in (0, 1):
        if rank == sender:
            dist.send(torch.ones(1), 1 - rank)
        else:
            dist.recv(torch.empty(1), 1 - rank)
def start(work):
    # From now on a thread waits for it.
    work.wait(datetime.timedelta(seconds=30)) if work.is_completed() else work.get_future()
    return work
def send_slowly():
    # From now on 20 MB a second and connection.
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as found:
                if found.family != socket.AF_UNIX:
                    found.setsockopt(socket.SOL_SOCKET, 47, 20_000_000)  # SO_MAX_PACING_RATE
        except OSError:  # not a socket
            pass
def error_of(act):
    try:
        act()
    except hvd.HvdError as error:
        print("OUTCOME", type(error).__name__, error, flush=True)
"""
# The first may still come.
RECEIVE = "    error_of(lambda: dist.recv(big, 0))\n" * 5
# What rank 0 does, what rank 1 does, the exit code of rank 0, and what rank 1 reads.
ENDS = {
    "a receive that nobody serves": (
        "work = dist.irecv(torch.zeros(3), 1)\n    dist.barrier()",
        "    dist.barrier()\n",
        0,
        "",
    ),
    "the same, waited for": (
        "work = start(dist.irecv(torch.zeros(3), 1))\n    dist.barrier()",
        "    dist.barrier()\n",
        0,
        "",
    ),
    "a send, before there is a connection": (
        "work = start(dist.isend(big, 1))\n    sys.exit(3)",
        RECEIVE,
        3,
        "receive from rank 0 .*lost",
    ),
    "a send that a thread waits for": (
        "connect()\n    work = start(dist.isend(big, 1))\n    sys.exit(0)",
        RECEIVE,
        0,
        "rank 0 ",
    ),
    "a group that is destroyed before there is a connection": (
        "works = [start(dist.isend(big, 1)) for _ in range(3)]\n"
        "    dist.destroy_process_group()\n    error_of(works[0].wait)",
        "    pass\n",
        0,
        "",
    ),
    "a group that is destroyed": (
        "connect()\n    works = [start(dist.isend(big, 1)) for _ in range(3)]\n"
        "    dist.destroy_process_group()\n    error_of(works[0].wait)",
        RECEIVE,
        0,
        "rank 0 ",
    ),
    # Gloo wakes nobody whose message is half-way. This one takes 12 s.
    "a group that is destroyed in the middle of a message": (
        "connect()\n    send_slowly()\n    work = start(dist.isend(torch.ones(60_000_000), 1))\n"
        "    store.get('begun')\n    dist.destroy_process_group()\n    error_of(work.wait)",
        "    room = torch.zeros(60_000_000)\n    work = start(dist.irecv(room, 0))\n"
        "    while not room[0]:\n        pass\n"
        "    store.set('begun', 'yes')\n    error_of(work.wait)\n"
        "    error_of(lambda: dist.recv(big, 0))\n",
        0,
        "rank 0 ",
    ),
    "an exception": (
        "connect()\n    work = start(dist.isend(big, 1))\n    raise ValueError('boom')",
        RECEIVE,
        1,
        "ValueError: boom",
    ),
}


class TestEnds(unittest.TestCase):
    def test_the_exit_code_is_that_of_the_program(self) -> None:
        for name, (first, second, code, words) in ENDS.items():
            with self.subTest(name):
                connects = "    connect()\n" if "connect()" in first else ""
                program = f"{PROLOGUE}if rank == 0:\n    {first}\nelse:\n{connects}{second}"
                outcomes = ranks.run_ranks([sys.executable, "-c", program], 2, 60)
                text = "\n".join(outcome.text for outcome in outcomes)
                self.assertEqual([outcome.code for outcome in outcomes], [code, 0], text)
                if words:
                    heard = outcomes[1].text
                    self.assertGreaterEqual(heard.count("OUTCOME"), 2, text)
                    for line in heard.split("OUTCOME")[1:]:
                        self.assertRegex(line, f"(?s)rank 1.*{words}")


if __name__ == "__main__":
    unittest.main()
