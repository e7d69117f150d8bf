# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on GPUs, as hvd.torch raises it on every rank. Starts its own ranks."""

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


class Case(unittest.TestCase):
    def run_ranks(self, mode: str) -> list[ranks.Outcome]:
        """The outcomes of ranks that run a mode of this file."""
        command = [sys.executable, os.path.abspath(__file__), mode]
        outcomes = ranks.run_ranks(command, RANKS, LIMIT_S)
        if all(outcome.code == ranks.SKIPPED for outcome in outcomes):
            self.skipTest(outcomes[0].text)
        return outcomes


def raise_once() -> int:
    """What each rank runs: one reduction, which must fail; one in CPU memory, which must not."""
    import torch
    from gpu_seam import IS_DOUBLE, own_device

    import hvd.torch as ht
    from hvd.torch import devices

    device = own_device()
    if os.environ.get("HVD_BACKEND") == "staged":
        print("skipped: NCCL is not asked here")
        return ranks.SKIPPED
    ht.init()
    try:
        ht.allreduce(torch.ones(1000, device=device), name="refused")
    except ht.HvdError as error:
        print(f"raised {type(error).__name__}: {error}", flush=True)
    on_host = torch.ones(3)
    if IS_DOUBLE:
        devices.gpus.stays(on_host)  # type: ignore[attr-defined]
    assert ht.allreduce(on_host, op=ht.Sum).tolist() == [float(ht.size())] * 3
    ht.shutdown()
    return 0


class Disagreements(Case):
    def raised(self, mode: str) -> list[str]:
        """What each rank has raised."""
        outcomes = self.run_ranks(mode)
        for outcome in outcomes:
            self.assertEqual(outcome.code, 0, outcome.text)
            self.assertIn("raised ", outcome.text)
        return [outcome.text.split("raised ")[1] for outcome in outcomes]

    def test_two_ranks_on_one_gpu_are_told_the_remedy(self) -> None:
        for text in self.raised("shared"):
            self.assertRegex(text, "rank 0 on host .* and rank 1 on host .* use the same GPU")
            self.assertIn("HVD_SHARE_GPU=1", text)

    @unittest.skipUnless(ranks.ON_DOUBLE, "there is one version of NCCL here")
    def test_versions_of_nccl_that_differ_are_named(self) -> None:
        for text in self.raised("versions"):
            self.assertRegex(
                text, r"rank 1 on host .* has NCCL 2\.19\.3, and rank 0 on host .* has"
            )


class Deaths(Case):
    def test_a_rank_killed_under_load(self) -> None:
        outcomes = self.run_ranks("killed")
        self.assertEqual(outcomes[VICTIM].code, -signal.SIGKILL, outcomes[VICTIM].text)
        died = float(outcomes[VICTIM].text.split("dies at ")[1].split()[0])
        for rank, outcome in enumerate(outcomes):
            if rank == VICTIM:
                continue
            self.assertEqual(outcome.code, 7, outcome.text)
            self.assertIn(f"rank {VICTIM}", outcome.text.split("raised at")[1])
            raised = float(outcome.text.split("raised at ")[1].split(":")[0])
            # A row as gpu_bench prints them, for whoever runs it on GPUs.
            print(f"killed-rank | rank {rank} raises after the death, s | {raised - died:.2f} |  |")


if __name__ == "__main__":
    mode = sys.argv[1] if len(sys.argv) == 2 else ""
    if mode == "killed":
        sys.exit(work_until_one_dies())
    if mode == "shared":  # though the machine may have fewer GPUs than ranks
        os.environ.update(HVD_SHARE_GPU="0", HVD_LOCAL_DEVICE="0")
        sys.exit(raise_once())
    if mode == "versions":
        if os.environ["RANK"] == str(VICTIM):
            os.environ["HVD_DOUBLE_NCCL_VERSION"] = "21903"
        sys.exit(raise_once())
    unittest.main(verbosity=2)
