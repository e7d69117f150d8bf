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


if __name__ == "__main__":
    unittest.main(verbosity=2)
