# SPDX-License-Identifier: Apache-2.0
"""A rank that dies while GPUs work: the others raise, and name it. Starts its own ranks."""

from __future__ import annotations

import os
import signal
import sys
import time
import unittest

import ranks

RANKS = 3
VICTIM = 1
LIMIT_S = 60.0


def work_until_one_dies() -> int:
    """What each rank runs: reductions of 4 MB without end; one is killed in the midst of them."""
    import torch
    from gpu_seam import own_device

    import hvd.torch as ht

    device = own_device()
    ht.init()
    tensors = [torch.ones(1 << 20, device=device) for _ in range(4)]
    try:
        for step in range(1_000_000):
            handles = [
                ht.allreduce_async_(tensor, name=f"load.{number}", op=ht.Average)
                for number, tensor in enumerate(tensors)
            ]
            if step == 20 and ht.rank() == VICTIM:
                print(f"dies at {time.time():.3f}", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            for handle in handles:
                ht.synchronize(handle)
    except ht.HvdError as error:
        print(f"raised at {time.time():.3f}: {error}", flush=True)
        return 7
    return 0


class Deaths(unittest.TestCase):
    def test_a_rank_killed_under_load(self) -> None:
        command = [sys.executable, os.path.abspath(__file__), "rank"]
        outcomes = ranks.run_ranks(command, RANKS, LIMIT_S)
        if all(outcome.code == ranks.SKIPPED for outcome in outcomes):
            self.skipTest(outcomes[0].text)
        self.assertEqual(outcomes[VICTIM].code, -signal.SIGKILL, outcomes[VICTIM].text)
        died = float(outcomes[VICTIM].text.split("dies at ")[1].split()[0])
        for rank, outcome in enumerate(outcomes):
            if rank == VICTIM:
                continue
            self.assertEqual(outcome.code, 7, outcome.text)
            self.assertIn(f"rank {VICTIM}", outcome.text.split("raised at")[1])
            raised = float(outcome.text.split("raised at ")[1].split(":")[0])
            print(f"rank {rank} raised {raised - died:.2f} s after the death")


if __name__ == "__main__":
    if sys.argv[1:] == ["rank"]:
        sys.exit(work_until_one_dies())
    unittest.main(verbosity=2)
