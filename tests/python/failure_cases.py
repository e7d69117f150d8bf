# SPDX-License-Identifier: Apache-2.0
"""Ranks that die, fork, fail or are interrupted: the others learn it soon, and why."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

import ranks

PROLOGUE = """
import os, signal, sys, time
import hvd
hvd.init()
note = os.environ["HVD_RENDEZVOUS_DIR"] + "/died"
def survive():
    try:
        while True:
            allreduce(ones(1000))
    except (hvd.PeerLostError, hvd.AbortedError) as failure:
        print("AFTER", time.time() - float(open(note).read()), failure, flush=True)
    try:
        allreduce(ones(1))
    except (hvd.PeerLostError, hvd.AbortedError) as failure:
        print("AGAIN", flush=True)
def leave_note():
    with open(note + ".new", "w") as file:
        file.write(repr(time.time()))
    os.rename(note + ".new", note)
"""

TORCH = """
import torch
import hvd.torch as ht
allreduce, ones = ht.allreduce, torch.ones
"""
# Starts in a tenth of the time.
NUMPY = """
import numpy
import hvd.numpy
allreduce, ones = hvd.numpy.allreduce, numpy.ones
"""

DEATHS = {
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "segv": "os.kill(os.getpid(), signal.SIGSEGV)",
    "_exit": "os._exit(3)",
    "exception": "raise ZeroDivisionError('on purpose')",
    "exit": "sys.exit(3)",
    "kill with a child alive": (
        "\n    child = os.fork()\n    if child == 0:\n        time.sleep(5)\n        os._exit(0)\n"
        "    leave_note()\n    os.kill(os.getpid(), signal.SIGKILL)"
    ),
}


def run(
    program: str, framework: str = TORCH, count: int = 3, seconds: float = 60
) -> list[ranks.Outcome]:
    return ranks.run_ranks([sys.executable, "-c", framework + PROLOGUE + program], count, seconds)


class Deaths(unittest.TestCase):
    def test_survivors_name_the_dead(self) -> None:
        for name, death in DEATHS.items():
            with self.subTest(death=name):
                outcomes = run(
                    "if hvd.rank() == 1:\n    allreduce(ones(1000))\n    leave_note()\n"
                    f"    {death}\nelse:\n    survive()\n",
                    NUMPY,
                )
                self.assertNotEqual(outcomes[1].code, 0)
                for rank in (0, 2):
                    text = outcomes[rank].text
                    self.assertIn("AFTER", text, text)
                    self.assertIn("rank 1", text)
                    self.assertIn("AGAIN", text)
                    after = float(text.split("AFTER")[1].split()[0])
                    print(f"{name}: rank {rank} knew after {after:.3f} s", flush=True)
                    self.assertLess(after, 2.0, text)


class Timelines(unittest.TestCase):
    def test_can_be_read_of_a_rank_that_was_killed_and_of_one_that_failed(self) -> None:
        program = """
import os, signal, sys, time
folder = sys.argv[1]
os.environ["HVD_TIMELINE"] = folder + "/rank-{rank}.json"
import hvd
hvd.init()
hvd.barrier()
if hvd.rank() == 0:
    deadline = time.monotonic() + 30
    for rank, what in ((0, '"outcome":"ok"'), (1, "barrier.noname.1")):
        while what not in open(folder + f"/rank-{rank}.json").read():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)
hvd.barrier()
"""
        with tempfile.TemporaryDirectory() as folder:
            outcomes = ranks.run_ranks([sys.executable, "-c", program, folder], 2, 60)
            killed = (Path(folder) / "rank-0.json").read_text()
            failed = json.loads((Path(folder) / "rank-1.json").read_text())
        self.assertEqual(outcomes[1].code, 1, outcomes[1].text)
        self.assertTrue(killed.endswith(",\n"), killed[-200:])
        begun = [one.get("name") for one in json.loads(killed.rstrip(",\n") + "]")]
        self.assertIn("NEGOTIATE_BARRIER", begun)
        ends = [one["args"] for one in failed if one["ph"] == "E" and "args" in one]
        self.assertEqual([end["outcome"] for end in ends], ["ok", "peer lost"])
        self.assertIn("rank 0", ends[1]["error"])


class TorchDistributed(unittest.TestCase):
    def test_survivors_of_ddp_name_the_dead(self) -> None:
        outcomes = run(
            """
