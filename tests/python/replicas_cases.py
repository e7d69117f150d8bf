# SPDX-License-Identifier: Apache-2.0
"""Replicas that drift apart are found, named, and told from those that only look so."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import unittest
import weakref
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

import hvd.torch as hvd
from hvd import replicas
from hvd._core import replica_guard
from hvd.errors import InvalidArgumentError, ReplicasDifferError
from hvd.torch import optim
from hvd.torch.replicas import check_replicas, entries_of, reading_of, sum_on_device

_in_flight: list[Any] = []  # optimizers whose gradients stay on their way


def network(seed: int = 0, width: int = 5) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(width, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3), torch.nn.Linear(3, 1)
    )


def adam(model: torch.nn.Module, prefix: str = "", **arguments: Any) -> Any:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return hvd.DistributedOptimizer(optimizer, model.named_parameters(prefix), **arguments)


def backward(model: torch.nn.Module, optimizer: Any, step: int) -> None:
    """The gradients of a batch that differs by rank."""
    optimizer.zero_grad()
    torch.manual_seed(100 * step + hvd.rank())
    model(torch.randn(4, 5)).pow(2).mean().backward()


def train(model: torch.nn.Module, optimizer: Any, steps: int, begin: int = 0) -> None:
    for step in range(begin, begin + steps):
        backward(model, optimizer, step)
        optimizer.step()


def flip(tensor: torch.Tensor, bit: int) -> None:
    """Flips one bit of the memory of a tensor."""
    memory = tensor.detach().view(-1).view(torch.uint8)
    memory[bit // 8] ^= 1 << (bit % 8)


class Digests(unittest.TestCase):
    def test_a_thousand_flipped_bits_are_all_found(self) -> None:
        model = network()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        model(torch.ones(4, 5)).sum().backward()
        optimizer.step()
        tensors = [parameter.detach() for parameter in model.parameters()]
        tensors += [one[key] for one in optimizer.state.values() for key in ("exp_avg", "step")]
        wanted, on_device = reading_of(tensors).value(), int(sum_on_device(tensors))
        draw = random.Random(1)
        found = found_on_device = 0
        for _ in range(1000):
            chosen = draw.choice(tensors)
            bit = draw.randrange(8 * chosen.numel() * chosen.element_size())
            flip(chosen, bit)
            found += reading_of(tensors).value() != wanted
            found_on_device += int(sum_on_device(tensors)) != on_device
            flip(chosen, bit)
        self.assertEqual((found, found_on_device), (1000, 1000))
        self.assertEqual(
            (reading_of(tensors).value(), int(sum_on_device(tensors))), (wanted, on_device)
        )

    def test_on_a_device_no_two_flips_of_one_tensor_are_alike(self) -> None:
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            tensor = torch.arange(37, dtype=torch.float64).to(dtype)
            seen = {int(sum_on_device([tensor]))}
            for bit in range(8 * tensor.numel() * tensor.element_size()):
                flip(tensor, bit)
                seen.add(int(sum_on_device([tensor])))
                flip(tensor, bit)
            self.assertEqual(len(seen), 1 + 8 * tensor.numel() * tensor.element_size())

    def test_the_place_counts_and_memory_order_does_not(self) -> None:
        tensor = torch.randn(3, 4, 5, 6)
        strided = tensor.to(memory_format=torch.channels_last)
        for digest in (
            lambda one: reading_of([one]).value(),
            lambda one: int(sum_on_device([one])),
        ):
            self.assertEqual(digest(tensor), digest(strided))
            self.assertNotEqual(digest(tensor), digest(tensor.flip(0)))

    def test_what_is_larger_than_a_pass_is_taken_in_parts(self) -> None:
        tensors = [
            torch.randn(1001),
            torch.randn(3).half(),
            torch.randn(17, dtype=torch.complex128),
        ]
        with mock.patch("hvd.torch.replicas._MOST_WORDS", 64):
            before = int(sum_on_device(tensors))
            for tensor in tensors:
                flip(torch.view_as_real(tensor) if tensor.is_complex() else tensor, 13)
                self.assertNotEqual(int(sum_on_device(tensors)), before)
                flip(torch.view_as_real(tensor) if tensor.is_complex() else tensor, 13)
            self.assertEqual(int(sum_on_device(tensors)), before)


class Settings(unittest.TestCase):
    def test_interval(self) -> None:
        with setting(None):
            self.assertEqual(replicas.checked_interval(None), 100)
        with setting("7"):
            self.assertEqual(replicas.checked_interval(None), 7)
            self.assertEqual(replicas.checked_interval(0), 0)
        with (
            setting("often"),
            self.assertRaisesRegex(
                ValueError, "CHECK_REPLICAS='often' is not a whole number of steps from 0"
            ),
        ):
            replicas.checked_interval(None)
        for wrong in (-1, 1.5, True):
            with self.assertRaisesRegex(
                InvalidArgumentError, "check_replicas is .*: give a number"
            ):
                replicas.checked_interval(wrong)  # type: ignore[arg-type]


@contextlib.contextmanager
def setting(value: str | None) -> Iterator[None]:
    old = os.environ.pop("HVD_CHECK_REPLICAS", None)
    if value is not None:
        os.environ["HVD_CHECK_REPLICAS"] = value
    try:
        yield
    finally:
        os.environ.pop("HVD_CHECK_REPLICAS", None)
        if old is not None:
            os.environ["HVD_CHECK_REPLICAS"] = old


class Drift(unittest.TestCase):
    """On three ranks: rank 1 is the odd one, unless said."""

    def assert_found(self, pattern: str) -> Any:
        return self.assertRaisesRegex(ReplicasDifferError, rf"^rank {hvd.rank()}: .*{pattern}")

    def test_equal_ranks_train_on(self) -> None:
        model = network()
        train(model, adam(model, check_replicas=1), 12)

    def test_a_forgotten_broadcast(self) -> None:
        model = network(seed=hvd.rank())
        optimizer = adam(model)
        train(model, optimizer, 1)  # nothing is waited for here
        with self.assert_found(
            "parameter '0.weight' is [0-9a-f]{16} on rank 0, .* on rank 1, .*2.*broadcast"
        ):
            train(model, optimizer, 1)
        hvd.broadcast_parameters(model.state_dict())
        hvd.broadcast_optimizer_state(optimizer)
        train(model, optimizer, 3)

    def test_a_skipped_step(self) -> None:
        model = network()
        optimizer = adam(model, check_replicas=4)
        with self.assert_found(
            "'0.weight' on rank 1 .* of the other 2 ranks .*since step 4|since step 4"
        ):
            for step in range(10):
                backward(model, optimizer, step)
                if step == 2 and hvd.rank() == 1:
                    optimizer.synchronize()
                else:
                    optimizer.step()

    def test_skipped_steps_where_the_check_is_due(self) -> None:
        for skipped in ([3], [3, 4], [3, 4, 5]):
            model = network()
            # Rank 1 learns of it when its next gradients are on their way already: they stay there.
            optimizer = adam(model, f"skipped{len(skipped)}", check_replicas=4)
            _in_flight.append(optimizer)
            with self.subTest(skipped=skipped), self.assert_found("on rank 1 "):
                for step in range(10):
                    backward(model, optimizer, step)
                    if step in skipped and hvd.rank() == 1:
                        optimizer.synchronize()
                    else:
                        optimizer.step()

    def test_a_flipped_bit_of_a_parameter_and_of_the_state(self) -> None:
        for what in ("parameter '2.weight'", "state 'exp_avg_sq' of parameter '0.bias'"):
            model = network()
            optimizer = adam(model, check_replicas=5)
            train(model, optimizer, 3)
            if hvd.rank() == 1:
                state = optimizer.state[model[0].bias]["exp_avg_sq"]
                flip(model[2].weight if "2." in what else state, 29)
            with self.subTest(what=what), self.assert_found("on rank 1 .*the other 2 ranks"):
                train(model, optimizer, 5, 3)

    def test_the_first_that_differs_is_named(self) -> None:
        model = network()
        named = [(name, one.detach().clone()) for name, one in model.named_parameters()]
        if hvd.rank() == 1:
            named[3][1][1] += 1
            named[5][1][0] += 1
        with self.assert_found(
            "'2.bias' on rank 1 .*is not that of the other 2 .*, and 1 more of 6:?"
        ):
            check_replicas(named)
        self.assertEqual([name for name, _ in named][3], "2.bias")

    def test_other_names_and_other_shapes(self) -> None:
        tensors = {"a": torch.zeros(4), "b": torch.ones(2)}
        check_replicas(tensors)
        check_replicas({**tensors, "c": hvd.rank()})
        if hvd.rank() == 1:
            tensors = {"a": torch.zeros(2, 2), "b": torch.ones(2)}
        with self.assert_found("'a' on rank 1 "):
            check_replicas(tensors)
        if hvd.rank() == 1:
            tensors = {"a": torch.zeros(4), "z": torch.ones(2)}
        else:
            tensors = {"a": torch.zeros(4), "b": torch.ones(2)}
        mine = "'z'" if hvd.rank() == 1 else "'b'"
        with self.assert_found(
            f"2 tensors here; its place 1, the first that differs, has {mine} here"
        ):
            check_replicas(tensors)
        if hvd.rank() == 1:
            del tensors["z"]
        mine = "nothing" if hvd.rank() == 1 else "'b'"
        with self.assert_found(f"place 1, the first that differs, has {mine} here.* on rank 1 "):
            check_replicas(tensors)

    def test_two_ranks_get_both_digests(self) -> None:
        pair = hvd.add_process_set([0, 1])
        with contextlib.suppress(ReplicasDifferError):
            check_replicas([torch.zeros(1)], process_set=pair)
            if hvd.rank() < 2:
                with self.assert_found("'0' is [0-9a-f]{16} on rank 0, [0-9a-f]{16} on rank 1"):
                    check_replicas([torch.full((1,), 1.0 + hvd.rank())], process_set=pair)
        hvd.remove_process_set(pair)

    def test_off(self) -> None:
        model = network(seed=hvd.rank())
        train(model, adam(model, check_replicas=0), 3)
        with setting("0"):
            train(model, adam(model), 3)
            check_replicas([torch.full((1,), float(hvd.rank()))])


class NoAlarm(unittest.TestCase):
    def test_frozen_parameters_and_buffers_may_differ(self) -> None:
        model = network()
        model[2].weight.requires_grad_(False)
        model[2].weight.data += hvd.rank()
        model.register_buffer("own", torch.full((2,), float(hvd.rank())))
        optimizer = adam(model, check_replicas=1)
        train(model, optimizer, 3)
        model[0].bias.requires_grad_(False)  # since then it may
        train(model, optimizer, 1, 3)
        model[0].bias.data += hvd.rank()
        with self.assertRaises(ReplicasDifferError):
            model[3].bias.data += hvd.rank()
            train(model, optimizer, 3, 4)

    def test_not_a_number(self) -> None:
        model = network()
        optimizer = adam(model, check_replicas=1)
        with torch.no_grad():
            model[0].weight[0, 0] = float("nan")
            if hvd.rank() == 1:
                flip(model[0].weight, 31)  # another NaN
        train(model, optimizer, 4)

    def test_steps_that_all_skip(self) -> None:
        model = network()
        optimizer = adam(model, check_replicas=2)
        for step in range(9):
            backward(model, optimizer, step)
            optimizer.synchronize()
            if step not in (0, 1, 4, 5, 6):
                with optimizer.skip_synchronize():
                    optimizer.step()

    def test_ranks_that_have_joined(self) -> None:
        model = network()
        optimizer = adam(model, check_replicas=2)
        train(model, optimizer, 3 + 2 * hvd.rank())
        last = hvd.join()
        # Those that joined first have older parameters now.
        hvd.broadcast_parameters(model.state_dict(), last)
        hvd.broadcast_optimizer_state(optimizer, last)
        train(model, optimizer, 5)

    def test_a_join_without_the_broadcast(self) -> None:
        model = network()
        optimizer = adam(model, check_replicas=2)
        train(model, optimizer, 3 + hvd.rank() // 2)
        self.assertEqual(hvd.join(), 2)
        with self.assertRaisesRegex(ReplicasDifferError, " on rank 2 .*of the other 2 ranks"):
            train(model, optimizer, 5)

    def test_process_sets_and_several_optimizers(self) -> None:
        pair = hvd.add_process_set([0, 2])
        together, apart = network(1), network(2 + hvd.rank() % 2)
        first = adam(together, check_replicas=2)
        second = adam(apart, check_replicas=1, process_set=pair)
        for step in range(7):
            train(together, first, 1, step)
            train(apart, second, 1, step)
        hvd.remove_process_set(pair)

    def test_parameters_that_come_later(self) -> None:
        model = network()
        optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)
        optimizer = hvd.DistributedOptimizer(optimizer, check_replicas=1)
        train(model, optimizer, 2)
        optimizer.add_param_group({"params": list(model[2].parameters())})
        model[3].requires_grad_(False)
        train(model, optimizer, 3)
        if hvd.rank() == 1:
            flip(model[2].weight, 20)
        with self.assertRaisesRegex(ReplicasDifferError, "on rank 1 "):
            train(model, optimizer, 3)

    def test_adasum_has_its_own_momentum(self) -> None:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer = hvd.DistributedOptimizer(
            optimizer, model.named_parameters(), op=hvd.Adasum, check_replicas=1
        )
        train(model, optimizer, 4)
        if hvd.rank() == 1:
            flip(model[0].weight, 20)
        with self.assertRaisesRegex(ReplicasDifferError, "on rank 1 "):
            train(model, optimizer, 3)

    def test_copies_of_weights_in_float32(self) -> None:
        model = network().to(torch.bfloat16)
        optimizer = optim.MasterWeights(torch.optim.Adam(model.parameters(), lr=0.01))
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), check_replicas=1)

        def step() -> None:
            optimizer.zero_grad()
            model(torch.ones(4, 5, dtype=torch.bfloat16)).sum().backward()
            optimizer.step()

        for _ in range(4):
            step()
        if hvd.rank() == 1:
            flip(optimizer._hvd_masters[2][1], 3)
        with self.assertRaisesRegex(ReplicasDifferError, "float32 copy of parameter '2.weight' on"):
            for _ in range(3):
                step()

    def test_lbfgs_reduces_many_times_in_a_step(self) -> None:
        model = network()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.LBFGS(model.parameters(), lr=0.1),
            model.named_parameters(),
            check_replicas=3,
        )

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(torch.ones(2, 5) * (1 + hvd.rank())).pow(2).mean()
            loss.backward()
            return loss

        for _ in range(4):
            optimizer.step(closure)

    def test_a_job_that_begins_again(self) -> None:
        model = network()
        optimizer = adam(model, check_replicas=3)
        train(model, optimizer, 3)
        self.assertEqual(optimizer._hvd_guard.reductions, 3)
        replica_guard._begin()
        self.assertEqual(optimizer._hvd_guard.reductions, 0)
        train(model, optimizer, 7)

    def test_an_optimizer_ends_with_its_last_user_and_its_set(self) -> None:
        pair = hvd.add_process_set([0, 1])
        model = network()
        optimizer = adam(model, process_set=pair)
        train(model, optimizer, 1)  # the first check is in flight
        found = weakref.ref(optimizer)
        del optimizer
        gc.collect()
        self.assertIsNone(found())
        hvd.remove_process_set(pair)


class Entries(unittest.TestCase):
    def test_shapes_and_kinds_of_nan(self) -> None:
        nan = torch.full((3,), float("nan"))
        other = nan.clone()
        flip(other, 31)
        (_, first), (_, second), (_, third) = entries_of(
            [("a", nan), ("b", other), ("c", nan.view(3, 1))]
        )
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)


if __name__ == "__main__":
    hvd.init()
    unittest.main()
