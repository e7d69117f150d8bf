# SPDX-License-Identifier: Apache-2.0
"""Comparisons of replicas meet their like on other ranks, or say why they do not."""

from __future__ import annotations

import contextlib
import os
import threading
import unittest
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

import hvd.torch as hvd
from hvd import replicas
from hvd.errors import MismatchError, ReplicasDifferError
from hvd.torch.replicas import check_replicas

INPUT = torch.ones(2, 4)


def model_of(value: float) -> torch.nn.Module:
    model = torch.nn.Linear(4, 4)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, value)
    return model


def sgd(model: torch.nn.Module, prefix: str | None = None, **arguments: Any) -> Any:
    named = None if prefix is None else model.named_parameters(prefix)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return hvd.DistributedOptimizer(optimizer, named, **arguments)


def steps(model: torch.nn.Module, optimizer: Any, count: int = 3) -> None:
    for _ in range(count):
        optimizer.zero_grad()
        model(INPUT).sum().backward()
        optimizer.step()


@contextlib.contextmanager
def variable(value: str) -> Iterator[None]:
    with mock.patch.dict(os.environ, {"HVD_CHECK_REPLICAS": value}):
        yield


class Order(unittest.TestCase):
    """Two optimizers, of different values, that each rank uses in an order of its own."""

    def pairs(self, names: tuple[str | None, str | None]) -> list[tuple[Any, Any]]:
        models = model_of(1.0), model_of(2.0)
        made = [(one, sgd(one, name, check_replicas=1)) for one, name in zip(models, names)]
        return made if hvd.rank() == 0 else made[::-1]

    def test_steps_as_over_a_set(self) -> None:
        for names in ("order.a", "order.b"), (None, None):
            mine = self.pairs(names)
            with self.subTest(names):
                for _ in range(4):
                    for model, _ in mine if hvd.rank() == 0 else mine[::-1]:
                        model(INPUT).sum().backward()
                    for _, optimizer in mine:
                        optimizer.step()
                        optimizer.zero_grad()

    def test_threads(self) -> None:
        mine = self.pairs(("thread.a", "thread.b"))
        failures: list[BaseException] = []

        def train(model: Any, optimizer: Any) -> None:
            try:
                steps(model, optimizer, 6)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=train, args=one) for one in mine]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_drift_is_told_of_the_right_one(self) -> None:
        mine = self.pairs(("drift.a", "drift.b"))
        if hvd.rank() == 1:
            mine[0][0].bias.data += 1  # of the second
        with self.assertRaisesRegex(ReplicasDifferError, "parameter 'drift.b.bias' "):
            for _ in range(4):
                for model, optimizer in sorted(mine, key=lambda one: float(one[0].weight.sum())):
                    steps(model, optimizer, 1)


class Intervals(unittest.TestCase):
    def refused(self, first: int, second: int) -> Any:
        mine = (first, second)[hvd.rank()]
        told = ", ".join(
            f"{one} on rank {(first, second).index(one)}" for one in sorted((first, second))
        )
        return self.assertRaisesRegex(
            MismatchError,
            rf"^rank {hvd.rank()}: check_replicas, or HVD_CHECK_REPLICAS, is {mine} here and not "
            rf"the same on all ranks: {told}; give all ranks the same",
        )

    def test_other_arguments(self) -> None:
        for number, both in enumerate(((1, 3), (1, 0), (0, 5))):
            model = model_of(1.0)
            optimizer = sgd(model, f"argument{number}", check_replicas=both[hvd.rank()])
            with self.subTest(both), self.refused(*both):
                steps(model, optimizer, 8)

    def test_other_variables(self) -> None:
        model = model_of(1.0)
        with variable(("100", "0")[hvd.rank()]):
            optimizer = sgd(model, "variable")
            with self.refused(100, 0):
                steps(model, optimizer)
            with self.refused(100, 0):
                check_replicas([torch.ones(2)], "variable")

    def test_off_on_all_ranks_costs_one_exchange(self) -> None:
        model = model_of(1.0 + hvd.rank())
        optimizer = sgd(model, "off", check_replicas=0)
        with mock.patch("hvd.replicas.start", wraps=replicas.start) as start:
            steps(model, optimizer, 9)
        self.assertEqual(start.call_count, 1)
        with variable("0"):
            for _ in range(3):
                check_replicas([torch.full((1,), float(hvd.rank()))], "off")


class NotANumber(unittest.TestCase):
    def test_kinds_of_nan_are_silent(self) -> None:
        model = model_of(float("nan"))
        if hvd.rank() == 1:
            model.weight.data.view(-1).view(torch.int32)[0] |= 1
        with self.assertNoLogs("hvd"):
            steps(model, sgd(model, "nan", check_replicas=1), 5)


if __name__ == "__main__":
    hvd.init()
    unittest.main()
