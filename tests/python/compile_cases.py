# SPDX-License-Identifier: Apache-2.0
"""Collectives in graphs of torch.compile: whole graphs, gradients, order."""

from __future__ import annotations

import importlib
import unittest
from collections.abc import Callable

import torch

import hvd.torch as hvd

torch.set_num_threads(1)
HAS_OPERATORS = hasattr(torch.library, "register_autograd")
# What each rank gives, from a tensor of four rows.
FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "allreduce": lambda x: hvd.allreduce(x * 2) + 1,
    "allreduce of a sum with scales": lambda x: hvd.allreduce(
        x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0
    ),
    "allreduce with a half wire": lambda x: hvd.allreduce(x, compression=hvd.Compression.bf16),
    "allreduce max": lambda x: hvd.allreduce(x, op=hvd.Max),
    "grouped_allreduce": lambda x: sum(hvd.grouped_allreduce([x, x * 3], op=hvd.Sum)),
    "allgather": lambda x: hvd.allgather(x * 2).square(),
    "broadcast": lambda x: hvd.broadcast(x + 1, root_rank=0) * x,
    "alltoall": lambda x: hvd.alltoall(torch.cat([x] * hvd.size())) * 2,
    "reducescatter": lambda x: hvd.reducescatter(torch.cat([x, x[:1]]), op=hvd.Sum) * 3,
    "reducescatter of averages": lambda x: hvd.reducescatter(x),
}


def setUpModule() -> None:
    hvd.init()


def given() -> torch.Tensor:
    return (torch.arange(12.0).reshape(4, 3) * (hvd.rank() + 1) + 1).requires_grad_()


@unittest.skipUnless(HAS_OPERATORS, "operators need PyTorch 2.4")
class TestCompiled(unittest.TestCase):
    def compiled(self, function: Callable) -> Callable:
        torch._dynamo.reset()
        return torch.compile(function, fullgraph=True, backend="aot_eager")

    def test_whole_graphs_give_what_eager_gives(self) -> None:
        for name, function in FUNCTIONS.items():
            with self.subTest(name):
                eager, traced = given(), given()
                wanted = function(eager)
                wanted.sum().backward()
                got = self.compiled(function)(traced)
                got.sum().backward()
                torch.testing.assert_close(got, wanted)
                torch.testing.assert_close(traced.grad, eager.grad)

    def test_in_place_and_splits(self) -> None:
        def in_place(x: torch.Tensor) -> torch.Tensor:
            y = x.detach() * 1
            hvd.allreduce_(y, op=hvd.Sum)
            hvd.broadcast_(y, root_rank=0)
            return y + hvd.grouped_allreduce_([y * 2])[0]

        torch.testing.assert_close(self.compiled(in_place)(given()), in_place(given()))

        def exchange(x: torch.Tensor, splits: torch.Tensor) -> tuple:
            rows, counts = hvd.alltoall(x, splits)
            return rows * 2, counts

        splits = torch.zeros(hvd.size(), dtype=torch.int32)
        splits[0], splits[-1] = splits[0] + 1 + hvd.rank(), splits[-1] + 1
        eager, traced = given(), given()
        wanted = exchange(eager, splits)
        got = self.compiled(exchange)(traced, splits)
        torch.testing.assert_close(got, wanted)
        wanted[0].sum().backward()
        got[0].sum().backward()
        torch.testing.assert_close(traced.grad, eager.grad)

    def test_unused_and_equal_operations_stay_in_order(self) -> None:
        # Ranks match unnamed operations by their order: what a compiler leaves out or swaps on one
        # rank would be missed on the other, which runs the same function uncompiled.
        def step(x: torch.Tensor) -> torch.Tensor:
            hvd.allreduce(x * 5, op=hvd.Sum)  # nobody looks at the result
            one = hvd.allreduce(x, op=hvd.Sum)
            two = hvd.allreduce(x + 1, op=hvd.Sum)
            again = hvd.allreduce(x, op=hvd.Sum)
            return two * 100 + one + again

        mine = given().detach()
        total = sum(torch.arange(12.0).reshape(4, 3) * (r + 1) + 1 for r in range(hvd.size()))
        run = self.compiled(step) if hvd.rank() == 0 else step
        for _ in range(2):
            torch.testing.assert_close(run(mine), (total + hvd.size()) * 100 + total * 2)

    def test_training_step_in_one_graph(self) -> None:
        torch.manual_seed(1)
        weight = torch.randn(3, 2, requires_grad=True)

        def loss(x: torch.Tensor) -> torch.Tensor:
            return hvd.allreduce((x @ weight).square().mean())

        loss(given()).backward()
        wanted, weight.grad = weight.grad, None
        self.compiled(loss)(given()).backward()
        torch.testing.assert_close(weight.grad, wanted)

    def test_uneven_rows_are_an_error_that_says_so(self) -> None:
        if hvd.size() == 1:
            self.skipTest("one rank has equal rows")
        run = self.compiled(lambda x: hvd.allgather(x[: 1 + hvd.rank()]))
        with self.assertRaisesRegex(RuntimeError, "compiled code"):
            run(given())

    def test_opcheck(self) -> None:
        from hvd.torch import library  # noqa: F401 (defines the operators)

        x, common = given(), (None, 0, 0)
        operators = torch.ops.hvd
        cases = [
            (operators.allreduce, ([x, x.detach()], hvd.Sum, 1.0, 1.0, 0, *common)),
            (operators.allgather, (x, 4 * hvd.size(), *common)),
            (operators.broadcast, (x, 0, *common)),
            (operators.alltoall, (torch.cat([given()] * hvd.size()), *common)),
            (operators.reducescatter, (x, hvd.Average, 1.0, 1.0, *common)),
        ]
        for operator, arguments in cases:
            with self.subTest(str(operator)):
                torch.library.opcheck(operator.default, arguments)


@unittest.skipIf(HAS_OPERATORS, "this PyTorch has operators")
class TestOlder(unittest.TestCase):
    def test_a_sentence_says_what_is_needed(self) -> None:
        with self.assertRaisesRegex(hvd.HvdError, "2.4"):
            importlib.import_module("hvd.torch.library")


if __name__ == "__main__":
    unittest.main()
