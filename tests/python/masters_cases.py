# SPDX-License-Identifier: Apache-2.0
"""Models of bfloat16 with float32 copies of their weights, trained by each rank."""

from __future__ import annotations

import copy
import unittest
import warnings

import torch
from small_network import Case, examples, loss_of, network, own

import hvd.torch as ht

BF16 = torch.bfloat16


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def distributed(model: torch.nn.Module, make=None, **options):
    plain = make(model.parameters()) if make else torch.optim.SGD(model.parameters(), lr=0.02)
    return ht.DistributedOptimizer(
        ht.optim.MasterWeights(plain), model.named_parameters(), **options
    )


def train(model, optimizer, steps) -> list[float]:
    losses = []
    for step in steps:
        optimizer.zero_grad()
        inputs, labels = map(own, examples(step))
        loss = loss_of(model, inputs.to(next(model.parameters()).dtype), labels)
        loss.backward()
        optimizer.step()
        losses.append(ht.allreduce(loss.detach()).item())
    return losses


class Masters(Case):
    def test_learn_as_float32(self) -> None:
        kinds = (
            lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9),
            lambda parameters: torch.optim.Adam(parameters, lr=0.002),
        )
        for make in kinds:
            whole, half, rounded = network(), network().to(BF16), network().to(BF16)
            steps = range(60)
            wide = ht.DistributedOptimizer(make(whole.parameters()), whole.named_parameters())
            expected = train(whole, wide, steps)[-10:]
            losses = train(half, distributed(half, make), steps)[-10:]
            self.assertAlmostEqual(sum(losses), sum(expected), delta=0.02 * sum(expected))
            self.same_everywhere(half)
            # Its weights are those of float32, rounded, nearer than without the copies.
            narrow = ht.DistributedOptimizer(make(rounded.parameters()), rounded.named_parameters())
            train(rounded, narrow, steps)
            far = [
                sum(
                    (one - other).abs().sum()
                    for one, other in zip(m.parameters(), whole.parameters())
                )
                for m in (half, rounded)
            ]
            self.assertLess(far[0], 0.8 * far[1])

    def test_small_updates_are_not_lost(self) -> None:
        for options in ({}, {"op": ht.Adasum}):
            model = torch.nn.Linear(1, 1, bias=False).to(BF16)
            model.weight.data.fill_(1.0)
            optimizer = distributed(
                model, lambda parameters: torch.optim.SGD(parameters, lr=1e-3), **options
            )
            for _ in range(16):
                optimizer.zero_grad()
                model(torch.ones(1, 1, dtype=BF16)).sum().backward()
                optimizer.step()
            self.assertAlmostEqual(model.weight.item(), 1 - 16e-3, delta=4e-3)
            self.same_everywhere(model)

    def test_gradients_add_in_float32(self) -> None:
        self.several_ranks()
        weight = torch.nn.Parameter(torch.zeros(3, dtype=BF16))
        optimizer = distributed(torch.nn.ParameterList([weight]), op=ht.Sum)
        # In bfloat16, 256 + 1 is 256.
        value = 256.0 if ht.rank() == 0 else 1.0
        weight.backward(torch.full((3,), value, dtype=BF16))
        optimizer.synchronize()
        self.assertEqual(weight.grad.dtype, BF16)
        expected = torch.tensor(256.0 + ht.size() - 1).to(BF16)
        self.assertTrue(torch.equal(weight.grad, expected.expand(3)))

    def test_follow_what_is_loaded(self) -> None:
        model = network(seed=ht.rank()).to(BF16)
        optimizer = distributed(model)
        ht.broadcast_parameters(model.state_dict(), 0)
        train(model, optimizer, range(3))
        self.same_everywhere(model)
        resumed = network(seed=7).to(BF16)
        second = distributed(resumed)
        resumed.load_state_dict(model.state_dict())
        second.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        train(model, optimizer, range(3, 6))
        train(resumed, second, range(3, 6))
        for one, other in zip(model.parameters(), resumed.parameters()):
            self.assertTrue(torch.equal(one, other))
        for one, other in zip(*(o.state_dict()["masters"] for o in (optimizer, second))):
            self.assertTrue(torch.equal(one, other))
        late = distributed(network(seed=9).to(BF16))
        ht.broadcast_optimizer_state(late if ht.rank() else optimizer, root_rank=0)
        self.assertTrue(
            ht.rank() == 0
            or torch.equal(late.state_dict()["masters"][0], optimizer.state_dict()["masters"][0])
        )

    def test_other_types_schedulers_closures_and_groups(self) -> None:
        model = network().to(BF16)
        model[2].to(torch.float32)
        plain = torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, gamma=0.5)
        optimizer = ht.DistributedOptimizer(ht.optim.MasterWeights(plain), model.named_parameters())
        optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.1})
        self.assertIs(optimizer.param_groups[1]["params"][0], model[2].weight)
        self.assertEqual(optimizer.param_groups[0]["params"][0].dtype, torch.float32)
        inputs, labels = map(own, examples(0))

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            hidden = torch.tanh(model[0](inputs.to(BF16))).float()
            loss = torch.nn.functional.cross_entropy(model[2](hidden), labels)
            loss.backward()
            return loss

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            losses = []
            for _ in range(4):
                losses.append(optimizer.step(closure).item())
                scheduler.step()
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.1 / 16)
        self.same_everywhere(model)

    def test_refuses_what_cannot_be(self) -> None:
        model = network().to(BF16)
        optimizer = distributed(model)
        with self.assertRaisesRegex(ValueError, "once"):
            ht.optim.MasterWeights(optimizer)
        with self.assertRaisesRegex(TypeError, "state_dict"):
            copy.deepcopy(optimizer)
        with self.assertRaisesRegex(ValueError, "float32 copies"):
            optimizer.load_state_dict({**optimizer.state_dict(), "masters": []})


if __name__ == "__main__":
    unittest.main(verbosity=2)
