# SPDX-License-Identifier: Apache-2.0
"""What training scripts do with the distributed optimizer, run by each rank."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import pickle
import sys
import unittest
import warnings
from collections.abc import Callable
from unittest import mock

import torch
from small_network import Case, examples, loss_of, network, own, sgd

import hvd
import hvd.torch as ht
from hvd._core.settings import checked_settings


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


class Mistakes(Case):
    """Each is refused where it is made, with what to write instead, and changes nothing."""

    def refused(self, text: str, call: Callable[[], object]) -> None:
        with self.subTest(text), self.assertRaisesRegex(ValueError, text):
            call()

    def test_optimizers(self) -> None:
        model = network()
        optimizer = ht.DistributedOptimizer(sgd(model), model.named_parameters())
        make = ht.DistributedOptimizer
        self.refused("not Sequential", lambda: make(model))
        self.refused("a DistributedOptimizer already", lambda: make(optimizer))
        self.refused("op is 'average'", lambda: make(sgd(model), op="average"))
        self.refused("compression is 'fp16'", lambda: make(sgd(model), compression="fp16"))
        self.refused("process_set is \\[0\\]", lambda: make(sgd(model), process_set=[0]))
        mine = f"rank {ht.rank()}: "
        self.refused(
            f"{mine}gradient_predivide_factor is 0",
            lambda: make(sgd(model), gradient_predivide_factor=0.0),
        )
        self.refused(
            f"{mine}backward_passes_per_step is -1",
            lambda: optimizer.set_backward_passes_per_step(-1),
        )
        self.refused(
            f"{mine}Adasum does not support average_aggregated_gradients",
            lambda: checked_settings(
                compression=ht.Compression.none,
                op=ht.Adasum,
                process_set=ht.global_process_set,
                average_aggregated_gradients=True,
            ),
        )
        self.refused("state_dict", lambda: ht.broadcast_parameters(model, root_rank=0))
        self.refused(
            "broadcast_optimizer_state", lambda: ht.broadcast_parameters(optimizer.state_dict(), 0)
        )
        model.state_dict()

    def test_models_that_differ(self) -> None:
        layers = [torch.nn.Linear(4, 4) for _ in range(2 + (ht.rank() == 1))]
        model = torch.nn.Sequential(*layers)
        if ht.size() > 1:
            with self.assertRaisesRegex(hvd.MismatchError, "rank 1 alone has .*2.bias"):
                ht.broadcast_parameters(model.state_dict())
        pairs = list(model[:2].named_parameters())
        ht.broadcast_parameters(pairs[::-1] if ht.rank() == 1 else pairs)  # names match, not places

    def test_operations(self) -> None:
        self.refused("not float: use", lambda: ht.allreduce(1.5))
        self.refused("not list: use", lambda: ht.allgather([1.0]))
        self.refused("not ndarray: use", lambda: ht.broadcast(torch.ones(1).numpy(), 0))
        with torch.no_grad():
            self.refused("allreduce: a torch.Tensor", lambda: ht.allreduce(1.5))
        self.refused("op is 'sum'", lambda: ht.allreduce(torch.ones(1), op="sum"))
        self.refused("process_set is \\[0\\]", lambda: ht.allreduce(torch.ones(1), process_set=[0]))

    def test_loss_of_another_model(self) -> None:
        self.several_ranks()
        critic = network()
        optimizer = ht.DistributedOptimizer(sgd(critic), critic.named_parameters())
        loss_of(critic, *examples(0)).backward()
        with self.assertRaisesRegex(
            AssertionError, f"rank {ht.rank()}.*another backward pass.*requires_grad_"
        ):
            loss_of(critic, *examples(0)).backward()
        # The other way: to reduce these gradients as well, and throw them away.
        optimizer.synchronize()
        optimizer.zero_grad()
        loss_of(critic, *examples(0)).backward()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer.step()


class Groups(Case):
    def test_learn_as_one_rank(self) -> None:
        for number, passes in itertools.product((1, 2, 3, 9), (1, 2)):
            with self.subTest(groups=number, passes=passes):
                model, alone = network(), network()
                optimizer = ht.DistributedOptimizer(
                    sgd(model),
                    model.named_parameters(),
                    backward_passes_per_step=passes,
                    groups=number,
                )
                plain = sgd(alone)
                for step in range(3):
                    optimizer.zero_grad()
                    plain.zero_grad()
                    inputs, labels = map(own, examples(step))
                    for part in range(passes):
                        (
                            loss_of(model, inputs[part::passes], labels[part::passes]) / passes
                        ).backward()
                    loss_of(alone, *examples(step)).backward()
                    optimizer.step()
                    plain.step()
                self.as_one_rank(model, alone)

    def test_leave_when_all_are_there(self) -> None:
        self.several_ranks()
        first, second, third = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD([first, second, third], lr=1.0),
            groups=[[first, third]],
            wait_in_backward=False,
        )
        missing = optimizer._hvd_reducers[0]._gradients.missing
        first.sum().backward()
        self.assertEqual(missing(), [0, 1, 2])
        second.sum().backward()
        self.assertEqual(missing(), [0, 2])
        third.sum().backward()
        self.assertEqual(missing(), [])
        optimizer.step()
        self.assertEqual(third.tolist(), [-1, -1])
        optimizer.zero_grad()
        first.sum().backward()
        with self.assertRaisesRegex(AssertionError, "another backward pass"):
            first.sum().backward()
        optimizer.step()  # what waits for its group has not been sent yet
        self.assertEqual(first.tolist(), [-3, -3])
        # A member without gradient holds nobody up for ever.
        optimizer.zero_grad()
        first.sum().backward()
        optimizer.step()
        self.assertEqual(third.tolist(), [-1, -1])

    def test_bad_ones_are_refused(self) -> None:
        model = network()
        first, second = list(model.parameters())[:2]
        for groups, words in (
            (-1, "non-negative integer"),
            ("two", "non-negative integer"),
            ([first, second], "lists of torch.Tensor"),
            ([["0.weight"]], "lists of torch.Tensor"),
            ([[first, second], [first]], "only appear once"),
        ):
            with self.subTest(groups=groups), self.assertRaisesRegex(ValueError, words):
                ht.DistributedOptimizer(sgd(model), groups=groups)
        with self.assertWarnsRegex(DeprecationWarning, "groups"):
            ht.DistributedOptimizer(sgd(model), num_groups=2)


class Adasum(Case):
    def test_adds_the_adasum_of_what_changed(self) -> None:
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            with self.subTest(dtype=dtype):
                model = network().to(dtype)
                alone = copy.deepcopy(model)
                optimizer = ht.DistributedOptimizer(
                    sgd(model), model.named_parameters(), op=ht.Adasum
                )
                plain = sgd(alone)
                for step in range(3):
                    inputs, labels = map(own, examples(step))
                    old = [parameter.detach().clone() for parameter in alone.parameters()]
                    for one, trained in ((plain, alone), (optimizer, model)):
                        one.zero_grad()
                        loss_of(trained, inputs.to(dtype), labels).backward()
                        one.step()
                    for number, (parameter, before) in enumerate(zip(alone.parameters(), old)):
                        change = parameter.detach() - before
                        total = ht.allreduce(change, op=ht.Adasum, name=f"change.{number}")
                        parameter.data.copy_(before + total if ht.size() > 1 else parameter)
                    for mine, theirs in zip(model.parameters(), alone.parameters()):
                        self.assertTrue(torch.equal(mine, theirs))
                self.same_everywhere(model)

    def test_compressed_and_in_a_process_set(self) -> None:
        self.several_ranks()
        some = ht.add_process_set(range(ht.size() - 1))
        for options in ({"compression": ht.Compression.fp16}, {"process_set": some}):
            model = network()
            optimizer = ht.DistributedOptimizer(
                sgd(model), model.named_parameters(), op=ht.Adasum, **options
            )
            losses = []
            for step in range(10):
                optimizer.zero_grad()
                loss = loss_of(model, *map(own, examples(step)))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            self.assertLess(losses[-1], losses[0])
            if "process_set" not in options:
                self.same_everywhere(model)
        ht.remove_process_set(some)

    def test_refuses_what_cannot_be(self) -> None:
        model = network()
        optimizer = ht.DistributedOptimizer(sgd(model), op=ht.Adasum)
        with self.assertRaisesRegex(AssertionError, "not supported"), optimizer.skip_synchronize():
            pass
        with self.assertRaises(hvd.UnsupportedError):
            ht.DistributedOptimizer(sgd(model), op=ht.Adasum, compression=ht.Compression.top_k())
        with self.assertRaisesRegex(ValueError, "op != Average"):
            ht.DistributedOptimizer(sgd(model), op=ht.Adasum, gradient_predivide_factor=2.0)


class State(Case):
    def test_of_any_optimizer_arrives(self) -> None:
        class Odd(torch.optim.SGD):
            """Keeps what is not a tensor, and tensors inside of other things."""

        kinds = [
            lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
            lambda p: torch.optim.Adadelta(p),
            lambda p: torch.optim.Rprop(p),
            lambda p: torch.optim.ASGD(p),
            lambda p: torch.optim.LBFGS(p, max_iter=2),
            lambda p: Odd(p, lr=0.1, momentum=0.9),
        ]
        for make, wrapped in itertools.product(kinds, (False, True)):
            model = network()
            optimizer = make(model.parameters())
            if wrapped:
                optimizer = ht.DistributedOptimizer(optimizer, model.named_parameters())
            elif ht.rank() == 0:
                for step in range(2):
                    loss = loss_of(model, *map(own, examples(step)))
                    loss.backward()
                    optimizer.step(lambda loss=loss: loss)
                if isinstance(optimizer, Odd):
                    optimizer.state[model[0].weight]["odd"] = (7, [torch.arange(3)], {1: None})
            ht.broadcast_optimizer_state(optimizer, 0, model)
            texts = ht.allgather_object(str(optimizer.state_dict()))
            self.assertTrue(all(text == texts[0] for text in texts))
            self.assertEqual(len(optimizer.state) > 0, not wrapped)
            ht.broadcast_optimizer_state(optimizer, root_rank=ht.size() - 1, model=model)

    def test_parameters_come_in_any_form(self) -> None:
        for form in (
            lambda model: model.named_parameters(),
            lambda model: model.parameters(),
            lambda model: list(model.named_parameters()),
            lambda model: model.state_dict(),
            lambda model: (pair for pair in model.state_dict().items()),
        ):
            model = network(seed=ht.rank())
            ht.broadcast_parameters(form(model), root_rank=ht.size() - 1)
            self.assertTrue(torch.equal(model[0].weight, network(ht.size() - 1)[0].weight))

    def test_objects_that_pickle_refuses_without_cloudpickle(self) -> None:
        with mock.patch.dict(sys.modules, cloudpickle=None):
            ranks = ", ".join(map(str, range(ht.size())))
            text = f"rank {ranks} could not pickle its object: Can't "
            with self.assertRaisesRegex(ValueError, text) as caught:
                ht.allgather_object(lambda: ht)
        self.assertIsInstance(caught.exception.__cause__, (AttributeError, pickle.PicklingError))

    @unittest.skipUnless(importlib.util.find_spec("cloudpickle"), "cloudpickle is not installed")
    def test_objects_that_pickle_refuses(self) -> None:
        step = ht.rank() + 1
        functions = ht.allgather_object(lambda value: value + step)
        self.assertEqual([one(1) for one in functions], [2 + rank for rank in range(ht.size())])
        same = ht.broadcast_object(lambda: step, root_rank=0)
        self.assertEqual(same(), 1)


class Scripts(Case):
    def test_lbfgs_decides_alike(self) -> None:
        model, alone = network(), network()

        def run(trained, optimizer, batch) -> list[float]:
            def closure():
                optimizer.zero_grad()
                loss = loss_of(trained, *batch)
                loss.backward()
                return loss

            return [optimizer.step(closure).item() for _ in range(3)]

        search = {"lr": 0.5, "max_iter": 5, "line_search_fn": "strong_wolfe"}
        optimizer = ht.DistributedOptimizer(
            torch.optim.LBFGS(model.parameters(), **search), model.named_parameters()
        )
        losses = run(model, optimizer, list(map(own, examples(0))))
        expected = run(alone, torch.optim.LBFGS(alone.parameters(), **search), examples(0))
        for mine, theirs in zip(losses, expected):
            self.assertAlmostEqual(mine, theirs, delta=0.02 * abs(theirs))
        self.same_everywhere(model)

    def test_scaled_gradients_overflow_on_all_ranks(self) -> None:
        if not hasattr(torch.amp, "GradScaler"):
            self.skipTest("this torch has no GradScaler for the CPU")
        model = network()
        optimizer = ht.DistributedOptimizer(sgd(model), model.named_parameters())
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        before = copy.deepcopy(model.state_dict())
        for overflow in (True, False):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of(model, *map(own, examples(0)))
            if overflow and ht.rank() == ht.size() - 1:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
            scaler.update()
            self.assertEqual(scaler.get_scale(), 4.0)
            stayed = torch.equal(before["0.weight"], model[0].weight)
            self.assertEqual(stayed, overflow)
            self.same_everywhere(model)

    def test_schedulers_and_loaded_state(self) -> None:
        model = network()
        plain = sgd(model)
        before = torch.optim.lr_scheduler.StepLR(plain, 1, gamma=0.5)
        optimizer = ht.DistributedOptimizer(plain, model.named_parameters())
        after = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                optimizer.zero_grad(set_to_none=True)
                self.assertIsNone(model[0].weight.grad)
                loss_of(model, *map(own, examples(0))).backward()
                optimizer.step()
                before.step()
                after.step()
        self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.1 / 16)
        self.same_everywhere(model)

    def test_copies_are_plain(self) -> None:
        model = network()
        optimizer = ht.DistributedOptimizer(sgd(model), model.named_parameters())
        loss_of(model, *map(own, examples(0))).backward()
        optimizer.step()
        twin = copy.deepcopy(model)
        self.assertEqual(len(pickle.loads(pickle.dumps(model)).state_dict()), 4)
        kept, trained = copy.deepcopy((optimizer, model))
        self.assertIs(type(kept), torch.optim.SGD)
        self.assertIs(type(pickle.loads(pickle.dumps(optimizer))), torch.optim.SGD)
        optimizer.zero_grad()
        # Neither has hooks: nothing is on its way, and nothing waits for other ranks.
        if ht.rank() == 0:
            loss_of(twin, *map(own, examples(1))).backward()
            kept.zero_grad()
            loss_of(trained, *map(own, examples(1))).backward()
            kept.step()
            self.assertFalse(torch.equal(trained[0].weight, model[0].weight))
        loss_of(model, *map(own, examples(1))).backward()
        optimizer.step()
        self.same_everywhere(model)

    def test_two_networks_against_each_other(self) -> None:
        makes, judges = network(), network(1)
        pairs = [
            ht.DistributedOptimizer(
                sgd(model, 0.5), [(f"{name}.{n}", p) for n, p in model.named_parameters()]
            )
            for name, model in (("makes", makes), ("judges", judges))
        ]
        for step in range(3):
            inputs, labels = map(own, examples(step))
            judges.requires_grad_(True)
            pairs[1].zero_grad()
            (loss_of(judges, inputs, labels) + judges(torch.ones(1, 8)).sum()).backward()
            pairs[1].step()
            judges.requires_grad_(False)
            pairs[0].zero_grad()
            judges(torch.cat([makes(inputs)] * 3, 1)[:, :8]).square().mean().backward()
            pairs[0].step()
        # Both at once.
        judges.requires_grad_(True)
        for one in pairs:
            one.zero_grad()
        judges(torch.cat([makes(inputs)] * 3, 1)[:, :8]).square().mean().backward()
        for one in pairs:
            one.step()
        self.same_everywhere(makes)
        self.same_everywhere(judges)

    def test_wrapped_again(self) -> None:
        model = network()
        for step in range(3):
            optimizer = ht.DistributedOptimizer(sgd(model), model.named_parameters())
            optimizer.zero_grad()
            loss_of(model, *map(own, examples(step))).backward()
            optimizer.step()
        self.same_everywhere(model)


if __name__ == "__main__":
    unittest.main(verbosity=2)
