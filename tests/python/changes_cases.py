# SPDX-License-Identifier: Apache-2.0
"""Models that change while the distributed optimizer trains them, run by each rank."""

from __future__ import annotations

import unittest

import torch
from small_network import Case, examples, loss_of, network, own, sgd

import hvd.torch as ht


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


class Models(Case):
    def test_frozen_then_trained(self) -> None:
        model, alone = network(), network()
        model[0].requires_grad_(False)
        alone[0].requires_grad_(False)
        optimizer = ht.DistributedOptimizer(sgd(model), model.named_parameters())
        plain = sgd(alone)
        for step in range(6):
            trains = step >= 2
            for one in (model, alone):
                one[0].requires_grad_(trains)
                one[2].requires_grad_(step < 4)
            optimizer.zero_grad(set_to_none=True)
            plain.zero_grad(set_to_none=True)
            loss_of(model, *map(own, examples(step))).backward()
            loss_of(alone, *examples(step)).backward()
            optimizer.step()
            plain.step()
        self.as_one_rank(model, alone)

    def test_groups_added_later(self) -> None:
        model, alone = network(), network()
        optimizer, plain = (
            torch.optim.SGD(one[0].parameters(), lr=0.1, momentum=0.9) for one in (model, alone)
        )
        optimizer = ht.DistributedOptimizer(optimizer, model.named_parameters())
        for step in range(4):
            if step == 2:
                optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.05})
                plain.add_param_group({"params": alone[2].parameters(), "lr": 0.05})
            model.zero_grad()
            alone.zero_grad()
            loss_of(model, *map(own, examples(step))).backward()
            loss_of(alone, *examples(step)).backward()
            optimizer.step()
            plain.step()
        self.as_one_rank(model, alone)

    def test_tied_weights_and_two_passes_of_one_graph(self) -> None:
        def tied() -> torch.nn.Module:
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
            model[1].weight = model[0].weight
            return model

        model, alone = tied(), tied()
        optimizer = ht.DistributedOptimizer(
            sgd(model), model.named_parameters(), backward_passes_per_step=2
        )
        plain = sgd(alone)
        for step in range(3):
            optimizer.zero_grad()
            plain.zero_grad()
            loss = loss_of(model, *map(own, examples(step)))
            loss.backward(retain_graph=True)
            loss.backward()
            (2 * loss_of(alone, *examples(step))).backward()
            optimizer.step()
            plain.step()
        self.as_one_rank(model, alone)

    def test_graphs_that_change_and_differ(self) -> None:
        model = torch.nn.ModuleList([torch.nn.Linear(8, 3) for _ in range(4)])
        ht.broadcast_parameters(model.state_dict(), 0)
        optimizer = ht.DistributedOptimizer(sgd(model), model.named_parameters())
        for step in range(6):
            optimizer.zero_grad()
            loss_of(model[(step + ht.rank()) % 4], *map(own, examples(step))).backward()
            optimizer.step()
        self.same_everywhere(model)

    def test_types_and_shapes_that_change(self) -> None:
        for compression in (ht.Compression.none, ht.Compression.bf16, ht.Compression.fp8_e4m3):
            model = network()
            optimizer = ht.DistributedOptimizer(
                sgd(model, 0.0), model.named_parameters(), compression=compression
            )
            for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.float32):
                model.to(dtype)
                optimizer.zero_grad(set_to_none=True)
                inputs, labels = map(own, examples(0))
                loss_of(model, inputs.to(dtype), labels).backward()
                optimizer.step()
                self.assertEqual(model[0].weight.dtype, dtype)
                self.same_everywhere(model)
            model[2].weight.data = torch.zeros(5, 12)
            model[2].bias.data = torch.zeros(5)
            model.zero_grad(set_to_none=True)
            loss_of(model, *map(own, examples(1))).backward()
            optimizer.step()
            self.assertEqual(len(model[2].bias.grad), 5)
            self.same_everywhere(model)

    def test_compiled(self) -> None:
        if not hasattr(torch, "compile"):
            self.skipTest("this torch has no compile")
        calls = 0

        def count(graph, inputs):
            nonlocal calls
            calls += 1
            return graph

        for whole in (True, False):
            model, alone = network(), network()
            optimizer = ht.DistributedOptimizer(sgd(model), model.named_parameters())
            plain = sgd(alone)
            runs: torch.nn.Module = model
            if whole:
                runs = torch.compile(model, backend=count, fullgraph=True)
            else:
                model[0].compile(backend=count)  # only a region

            def train(step, runs=runs, optimizer=optimizer):
                loss_of(runs, *map(own, examples(step))).backward()
                optimizer.step()
                optimizer.zero_grad()

            # A step that is compiled itself, too, with the backward pass in it.
            compiled = torch.compile(train, backend=count)
            for step in range(6):
                (compiled if step >= 3 else train)(step)
                plain.zero_grad()
                loss_of(alone, *examples(step)).backward()
                plain.step()
            self.as_one_rank(model, alone)
        self.assertGreater(calls, 0)


