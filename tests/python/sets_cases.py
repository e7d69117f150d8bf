# SPDX-License-Identifier: Apache-2.0
"""Process sets of hvd.torch: every operation, and two models that are trained at once."""

from __future__ import annotations

import unittest

import torch

import hvd
import hvd.torch as ht

BATCH = 8
STEPS = 15


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.Tanh(), torch.nn.Linear(24, 4))


def examples(task: int, step: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * task + step)
    inputs = torch.randn(count, 16, generator=generator)
    return inputs, (inputs[:, :4] + inputs[:, 4 + task : 8 + task]).argmax(1)


class Sets(unittest.TestCase):
    def setUp(self) -> None:
        self.sets = [
            ht.add_process_set([rank for rank in range(ht.size()) if rank % 2 == half])
            for half in (0, 1)
        ]
        self.mine, self.other = self.sets if ht.rank() % 2 == 0 else self.sets[::-1]

    def tearDown(self) -> None:
        for one in self.sets:
            if one.process_set_id is not None:
                ht.remove_process_set(one)

    def test_every_operation(self) -> None:
        mine, rank = self.mine, ht.rank()
        ranks, size, root = mine.ranks, mine.size(), mine.ranks[-1]
        value = torch.full((size, 2), float(rank))
        at = {"process_set": mine}
        total, mean = float(sum(ranks)), sum(ranks) / size
        self.assertEqual(ht.allreduce(value, **at)[0, 0].item(), mean)
        self.assertEqual(ht.allreduce_(value.clone(), op=ht.Sum, **at)[0, 0].item(), total)
        group = ht.grouped_allreduce([value, value], op=ht.Sum, **at)
        self.assertEqual(group[1][0, 0].item(), total)
        ht.grouped_allreduce_([value.clone()], **at)
        self.assertEqual(ht.allgather(value[:1, 0], **at).tolist(), ranks)
        self.assertEqual(ht.grouped_allgather([value[:1, 0]], **at)[0].tolist(), ranks)
        self.assertEqual(ht.broadcast(value, root, **at)[0, 0].item(), root)
        self.assertEqual(ht.broadcast_(value.clone(), root, **at)[0, 0].item(), root)
        self.assertEqual(ht.reducescatter(value, op=ht.Sum, **at).tolist(), [[total, total]])
        self.assertEqual(ht.grouped_reducescatter([value], **at)[0].tolist(), [[mean, mean]])
        reduced = ht.reduce(value, root, op=ht.Sum, **at)
        self.assertEqual(None if reduced is None else total, total if rank == root else None)
        self.assertEqual(ht.alltoall(value[:, 0], **at).tolist(), ranks)
        self.assertEqual(ht.alltoall(value[:, 0], [1] * size, **at)[1].tolist(), [1] * size)
        gathered = ht.gather(value[:1, 0], root, **at).tolist()
        self.assertEqual(gathered, ranks if rank == root else [])
        self.assertEqual(ht.scatter(torch.tensor(ranks), root, **at).tolist(), [rank])
        for op, expected in ((ht.Sum, total), (ht.Average, mean)):
            sparse = ht.sparse_allreduce(value[:1].to_sparse(), op=op, **at)
            self.assertEqual(sparse.to_dense()[0, 0].item(), expected)
        self.assertEqual(ht.broadcast_object(rank, root, **at), root)
        self.assertEqual(ht.allgather_object(rank, **at), ranks)
        ht.barrier(mine)

    def test_gradients_stay_in_the_set(self) -> None:
        size = self.mine.size()
        given = torch.ones(size, requires_grad=True)
        ht.allreduce(given, op=ht.Sum, process_set=self.mine).sum().backward()
        self.assertEqual(given.grad.tolist(), [size] * size)
        given.grad = None
        gathered = ht.allgather(given, process_set=self.mine)
        (gathered * (self.mine.rank() + 1.0)).sum().backward()
        self.assertEqual(given.grad.tolist(), [(size + 1) / 2] * size)
        given.grad = None
        ht.reducescatter(given, op=ht.Sum, process_set=self.mine).sum().backward()
        self.assertEqual(given.grad.tolist(), [size] * size)

    def losses(self, process_set, task: int, make) -> list[float]:
        """What the ranks of a set learn together."""
        at = {"process_set": process_set}
        model = network(seed=ht.rank())
        root, place, size = process_set.ranks[0], process_set.rank(), process_set.size()
        ht.broadcast_parameters(model.named_parameters(), root, **at)
        plain = make(model.parameters())
        ht.broadcast_optimizer_state(plain, root, **at)
        optimizer = ht.DistributedOptimizer(plain, model.named_parameters(), **at)
        losses = []
        for step in range(STEPS):
            optimizer.zero_grad()
            inputs, labels = examples(task, step, BATCH * size)
            part = slice(place * BATCH, (place + 1) * BATCH)
            loss = torch.nn.functional.cross_entropy(model(inputs[part]), labels[part])
            loss.backward()
            optimizer.step()
            losses.append(ht.allreduce(loss.detach().double(), **at).item())
        return losses

    def test_two_sets_train_two_models_at_once(self) -> None:
        rules = [
            lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
            lambda parameters: torch.optim.Adam(parameters, lr=0.01),
        ]
        task = ht.rank() % 2
        found = self.losses(self.mine, task, rules[task])
        model = network(seed=self.mine.ranks[0])
        optimizer = rules[task](model.parameters())
        for step, loss in enumerate(found):
            optimizer.zero_grad()
            inputs, labels = examples(task, step, BATCH * self.mine.size())
            expected = torch.nn.functional.cross_entropy(model(inputs), labels)
            expected.backward()
            optimizer.step()
            self.assertLess(abs(loss - expected.item()), 1e-5 * expected.item(), f"step {step}")

    def test_a_rank_outside_of_the_set_steps_alone(self) -> None:
        model = network(seed=ht.rank())
        before = model[0].weight.detach().clone()
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=1.0),
            model.named_parameters(),
            process_set=self.sets[0],
        )
        model[0].weight.backward(torch.full((24, 16), float(ht.rank())))
        optimizer.step()
        change = (before - model[0].weight)[0, 0].item()
        ranks = self.sets[0].ranks
        expected = sum(ranks) / len(ranks) if ht.rank() in ranks else ht.rank()
        self.assertAlmostEqual(change, expected, places=5)

    def test_wrong_sets_are_one_clear_error(self) -> None:
        value = torch.ones(4)
        outside = f"rank {ht.rank()}: allreduce 'x': this rank is not in process set"
        with self.assertRaisesRegex(hvd.InvalidArgumentError, outside):
            ht.allreduce(value, name="x", process_set=self.other)
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "root .* is not in process set"):
            ht.broadcast(value, self.other.ranks[0], process_set=self.mine)
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "is not there: pass it to hvd.init"):
            ht.allreduce(value, process_set=hvd.ProcessSet([0]))
        number = self.mine.process_set_id
        for one in self.sets:
            ht.remove_process_set(one)
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "is not there"):
            ht.allreduce(value, process_set=self.mine)
        stale = hvd.ProcessSet([0])
        stale.process_set_id = number
        gone = f"there is no process set {number}; add it first .it may have been removed"
        for action in (
            lambda: ht.allreduce(value, process_set=stale),
            lambda: ht.sparse_allreduce(value.to_sparse(), process_set=stale),
            lambda: ht.DistributedOptimizer(
                torch.optim.SGD(network(0).parameters(), lr=1.0), process_set=stale
            ),
        ):
            with self.assertRaisesRegex(hvd.InvalidArgumentError, gone):
                action()
        self.assertEqual(ht.allreduce(value, op=ht.Sum)[0].item(), ht.size())

    def test_a_set_ends_with_its_job(self) -> None:
        ht.shutdown()
        self.assertIsNone(self.mine.process_set_id)
        ht.init()
        # Its number is given again, to other ranks.
        second = ht.add_process_set([0])
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "is not there"):
            ht.allreduce(torch.ones(1), process_set=self.mine)
        self.assertFalse(ht.remove_process_set(self.mine))
        ht.remove_process_set(second)
        for one in self.sets:
            self.assertIs(ht.add_process_set(one), one)
        total = ht.allreduce(torch.ones(1), op=ht.Sum, process_set=self.mine)
        self.assertEqual(total.item(), self.mine.size())


if __name__ == "__main__":
    unittest.main(verbosity=2)
