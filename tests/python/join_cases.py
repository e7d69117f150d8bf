# SPDX-License-Identifier: Apache-2.0
"""Ranks that run out of data at different times, through hvd.torch."""

from __future__ import annotations

import unittest

import torch

import hvd
import hvd.torch as ht

PAIR = ht.ProcessSet([2, 0])


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init(process_sets=[PAIR])


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


class Joins(unittest.TestCase):
    def test_the_others_go_on(self) -> None:
        for average in ("all", "active"):
            for step in range(ht.rank() + 1):
                total = ht.allreduce(torch.ones(5), name="step", op=ht.Sum)
                self.assertEqual(total[0].item(), 3.0 - step)
                mean = ht.allreduce(torch.ones(5))
                expected = (3.0 - step) / 3 if average == "all" else 1.0
                self.assertAlmostEqual(mean[0].item(), expected, places=6)
            self.assertEqual(ht.join(average=average), 2)
        self.assertEqual(ht.allreduce(torch.ones(2), op=ht.Sum)[0].item(), 3.0)

    def test_a_model_learns_from_uneven_shards(self) -> None:
        torch.manual_seed(7)
        model = torch.nn.Linear(4, 1)
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1),
            named_parameters=model.named_parameters(),
        )
        ht.broadcast_parameters(model.state_dict(), root_rank=0)
        for _ in range(5 + 3 * ht.rank()):
            inputs = torch.randn(8, 4)
            optimizer.zero_grad()
            (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
        self.assertEqual(ht.join(), 2)
        error = (model.weight.detach() - 1.0).abs().max().item()
        # Who joins late has learnt most; Horovod's users take the model of the last rank.
        ht.broadcast_parameters(model.state_dict(), root_rank=2)
        self.assertLess((model.weight.detach() - 1.0).abs().max().item(), error + 1e-6)

    def test_a_set_by_itself(self) -> None:
        if PAIR.included():
            if ht.rank() == 2:
                alone = ht.allreduce(torch.ones(3), name="x", op=ht.Sum, process_set=PAIR)
                self.assertEqual(alone[0].item(), 1.0)
            self.assertIn(ht.join(process_set=PAIR), (0, 2))
        else:
            with self.assertRaisesRegex(hvd.InvalidArgumentError, "no process set 1"):
                ht.join(process_set=PAIR)
        self.assertEqual(ht.allreduce(torch.ones(1), op=ht.Sum).item(), 3.0)

    def test_what_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "all"):
            ht.join(average="some")
        if ht.rank() != 1:
            with self.assertRaisesRegex(hvd.InvalidArgumentError, "rank 1 has joined"):
                ht.broadcast(torch.ones(1), root_rank=0, name="b")
        self.assertIn(ht.join(), (0, 2))
        with self.assertRaisesRegex(hvd.MismatchError, "average"):
            ht.join(average="all" if ht.rank() == 0 else "active")
        self.assertEqual(ht.broadcast(torch.ones(1), root_rank=0, name="b").item(), 1.0)


if __name__ == "__main__":
    unittest.main()
