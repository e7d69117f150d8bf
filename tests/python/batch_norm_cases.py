# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over all ranks against that of torch over the whole batch, run by each rank."""

from __future__ import annotations

import copy
import itertools
import unittest

import torch

import hvd.torch as ht

CHANNELS = 3


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def whole_batch(sizes: list[int], extents: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (sum(sizes), CHANNELS, *extents)
    return 5 + 3 * torch.randn(shape, generator=generator, dtype=torch.float64)


def own(whole: torch.Tensor, sizes: list[int], rank: int) -> torch.Tensor:
    return whole.split(sizes)[rank].clone().requires_grad_()


def layers(kind: type, **options) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Ours and torch's, with equal weights."""
    ours = ht.SyncBatchNorm(CHANNELS, **options).double()
    theirs = kind(CHANNELS, **options).double()
    if ours.affine:
        for one in (ours, theirs):
            one.weight.data = torch.tensor([0.5, 2.0, -1.0], dtype=torch.float64)
            one.bias.data = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)
    return ours, theirs


class Layer(unittest.TestCase):
    def near(self, mine: torch.Tensor, theirs: torch.Tensor, tolerance: float = 1e-9) -> None:
        self.assertEqual(mine.shape, theirs.shape)
        self.assertTrue(torch.allclose(mine, theirs, rtol=tolerance, atol=tolerance))

    def test_is_torchs_over_the_whole_batch(self) -> None:
        kinds = {
            (): torch.nn.BatchNorm1d,
            (5,): torch.nn.BatchNorm1d,
            (4, 2): torch.nn.BatchNorm2d,
            (2, 1, 3): torch.nn.BatchNorm3d,
        }
        uneven = [[3] * ht.size(), list(range(2, ht.size() + 2)), [5] + [0] * (ht.size() - 1)]
        options = [
            {"affine": affine, "momentum": momentum, "track_running_stats": tracks}
            for affine, momentum, tracks in [
                (True, 0.1, True),
                (False, 0.3, True),
                (True, None, True),
                (True, 0.1, False),
            ]
        ]
        for (extents, kind), sizes, chosen in itertools.product(kinds.items(), uneven, options):
            with self.subTest(extents=extents, sizes=sizes, **chosen):
                ours, theirs = layers(kind, **chosen)
                for step in range(2):
                    whole = whole_batch(sizes, extents, step).requires_grad_()
                    mine = own(whole.detach(), sizes, ht.rank())
                    self.check_step(ours, theirs, mine, whole, sizes)
                ours.eval()
                theirs.eval()
                if chosen["track_running_stats"]:
                    self.near(ours(whole), theirs(whole))

    def check_step(self, ours, theirs, mine, whole, sizes) -> None:
        ours.zero_grad()
        theirs.zero_grad()
        pull = torch.linspace(-1, 2, whole.numel(), dtype=torch.float64).reshape(whole.shape)
        output, expected = ours(mine), theirs(whole)
        (output * pull.split(sizes)[ht.rank()]).pow(2).sum().backward()
        (expected * pull).pow(2).sum().backward()
        self.near(output, expected.split(sizes)[ht.rank()])
        self.near(mine.grad, whole.grad.split(sizes)[ht.rank()], 1e-7)
        if ours.affine:
            for one, other in ((ours.weight, theirs.weight), (ours.bias, theirs.bias)):
                self.near(ht.allreduce(one.grad, op=ht.Sum), other.grad, 1e-7)
        if ours.running_mean is not None:
            self.near(ours.running_mean, theirs.running_mean)
            self.near(ours.running_var, theirs.running_var)
            self.assertEqual(ours.num_batches_tracked, theirs.num_batches_tracked)

    def test_finite_differences(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank has torch's layer")
        layer = ht.SyncBatchNorm(CHANNELS).double()

        def loss(given: torch.Tensor) -> torch.Tensor:
            return layer(given).pow(3).sum() * (ht.rank() + 1)

        given = whole_batch([2], ()).add(ht.rank()).requires_grad_()
        loss(given).backward()
        step = 1e-5
        for rank, row, channel in itertools.product(range(ht.size()), range(2), range(CHANNELS)):
            ends = []
            for sign in (1, -1):
                moved = given.detach().clone()
                if rank == ht.rank():
                    moved[row, channel] += sign * step
                ends.append(ht.allreduce(loss(moved).detach(), op=ht.Sum).item())
            if rank == ht.rank():
                slope = (ends[0] - ends[1]) / (2 * step)
                self.assertAlmostEqual(given.grad[row, channel].item(), slope, delta=1e-5)

    def test_half_types_and_memory_orders(self) -> None:
        whole = whole_batch([2] * ht.size(), (4, 4))
        expected = torch.nn.BatchNorm2d(CHANNELS).double()(whole)[2 * ht.rank() : 2 * ht.rank() + 2]
        layer = ht.SyncBatchNorm(CHANNELS)
        for dtype in (torch.bfloat16, torch.float32):
            mine = own(whole, [2] * ht.size(), ht.rank()).detach().to(dtype)
            mine = mine.contiguous(memory_format=torch.channels_last).requires_grad_()
            output = layer(mine)
            self.assertEqual(output.dtype, dtype)
            self.assertTrue(output.is_contiguous(memory_format=torch.channels_last))
            output.float().sum().backward()
            self.assertEqual(mine.grad.dtype, dtype)
            tolerance = 0.05 if dtype == torch.bfloat16 else 1e-5
            self.near(output.double(), expected, tolerance)

    def test_errors(self) -> None:
        layer = ht.SyncBatchNorm(CHANNELS)
        with self.assertRaisesRegex(ValueError, "2D"):
            layer(torch.ones(CHANNELS))
        rows = 1 if ht.rank() == 0 else 0
        with self.assertRaisesRegex(ValueError, "more than 1 value per channel"):
            layer(torch.ones(rows, CHANNELS))

    def test_process_set(self) -> None:
        if ht.size() < 3:
            self.skipTest("a process set of several ranks, and one outside, are three ranks")
        some = ht.add_process_set([0, 1])
        layer = ht.SyncBatchNorm(CHANNELS, process_set=some)
        whole = whole_batch([2] * ht.size(), ()).float()
        mine = whole[2 * ht.rank() : 2 * ht.rank() + 2]
        seen = whole[:4] if ht.rank() < 2 else mine
        expected = torch.nn.BatchNorm1d(CHANNELS)(seen)
        expected = expected[2 * ht.rank() : 2 * ht.rank() + 2] if ht.rank() < 2 else expected
        self.near(layer(mine), expected, 1e-5)
        ht.remove_process_set(some)

    def test_converted_models_train_as_one_rank(self) -> None:
        torch.manual_seed(0)
        alone = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3),
            torch.nn.Sequential(torch.nn.BatchNorm2d(4), torch.nn.ReLU()),
            torch.nn.Flatten(),
            torch.nn.Linear(4 * 16, 2),
            torch.nn.BatchNorm1d(2, affine=False),
        )
        model = copy.deepcopy(alone)
        weight = model[1][0].weight
        model = ht.SyncBatchNorm.convert_sync_batchnorm(model)
        self.assertIs(model[1][0].weight, weight)
        self.assertEqual(list(model.state_dict()), list(alone.state_dict()))
        whole = torch.randn(4 * ht.size(), 1, 6, 6)
        ht.broadcast_(whole, 0)
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.05), model.named_parameters()
        )
        plain = torch.optim.SGD(alone.parameters(), lr=0.05)
        for _ in range(5):
            optimizer.zero_grad()
            plain.zero_grad()
            model(whole[4 * ht.rank() : 4 * ht.rank() + 4])[:, 0].exp().mean().backward()
            alone(whole)[:, 0].exp().mean().backward()
            optimizer.step()
            plain.step()
        for (name, mine), theirs in zip(model.state_dict().items(), alone.state_dict().values()):
            self.assertTrue(torch.allclose(mine, theirs, rtol=1e-3, atol=1e-5), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
