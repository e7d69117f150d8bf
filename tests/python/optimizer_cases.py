# SPDX-License-Identifier: Apache-2.0
"""The distributed optimizer, run by each rank; with the learning oracle.

The oracle: N ranks with batch B learn what one rank learns with batch N*B, loss by loss.
"""

from __future__ import annotations

import copy
import unittest

import torch

import hvd
import hvd.torch as ht

BATCH = 8
STEPS = 20


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def network(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.Tanh(), torch.nn.Linear(24, 4))


def examples(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What all ranks see together in a step."""
    generator = torch.Generator().manual_seed(100 + step)
    count = BATCH * ht.size()
    inputs = torch.randn(count, 16, generator=generator)
    return inputs, (inputs[:, :4] + inputs[:, 4:8]).argmax(1)


def own(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[ht.rank() * BATCH : (ht.rank() + 1) * BATCH]


def loss_of(model: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(inputs), labels)


def reference_losses(make) -> list[float]:
    """One rank alone with the whole batch."""
    model = network()
    optimizer = make(model.parameters())
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, *examples(step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class Oracle(unittest.TestCase):
    def check(self, make, passes: int = 1, **options) -> None:
        model = network(seed=ht.rank())
        ht.broadcast_parameters(model.named_parameters(), 0)
        optimizer = ht.DistributedOptimizer(
            make(model.parameters()),
            model.named_parameters(),
            backward_passes_per_step=passes,
            **options,
        )
        losses = []
        for step in range(STEPS):
            optimizer.zero_grad()
            inputs, labels = map(own, examples(step))
            total = 0.0
            for part in range(passes):
                loss = loss_of(model, inputs[part::passes], labels[part::passes]) / passes
                loss.backward()
                total += loss.item()
            optimizer.step()
            losses.append(ht.allreduce(torch.tensor(total, dtype=torch.float64)).item())
        for step, (mine, expected) in enumerate(zip(losses, reference_losses(make))):
            self.assertLess(abs(mine - expected), 1e-5 * abs(expected), f"step {step}")
        self.assertLess(losses[-1], losses[0])

    def test_sgd(self) -> None:
        self.check(lambda parameters: torch.optim.SGD(parameters, lr=0.1))

    def test_momentum(self) -> None:
        self.check(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))

    def test_predivide(self) -> None:
        self.check(
            lambda parameters: torch.optim.SGD(parameters, lr=0.1), gradient_predivide_factor=2.0
        )

    def test_accumulated_passes(self) -> None:
        self.check(lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), passes=2)

    def test_adam(self) -> None:
        self.check(lambda parameters: torch.optim.Adam(parameters, lr=0.01))


class Optimizer(unittest.TestCase):
    def equal_everywhere(self, model: torch.nn.Module) -> None:
        for name, parameter in model.named_parameters():
            everyone = ht.allgather(parameter.detach().reshape(1, -1), name=f"equal.{name}")
            self.assertTrue(torch.equal(everyone, everyone[:1].expand_as(everyone)), name)

    def trainer(self, **options):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return model, ht.DistributedOptimizer(optimizer, model.named_parameters(), **options)

    def test_keeps_its_class_and_shares_state(self) -> None:
        model = network()
        plain = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, gamma=0.5)
        optimizer = ht.DistributedOptimizer(plain, model.named_parameters())
        self.assertIsInstance(optimizer, torch.optim.SGD)
        loss_of(model, *map(own, examples(0))).backward()
        optimizer.step()
        scheduler.step()
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.05)
        self.equal_everywhere(model)

    def test_clipping_between_synchronize_and_step(self) -> None:
        model, optimizer = self.trainer()
        loss_of(model, *map(own, examples(0))).backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        with optimizer.skip_synchronize():
            optimizer.step()
        self.equal_everywhere(model)

    def test_unused_parameters_do_not_hang(self) -> None:
        model, optimizer = self.trainer()
        if ht.rank() == 0:
            loss_of(model, *map(own, examples(0))).backward()
        else:
            model[2].weight.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        optimizer.step()
        self.equal_everywhere(model)

    def test_one_backward_pass_too_many_is_an_error(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank reduces nothing")
        model, optimizer = self.trainer()
        loss_of(model, *map(own, examples(0))).backward()
        words = f"rank {ht.rank()}: another backward pass.*step"
        with self.assertRaisesRegex(hvd.InvalidArgumentError, words):
            loss_of(model, *map(own, examples(0))).backward()
        optimizer.zero_grad()
        loss_of(model, *map(own, examples(0))).backward()
        optimizer.step()
        self.equal_everywhere(model)

    def test_gradients_on_their_way_are_not_set_to_zero(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank reduces nothing")
        model, optimizer = self.trainer(wait_in_backward=False)
        model[0].weight.sum().backward()
        with self.assertRaisesRegex(AssertionError, "zero_grad.*synchronize"):
            optimizer.zero_grad()
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "another backward pass"):
            model[0].weight.sum().backward()
        # It does not hang; but this rank has changed a gradient that was on its way.
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "'0.weight' was edited in place"):
            optimizer.step()

    def test_half_compression(self) -> None:
        model, optimizer = self.trainer(compression=ht.Compression.fp16)
        loss_of(model, *map(own, examples(0))).backward()
        optimizer.step()
        self.assertEqual(model[0].weight.grad.dtype, torch.float32)
        self.equal_everywhere(model)

    def test_every_compression_learns(self) -> None:
        choices = {
            "bf16": ht.Compression.bf16,
            "e4m3": ht.Compression.fp8_e4m3,
            "e5m2": ht.Compression.fp8_e5m2,
            "top_k": ht.Compression.top_k(0.1, smallest=1),
            "power_sgd": ht.Compression.power_sgd(rank=1, smallest=1),
        }
        for name, compression in choices.items():
            with self.subTest(name):
                model, optimizer = self.trainer(compression=compression)
                losses = []
                for step in range(STEPS):
                    optimizer.zero_grad()
                    loss = loss_of(model, *map(own, examples(step)))
                    loss.backward()
                    optimizer.step()
                    losses.append(ht.allreduce(loss.detach()).item())
                self.assertLess(sum(losses[-5:]), 0.9 * sum(losses[:5]))
                self.equal_everywhere(model)

    def test_methods_do_what_they_say(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank reduces nothing")
        model = torch.nn.Linear(50, 40, bias=False)
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=1.0),
            model.named_parameters(),
            compression=ht.Compression.top_k(0.01),
        )
        gradient = torch.arange(2000, dtype=torch.float32).reshape(40, 50)
        model.weight.backward(gradient)
        optimizer.synchronize()
        found = model.weight.grad.nonzero()
        self.assertEqual(len(found), 20)  # the largest 1 %
        self.assertTrue(torch.allclose(model.weight.grad[-1, -20:], gradient[-1, -20:]))

    def test_eight_bits_of_any_size(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank reduces nothing")
        # Large enough to be shared out, and not a multiple of the ranks.
        for count in (5, 70001, 199999):
            parameter = torch.nn.Parameter(torch.zeros(count))
            optimizer = ht.DistributedOptimizer(
                torch.optim.SGD([parameter], lr=1.0),
                [(f"eight.{count}", parameter)],
                compression=ht.Compression.fp8_e4m3,
            )
            parameter.backward(torch.full((count,), ht.rank() + 1.0))
            optimizer.synchronize()
            mean = (ht.size() + 1) / 2
            self.assertTrue(torch.allclose(parameter.grad, torch.tensor(mean), rtol=0.1))

    def test_compressed_gradients_that_differ_are_an_error(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank cannot differ")
        odd = ht.rank() == 1
        for name, compression in {
            "e4m3": ht.Compression.fp8_e4m3,
            "top_k": ht.Compression.top_k(0.1),
            "power_sgd": ht.Compression.power_sgd(),
        }.items():
            for what, shape in (("shape", (60, 50)), ("order", (50, 40)), ("turned", (40, 50))):
                with self.subTest(name, what=what):
                    value = torch.zeros(shape if odd else (40, 50))
                    if odd and what == "turned":
                        value = torch.zeros(50, 40).t()
                    parameter = torch.nn.Parameter(value)
                    optimizer = ht.DistributedOptimizer(
                        torch.optim.SGD([parameter], lr=1.0),
                        [(f"{name}.{what}", parameter)],
                        compression=compression,
                    )
                    with self.assertRaisesRegex(hvd.MismatchError, f"{name}.{what}"):
                        parameter.backward(torch.ones_like(parameter))
                    optimizer.zero_grad()  # nothing is under way

    def test_what_compression_keeps_is_saved(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank reduces nothing")

        def train(model, optimizer, steps) -> None:
            for step in steps:
                optimizer.zero_grad()
                loss_of(model, *map(own, examples(step))).backward()
                optimizer.step()

        choice = {"compression": ht.Compression.top_k(0.05, smallest=1)}
        model, optimizer = self.trainer(**choice)
        train(model, optimizer, range(3))
        resumed, second = self.trainer(**choice)
        resumed.load_state_dict(model.state_dict())
        # As from a file: newer torch shares the tensors of a state that is loaded.
        second.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        second.load_compression(optimizer.save_compression())
        train(model, optimizer, range(3, 6))
        train(resumed, second, range(3, 6))
        self.assertTrue(torch.equal(model[0].weight, resumed[0].weight))
        with self.assertRaises(hvd.InvalidArgumentError):
            second.load_compression(optimizer.save_compression()[:-1])

    def test_own_compressor(self) -> None:
        class Rounded(ht.Compression.none):
            @staticmethod
            def compress(tensor):
                return tensor.to(torch.bfloat16), tensor.dtype

        model, optimizer = self.trainer(compression=Rounded)
        loss_of(model, *map(own, examples(0))).backward()
        optimizer.step()
        self.assertEqual(model[0].weight.grad.dtype, torch.float32)
        self.equal_everywhere(model)

    def test_memory_orders_that_differ_are_an_error(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank cannot differ")
        model = torch.nn.Conv2d(3, 4, 3)
        odd = ht.rank() == 1
        if odd:
            model = model.to(memory_format=torch.channels_last)
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
        )
        with self.assertRaisesRegex(hvd.MismatchError, "gradient.weight.*layout") as caught:
            model(torch.randn(2, 3, 8, 8)).square().mean().backward()
        for words in ("0", "rank 1 has layout", "gradient.weight"):
            self.assertIn(words, str(caught.exception))
        # The engine works on, and so does this optimizer once the orders agree.
        optimizer.zero_grad()
        model.weight.data = model.weight.data.contiguous()
        model.weight.grad = None
        model(torch.randn(2, 3, 8, 8)).square().mean().backward()
        optimizer.step()
        self.equal_everywhere(model)

    def test_sparse_gradients(self) -> None:
        # The same training by dense gradients, as sparse ones, and as sparse ones made dense.
        trained = []
        for sparse, as_dense in ((False, False), (True, False), (True, True)):
            torch.manual_seed(3)
            model = torch.nn.ModuleList(torch.nn.Embedding(10, 3, sparse=sparse) for _ in range(2))
            optimizer = ht.DistributedOptimizer(
                torch.optim.SGD(model.parameters(), lr=0.03),
                model.named_parameters(),
                sparse_as_dense=as_dense,
                backward_passes_per_step=2,
            )
            for step in range(3):
                for _ in range(2):
                    rows = torch.tensor([ht.rank(), 1, 1])
                    # From the second step on rank 0 does without the second table.
                    used = model[: 1 if step and ht.rank() == 0 else 2]
                    sum(one(rows).square().sum() for one in used).backward()
                optimizer.step()
                self.assertEqual(
                    model[0].weight.grad.is_sparse, sparse and not (as_dense and ht.size() > 1)
                )
                optimizer.zero_grad(set_to_none=True)
            self.equal_everywhere(model)
            trained.append(torch.cat([one.weight.detach() for one in model]))
        self.assertTrue(torch.allclose(trained[0], trained[1], atol=1e-6))
        self.assertTrue(torch.allclose(trained[0], trained[2], atol=1e-6))

    def test_channels_last(self) -> None:
        torch.manual_seed(0)
        model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
        )
        inputs = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last) * (ht.rank() + 1)
        for _ in range(2):
            model(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        self.equal_everywhere(model)

    def test_closure(self) -> None:
        model, optimizer = self.trainer()

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model, *map(own, examples(0)))
            loss.backward()
            return loss

        self.assertGreater(optimizer.step(closure).item(), 0)
        self.equal_everywhere(model)

    def test_names_are_checked(self) -> None:
        model = network()
        plain = torch.optim.SGD(model.parameters(), lr=0.1)
        pairs = list(model.named_parameters())
        with self.assertRaisesRegex(ValueError, "tuples"):
            ht.DistributedOptimizer(plain, list(model.parameters()))
        with self.assertRaisesRegex(ValueError, "unique"):
            ht.DistributedOptimizer(plain, [pairs[0], pairs[0], *pairs])
        with self.assertRaisesRegex(ValueError, "not named"):
            ht.DistributedOptimizer(plain, pairs[:1])
        with self.assertRaisesRegex(ValueError, "must be > 0"):
            ht.DistributedOptimizer(plain, pairs, backward_passes_per_step=0)


class State(unittest.TestCase):
    def test_reaches_optimizers_that_never_stepped(self) -> None:
        for make in (
            lambda parameters: torch.optim.Adam(parameters, lr=0.1 * (ht.rank() + 1)),
            lambda parameters: torch.optim.SGD(parameters, lr=0.1 * (ht.rank() + 1), momentum=0.5),
            lambda parameters: torch.optim.LBFGS(parameters, lr=0.1 * (ht.rank() + 1)),
        ):
            model = network()
            optimizer = make(model.parameters())
            if ht.rank() == 0:

                def closure(model=model, optimizer=optimizer):
                    optimizer.zero_grad()
                    loss = loss_of(model, *examples(0))
                    loss.backward()
                    return loss

                optimizer.step(closure)
            ht.broadcast_parameters(model.state_dict(), 0)
            ht.broadcast_optimizer_state(optimizer, 0)
            self.assertEqual(optimizer.param_groups[0]["lr"], 0.1)
            self.assertEqual(len(optimizer.state) > 0, True)
            texts = ht.allgather_object(str(optimizer.state_dict()["state"]))
            self.assertEqual(set(texts), {texts[0]})

    def test_empty_state_stays_empty(self) -> None:
        model = network()
        before = model[0].weight.clone()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.1)
        ht.broadcast_optimizer_state(optimizer, 0)
        self.assertTrue(torch.equal(before, model[0].weight))
        self.assertEqual(len(optimizer.state), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