import torch.distributed as dist, hvd.torch.distributed
dist.init_process_group("hvd", init_method="hvd://")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(200, 200))
for step in range(10**6):
    try:
        if step == 3 and ht.rank() == 1:
            leave_note()
            os.kill(os.getpid(), signal.SIGKILL)
        model(torch.ones(2, 200)).sum().backward()
    except RuntimeError as failure:
        print("AFTER", time.time() - float(open(note).read()), failure, flush=True)
        break
try:
    dist.all_reduce(torch.ones(1))
except hvd.HvdError as failure:
    print("AGAIN", flush=True)
"""
        )
        for rank in (0, 2):
            text = outcomes[rank].text
            self.assertIn("AFTER", text, text)
            self.assertIn("rank 1", text)
            self.assertIn("AGAIN", text)
            after = float(text.split("AFTER")[1].split()[0])
            print(f"DDP: rank {rank} knew after {after:.3f} s", flush=True)

    def test_messages_and_callbacks_name_the_dead(self) -> None:
        outcomes = run(
            """
import threading
import torch.distributed as dist, hvd.torch.distributed
dist.init_process_group("hvd", init_method="hvd://")
late, others, mine = dist.new_group(), dist.new_group([0, 2]), torch.ones(2)
rank = dist.get_rank()
def whole():
    return dist.all_reduce(torch.ones(2), async_op=True).get_future()
waits = {
    "connected": lambda: dist.recv(torch.empty(2), 1),
    "not connected": lambda: dist.recv(torch.empty(2), 1, group=late),
    "a send": lambda: dist.send(torch.empty(10**7), 1),
    "a chain": lambda: whole().then(lambda f: f.value()).then(lambda f: f.value()).wait(),
    "a callback": lambda: (
        dist.all_reduce(mine, group=others, async_op=True).get_future()
        .then(lambda future: whole().wait()).wait()
    ),
}
learned = []  # told by one thread: lines of several may mix
def learn(name):
    try:
        waits[name]()
    except RuntimeError as failure:
        learned.append(f"AFTER {time.time() - float(open(note).read())} {name} {failure}")
if rank == 1:
    for other in (0, 2):
        dist.send(mine, other)
    dist.barrier()
    leave_note()
    os.kill(os.getpid(), signal.SIGKILL)
dist.recv(mine, 1)
dist.barrier()
threads = [threading.Thread(target=learn, args=(name,)) for name in waits]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*learned, sep="\\n", flush=True)
"""
        )
        for rank in (0, 2):
            text = outcomes[rank].text
            told = [line.split(maxsplit=2) for line in text.splitlines() if "AFTER" in line]
            self.assertEqual(len(told), 5, text)
            for _, after, cause in told:
                self.assertIn("rank 1", cause)
                self.assertLess(float(after), 10, cause)


class Forks(unittest.TestCase):
    def test_children_are_no_ranks_and_do_no_harm(self) -> None:
        outcomes = run(
            """
