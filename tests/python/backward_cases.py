# SPDX-License-Identifier: Apache-2.0
"""What programs do to gradients between backward() and step(), run by each rank.

Each idiom trains what one rank learns with the batches of all, and leaves all ranks with the same
weights; where the library cannot know, an error names the gradient.
"""

from __future__ import annotations

import copy
import unittest
import warnings
from collections.abc import Callable

import torch
import torch.utils.checkpoint
from small_network import Case, own, sgd

import hvd
import hvd.torch as ht


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def wide(width: int) -> torch.nn.Module:
    """Gradients above 1 MB travel otherwise than small ones, and longer."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, width), torch.nn.Tanh(), torch.nn.Linear(width, width, bias=False)
    )


def batch(step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(8 * ht.size(), 8, generator=generator)


Edit = Callable[[torch.nn.Module, torch.optim.Optimizer], None]


def clip(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def divide(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for parameter in model.parameters():
        parameter.grad.div_(3)


def clamp_data(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for parameter in model.parameters():
        parameter.grad.data.clamp_(-1e-3, 1e-3)


def centralise(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for parameter in model.parameters():
        parameter.grad = parameter.grad - parameter.grad.mean()


def exchange_data(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for parameter in model.parameters():
        parameter.grad.data = parameter.grad.data * 2


def cast_there_and_back(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model.double()
    model.float()


def drop_one(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model[0].bias.grad = None


def horovod(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if hasattr(optimizer, "synchronize"):
        optimizer.synchronize()
    clip(model, optimizer)


class Idioms(Case):
    def train(self, width: int, edit: Edit, passes: int = 1, **options) -> None:
        model, alone = wide(width), wide(width)
        optimizer = ht.DistributedOptimizer(
            sgd(model), model.named_parameters(), backward_passes_per_step=passes, **options
        )
        plain = sgd(alone)
        for step in range(3):
            optimizer.zero_grad()
            plain.zero_grad()
            for _ in range(passes):
                model(own(batch(step))).square().mean().backward()
                alone(batch(step)).square().mean().backward()
            edit(model, optimizer)
            edit(alone, plain)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of step() after synchronize()
                optimizer.step()
            plain.step()
            self.as_one_rank(model, alone)
            self.same_everywhere(model)

    def test_each_at_each_width(self) -> None:
        for width in (64, 1024):
            for edit in (
                clip,
                divide,
                clamp_data,
                centralise,
                exchange_data,
                cast_there_and_back,
                drop_one,
                horovod,
            ):
                with self.subTest(edit.__name__, width=width):
                    self.train(width, edit)

    def test_with_passes_and_in_groups(self) -> None:
        self.train(64, clip, passes=2)
        self.train(64, centralise, groups=1)

    def test_gradients_that_backward_left_are_those_of_all_ranks(self) -> None:
        weight = torch.nn.Parameter(torch.zeros(3))
        optimizer = ht.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0))
        for _ in range(2):
            weight.backward(torch.full((3,), float(ht.rank())))
            self.assertEqual(weight.grad.tolist(), [(ht.size() - 1) / 2] * 3)
            optimizer.synchronize()
            self.assertEqual(weight.grad.tolist(), [(ht.size() - 1) / 2] * 3)
            optimizer.zero_grad()

    def test_a_step_that_all_ranks_leave_out(self) -> None:
        weight = torch.nn.Parameter(torch.zeros(3))
        optimizer = ht.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0))
        for _ in range(3):
            # As a program does that finds its loss infinite, with the model's own zero_grad().
            weight.sum().backward()
            weight.grad = None
        weight.sum().backward()
        optimizer.step()
        self.assertEqual(weight.tolist(), [-1.0] * 3)


def clamp_where_there(module: torch.nn.Module) -> None:
    for parameter in module.parameters():
        if parameter.grad is not None:
            parameter.grad.data.clamp_(-1e-3, 1e-3)


class Incomplete(Case):
    """Some gradients did not come."""

    def setUp(self) -> None:
        self.several_ranks()
        torch.manual_seed(0)
        self.model = torch.nn.ModuleDict(
            {name: torch.nn.Linear(8, 512) for name in ("used", "spare")}
        )

    def wrapped(self, **options):
        return ht.DistributedOptimizer(sgd(self.model), self.model.named_parameters(), **options)

    def refuses(self, edit: Callable[[torch.nn.Parameter], None], how: str) -> None:
        optimizer = self.wrapped(wait_in_backward=False)
        self.model["used"](own(batch(0))).sum().backward()
        if ht.rank() == 1:
            edit(self.model["used"].weight)
            words = f"rank 1: gradients were changed.*'used.weight' was {how}.*synchronize"
            with self.assertRaisesRegex(hvd.errors.BackwardPassError, words):
                optimizer.step()
        else:
            optimizer.step()
        optimizer.zero_grad()
        # The optimizer goes on.
        ht.broadcast_parameters(self.model.state_dict(), 0)
        ht.broadcast_optimizer_state(optimizer, 0)
        self.model["used"](own(batch(1))).sum().backward()
        optimizer.step()
        self.same_everywhere(self.model)

    def test_edited_in_place(self) -> None:
        self.refuses(lambda weight: weight.grad.mul_(0.5), "edited in place")

    def test_replaced(self) -> None:
        def replace(weight: torch.nn.Parameter) -> None:
            weight.grad = weight.grad - weight.grad.mean()

        self.refuses(replace, "replaced")

    def test_other_memory(self) -> None:
        def exchange(weight: torch.nn.Parameter) -> None:
            weight.grad.data = weight.grad.data * 2

        self.refuses(exchange, "replaced")

    def test_removed(self) -> None:
        def remove(weight: torch.nn.Parameter) -> None:
            weight.grad = None

        self.refuses(remove, "removed")

    def test_edits_that_leave_no_trace_where_a_layer_is_unused(self) -> None:
        alone = copy.deepcopy(self.model)
        optimizer, plain = self.wrapped(), sgd(alone)
        for step in range(3):
            optimizer.zero_grad(set_to_none=True)
            plain.zero_grad(set_to_none=True)
            self.model["used"](own(batch(step))).square().mean().backward()
            alone["used"](batch(step)).square().mean().backward()
            for one in (self.model, alone):
                clamp_where_there(one)
            optimizer.step()
            plain.step()
            self.assertIsNone(self.model["spare"].weight.grad)
            self.as_one_rank(self.model, alone)
            self.same_everywhere(self.model)

    def test_different_ones_on_each_rank_and_operations_between(self) -> None:
        optimizer = self.wrapped()
        for step in range(4):
            optimizer.zero_grad(set_to_none=True)
            which = ("used", "spare", None)[(step + ht.rank()) % 3]
            total = sum(
                part(own(batch(step))).sum()
                for name, part in self.model.items()
                if which in (name, None)
            )
            total.backward()
            ht.allreduce(total.detach(), name="loss")
            clamp_where_there(self.model)
            optimizer.step()
            self.same_everywhere(self.model)

    def test_several_passes_of_which_each_gives_some(self) -> None:
        alone = copy.deepcopy(self.model)
        optimizer, plain = self.wrapped(), sgd(alone)
        for step in range(3):
            optimizer.zero_grad(set_to_none=True)
            plain.zero_grad(set_to_none=True)
            for name in ("used", "spare"):
                self.model[name](own(batch(step))).square().mean().backward()
                alone[name](batch(step)).square().mean().backward()
                clamp_where_there(self.model[name])
                clamp_where_there(alone[name])
            optimizer.step()
            plain.step()
            self.as_one_rank(self.model, alone)
            self.same_everywhere(self.model)

    def test_a_step_that_is_left_out(self) -> None:
        optimizer = self.wrapped()
        for clears in (optimizer.zero_grad, self.model.zero_grad):
            self.model["used"](own(batch(0))).sum().backward()
            clears(set_to_none=True)
        self.model["used"](own(batch(1))).sum().backward()
        optimizer.step()
        self.same_everywhere(self.model)

    def test_two_optimizers_of_which_ranks_need_another_first(self) -> None:
        optimizers = [
            ht.DistributedOptimizer(
                sgd(part), [(f"{name}.{n}", p) for n, p in part.named_parameters()]
            )
            for name, part in self.model.items()
        ]
        # Rank by rank one is complete, and the other one is not.
        total = torch.zeros(())
        for name, part in self.model.items():
            is_whole = (name == "used") == (ht.rank() % 2 == 0)
            total = total + (part(own(batch(0))) if is_whole else part.weight).sum()
        total.backward()
        for optimizer in optimizers:
            optimizer.step()
        self.same_everywhere(self.model)

    def test_reentrant_checkpoints(self) -> None:
        checkpoint = torch.utils.checkpoint.checkpoint
        model, alone = wide(64), wide(64)
        optimizer, plain = ht.DistributedOptimizer(sgd(model), model.named_parameters()), sgd(alone)
        for step in range(2):
            optimizer.zero_grad()
            plain.zero_grad()
            for one, inputs in ((model, own(batch(step))), (alone, batch(step))):
                hidden = inputs.clone().requires_grad_(True)
                for layer in one:
                    hidden = checkpoint(layer, hidden, use_reentrant=True)
                hidden.square().mean().backward()
            clip(model, optimizer)
            clip(alone, plain)
            optimizer.step()
            plain.step()
            self.as_one_rank(model, alone)

    def test_never_waiting(self) -> None:
        optimizer = self.wrapped(wait_in_backward=False)
        model = self.model
        for step in range(2):
            optimizer.zero_grad()
            sum(part(own(batch(step))).sum() for part in model.values()).backward()
            optimizer.synchronize()
            clip(model, optimizer)
            with optimizer.skip_synchronize():
                optimizer.step()
            self.same_everywhere(model)
        with self.assertRaisesRegex(ValueError, "wait_in_backward is 'yes': give True or False"):
            self.wrapped(wait_in_backward="yes")


class Unused(Case):
    def test_what_no_rank_used_is_as_with_one_rank(self) -> None:
        torch.manual_seed(0)
        model = torch.nn.ModuleDict({name: torch.nn.Linear(8, 4) for name in "abc"})
        alone = copy.deepcopy(model)
        options = {"lr": 0.1, "weight_decay": 0.5}
        optimizer = ht.DistributedOptimizer(
            torch.optim.AdamW(model.parameters(), **options), model.named_parameters()
        )
        plain = torch.optim.AdamW(alone.parameters(), **options)
        untouched = copy.deepcopy(model["c"].state_dict())
        for step in range(3):
            optimizer.zero_grad(set_to_none=True)
            plain.zero_grad(set_to_none=True)
            # `b` is used by the last rank alone, `c` by none.
            loss = model["a"](own(batch(step))).square().mean()
            if ht.rank() == ht.size() - 1:
                loss = loss + model["b"](torch.ones(1, 8)).sum() * ht.size()
            loss.backward()
            (
                alone["a"](batch(step)).square().mean() + alone["b"](torch.ones(1, 8)).sum()
            ).backward()
            optimizer.step()
            plain.step()
            self.assertIsNone(model["c"].weight.grad)
            self.assertIsNotNone(model["b"].weight.grad)
        for name, value in model["c"].state_dict().items():
            self.assertTrue(torch.equal(value, untouched[name]))
        for (name, mine), theirs in zip(model.named_parameters(), alone.parameters()):
            self.assertTrue(torch.allclose(mine, theirs, atol=1e-4), name)
        self.same_everywhere(model)

    def test_a_step_without_any_gradient(self) -> None:
        model = wide(16)
        optimizer = ht.DistributedOptimizer(
            torch.optim.AdamW(model.parameters(), weight_decay=0.5), model.named_parameters()
        )
        before = copy.deepcopy(model.state_dict())
        optimizer.step()
        self.assertTrue(torch.equal(before["0.weight"], model[0].weight))


class Lives(Case):
    def test_an_optimizer_survives_a_new_job(self) -> None:
        model = wide(64)
        spare = torch.nn.Parameter(torch.zeros(2))
        optimizer = ht.DistributedOptimizer(torch.optim.SGD([*model.parameters(), spare], lr=0.1))
        for step in range(2):
            # Under way as the job ends, since one gradient is missing.
            model(own(batch(step))).square().mean().backward()
            ht.shutdown()
            ht.init()
            optimizer.zero_grad()
            (model(own(batch(step))).square().mean() + spare.sum()).backward()
            optimizer.step()
            optimizer.zero_grad()
            self.same_everywhere(model)

    def test_the_second_optimizer_of_a_model_is_named(self) -> None:
        self.several_ranks()
        model = wide(16)
        first = ht.DistributedOptimizer(sgd(model), model.named_parameters())
        second = ht.DistributedOptimizer(
            torch.optim.Adam(model.parameters()), model.named_parameters()
        )
        words = f"rank {ht.rank()}: .*of Adam of .*backward_cases.py:.*of SGD of .*:.*same param"
        with self.assertRaisesRegex(hvd.errors.BackwardPassError, words):
            model(own(batch(0))).sum().backward()
        del first
        for one in model.parameters():
            one.grad = None
        model(own(batch(0))).sum().backward()
        second.step()
        self.same_everywhere(model)


if __name__ == "__main__":
    unittest.main(verbosity=2)