class LossScales(Case):
    """What compression keeps does not depend on the scale of the loss."""

    def train(self, compression, scaler=None) -> torch.nn.Module:
        model = network()
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1),
            model.named_parameters(),  # PowerSGD starts by name
            compression=compression,
        )
        for step in range(12):
            for overflows in (True, False) if scaler is not None and step == 7 else (False,):
                optimizer.zero_grad()
                loss = loss_of(model, *map(own, examples(step)))
                if overflows and ht.rank() == ht.size() - 1:
                    loss = loss * float("inf")
                if scaler is None:
                    loss.backward()
                    optimizer.step()
                else:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
        return model

    def test_that_move(self) -> None:
        if not hasattr(torch.amp, "GradScaler"):
            self.skipTest("this torch has no GradScaler for CPUs")
        for compression in (
            ht.Compression.top_k(0.05, smallest=1),
            ht.Compression.top_k(0.05, smallest=1, momentum=0.5),
            ht.Compression.power_sgd(1, smallest=1),
        ):
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=2)
            plain, scaled = self.train(compression), self.train(compression, scaler)
            self.assertEqual(scaler.get_scale(), 2.0 ** (16 + 3 - 1 + 2))
            for mine, other in zip(plain.parameters(), scaled.parameters()):
                self.assertTrue(torch.allclose(mine, other, rtol=1e-4, atol=1e-6))


class MomentumOfCompression(Case):
    """Gradients that travel whole train as with the optimizer's own momentum."""

    def test_is_that_of_the_optimizer(self) -> None:
        models = [network(), network()]
        models[1].load_state_dict(models[0].state_dict())
        optimizers = [
            ht.DistributedOptimizer(
                torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum),
                model.named_parameters(prefix=f"momentum{momentum}"),
                compression=compression,
            )
            for model, momentum, compression in (
                (models[0], 0.9, ht.Compression.none),
                (models[1], 0.0, ht.Compression.top_k(0.01, smallest=10**6, momentum=0.9)),
            )
        ]
        for step in range(8):
            for model, optimizer in zip(models, optimizers):
                optimizer.zero_grad()
                loss_of(model, *map(own, examples(step))).backward()
                optimizer.step()
        for mine, other in zip(models[0].parameters(), models[1].parameters()):
            self.assertTrue(torch.allclose(mine, other, rtol=1e-4, atol=1e-6))

    def test_two_are_refused(self) -> None:
        moving = ht.Compression.top_k(momentum=0.9)
        model = network()
        ht.DistributedOptimizer(sgd(model), compression=ht.Compression.top_k())
        for wrong in (
            torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
            torch.optim.Adam(model.parameters()),
            torch.optim.SGD(network().double().parameters(), lr=0.1),
        ):
            with self.assertRaisesRegex(ValueError, "compression has momentum=0.9"):
                ht.DistributedOptimizer(wrong, compression=moving)


if __name__ == "__main__":
    unittest.main(verbosity=2)