import torch.utils.data as data
OF_RANK = (ht.rank(), 2, ht.local_rank(), 2, ht.cross_rank(), 1)
assert OF_RANK[0] == OF_RANK[2]
class Set(data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        began = time.perf_counter()
        who = (ht.rank(), ht.size(), ht.local_rank(), ht.local_size(), ht.cross_rank())
        assert ht.is_initialized() and (*who, ht.cross_size()) == OF_RANK, who
        for call in (lambda: ht.allreduce(torch.ones(1)), ht.barrier, hvd.describe):
            try:
                call()
            except hvd.AbortedError as failure:
                assert "forked" in str(failure), failure
            else:
                raise AssertionError("a child took part")
        assert time.perf_counter() - began < 1
        return torch.tensor(float(index))
for epoch in range(2):
    total = sum(item.sum().item() for item in data.DataLoader(Set(), batch_size=2, num_workers=2))
    assert total == 28, total
    assert ht.allreduce(torch.tensor(total), op=ht.Sum).item() == 28 * ht.size()
ht.shutdown()
print("FINE")
""",
            count=2,
        )
        for outcome in outcomes:
            self.assertEqual(outcome.code, 0, outcome.text)
            self.assertIn("FINE", outcome.text)


class Workers(unittest.TestCase):
    def test_of_any_start_method_work_beside_operations(self) -> None:
        outcomes = run(
            """
import torch.utils.data as data
from worker_data import Squares
for method in ("fork", "spawn"):
    flying = [ht.allreduce_async(torch.ones(1000), op=ht.Sum, name=f"{method}.{i}") for i in range(9)]
    loader = data.DataLoader(Squares(), batch_size=4, num_workers=1, multiprocessing_context=method)
    total = sum(item.sum().item() for item in loader)
    assert total == 140, total
    assert all(ht.synchronize(one)[0].item() == ht.size() for one in flying)
ht.shutdown()
print("FINE")
""",
            count=2,
            seconds=110,
        )
        for outcome in outcomes:
            self.assertEqual(outcome.code, 0, outcome.text)
            self.assertIn("FINE", outcome.text)


class Interrupts(unittest.TestCase):
    def test_control_c_ends_a_wait(self) -> None:
        program = """
print("READY", flush=True)
open(os.environ["HVD_RENDEZVOUS_DIR"] + "/ready." + str(hvd.rank()), "w").close()
allreduce(ones(1), name="only here" if hvd.rank() == 0 else "only there")
"""
        with tempfile.TemporaryDirectory(prefix="hvd-test-") as folder:
            processes = ranks.start_ranks(
                [sys.executable, "-c", NUMPY + PROLOGUE + program], 2, folder
            )
            try:
                deadline = time.monotonic() + 60
                while not all(Path(f"{folder}/ready.{rank}").exists() for rank in range(2)):
                    self.assertLess(time.monotonic(), deadline)
                    self.assertIsNone(processes[0].poll(), Path(f"{folder}/out.0").read_text())
                    time.sleep(0.05)
                processes[0].send_signal(signal.SIGINT)
                began = time.monotonic()
                processes[0].wait(20)
                processes[1].wait(20)
                self.assertLess(time.monotonic() - began, 10)
                self.assertIn("KeyboardInterrupt", Path(f"{folder}/out.0").read_text())
                self.assertIn("rank 0", Path(f"{folder}/out.1").read_text())
            finally:
                for process in processes:
                    process.kill()
                    process.wait()


class Exits(unittest.TestCase):
    def test_ranks_may_end_without_shutdown(self) -> None:
        for outcome in run("print('END')\n", NUMPY):
            self.assertEqual(outcome.code, 0, outcome.text)

    def test_nobody_need_wait_for_what_is_on_its_way(self) -> None:
        program = """
model = torch.nn.Linear(300, 300)
optimizer = ht.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
model(torch.ones(2, 300)).sum().backward()
handles = [ht.allreduce_async(torch.ones(50000)) for _ in range(20)]
never = ht.allreduce_async(torch.ones(50000), name=f"only {ht.rank()}")
keep = []
class Late:
    def __del__(self):
        keep.append(ht.is_initialized())
late = Late()
print("END")
"""
        for outcome in run(program):
            self.assertEqual(outcome.code, 0, outcome.text)
            self.assertIn("END", outcome.text)

    def test_one_that_was_told_to_stop_is_not_killed_by_a_reminder(self) -> None:
        program = """
hvd.should_stop()
os.kill(os.getpid(), signal.SIGTERM)
assert hvd.should_stop()
class Late:
    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGTERM):
        kill(process, number)
late = Late()
"""
        for outcome in run(program, NUMPY):
            self.assertEqual(outcome.code, 0, outcome.text)

    def test_shutdown_ends_the_job(self) -> None:
        program = """
hvd.shutdown()
assert not hvd.is_initialized()
try:
    hvd.rank()
except ValueError:
    print("GONE")
"""
        for outcome in run(program, NUMPY):
            self.assertEqual(outcome.code, 0, outcome.text)
            self.assertIn("GONE", outcome.text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
