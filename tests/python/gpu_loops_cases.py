# SPDX-License-Identifier: Apache-2.0
"""Training loops as people write them on GPUs: streams of their own, graphs, scalers, compilers.

Each rank trains a model twice, by all ranks and alone with the batch of all, on the same device:
both must come to the same weights. See gpu_seam.py for where tensors are; over the doubles there is
one stream.
"""

from __future__ import annotations

import shutil
import unittest
from collections.abc import Callable

import torch
from gpu_seam import IS_DOUBLE, own_device, side_stream

import hvd.torch as ht

DEVICE = own_device()
BATCH = 8
STEPS = 20 if IS_DOUBLE else 200
WIDTH = 64
Make = Callable[[torch.nn.Module], torch.optim.Optimizer]


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def network() -> torch.nn.Module:
    torch.manual_seed(3)
    layers: list[torch.nn.Module] = []
    for _ in range(6):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 4)).to(DEVICE)


def examples(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What all ranks see together in a step."""
    generator = torch.Generator().manual_seed(100 + step)
    inputs = torch.randn(BATCH * ht.size(), WIDTH, generator=generator)
    return inputs.to(DEVICE), inputs[:, :4].argmax(1).to(DEVICE)


def own(part: torch.Tensor) -> torch.Tensor:
    """The share of this rank."""
    return part[ht.rank() * BATCH : (ht.rank() + 1) * BATCH]


def loss_of(model: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(inputs), labels)


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def litter(step: int) -> None:
    """Takes memory that has just become free, and fills it with what would spoil a gradient."""
    for count in (WIDTH * WIDTH, WIDTH, 4 * WIDTH, 1 + step % 7):
        torch.full((count,), float("nan"), device=DEVICE)


def trained_alone(steps: int = STEPS, make: Make = sgd) -> torch.nn.Module:
    model = network()
    optimizer = make(model)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss_of(model, *examples(step)).backward()
        optimizer.step()
    return model


class Case(unittest.TestCase):
    def same(self, model: torch.nn.Module, expected: torch.nn.Module, tolerance: float = 1e-3):
        for (name, mine), other in zip(model.named_parameters(), expected.parameters()):
            far = float((mine.detach() - other.detach()).abs().max())
            self.assertLessEqual(far, tolerance, f"{name} differs by {far}")  # nan: not less

    def distributed(
        self, model: torch.nn.Module, make: Make = sgd, **options: object
    ) -> torch.optim.Optimizer:
        optimizer = ht.DistributedOptimizer(make(model), model.named_parameters(), **options)
        ht.broadcast_parameters(model.state_dict(), 0)
        return optimizer


class Streams(Case):
    """A step whose parts run on several streams, ordered by their waits alone."""

    def train(self, backward_aside: bool, step_aside: bool, **options: object) -> None:
        model = network()
        optimizer = self.distributed(model, **options)
        for step in range(STEPS):
            inputs, labels = (own(part) for part in examples(step))
            with side_stream(backward_aside):
                optimizer.zero_grad(set_to_none=True)
                loss = loss_of(model, inputs, labels)
                litter(step)
                loss.backward()
                litter(step)
            with side_stream(step_aside):
                optimizer.step()
                litter(step)
        self.same(model, trained_alone())

    def test_backward_aside(self) -> None:
        self.train(True, False)

    def test_step_aside(self) -> None:
        self.train(False, True)

    def test_both_aside(self) -> None:
        self.train(True, True)

    def test_one_stream(self) -> None:
        self.train(False, False)

    def test_waits_left_to_the_step(self) -> None:
        self.train(True, False, wait_in_backward=False)

    def test_passes(self) -> None:
        model = network()
        optimizer = self.distributed(model, backward_passes_per_step=2)
        for step in range(STEPS // 2):
            optimizer.zero_grad(set_to_none=True)
            inputs, labels = (own(part) for part in examples(step))
            for some, wanted in zip(inputs.chunk(2), labels.chunk(2)):
                with side_stream(True):
                    (loss_of(model, some, wanted) / 2).backward()
                    litter(step)
            optimizer.step()
        self.same(model, trained_alone(STEPS // 2))

    def test_results_that_are_dropped(self) -> None:
        for step in range(STEPS):
            with side_stream(step % 2 == 0):
                mine = torch.full((1 << 16,), float(ht.rank()), device=DEVICE)
                handle = ht.allreduce_async(mine, op=ht.Sum, name=f"dropped.{step % 3}")
                del mine
                litter(step)
            result = ht.synchronize(handle)
            litter(step)
            self.assertEqual(float(result.sum()), (1 << 16) * sum(range(ht.size())))


class Scalers(Case):
    """torch's own loop for mixed precision: all ranks skip a step, or none does."""

    def train(self, make: Make) -> None:
        scalers = getattr(torch.amp, "GradScaler", None)
        if scalers is None:
            self.skipTest("this torch has no GradScaler for CPUs")
        model = network()
        optimizer = self.distributed(model, make)
        scaler = scalers(DEVICE.type, init_scale=1024.0, growth_interval=5)
        for step in range(12):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(DEVICE.type, torch.float16 if DEVICE.type == "cuda" else None):
                loss = loss_of(model, *(own(part) for part in examples(step)))
            if step in (3, 4) and ht.rank() == ht.size() - 1:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            if step % 2:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            scaler.step(optimizer)
            scaler.update()
        self.assertTrue(all(bool(weight.isfinite().all()) for weight in model.parameters()))
        for weight in model.parameters():
            least, most = (ht.allreduce(weight.detach(), op=op) for op in (ht.Min, ht.Max))
            self.assertTrue(torch.equal(least, most))
        scales = ht.allgather_object(scaler.get_scale())
        self.assertEqual(len(set(scales)), 1, scales)
        self.assertLess(scales[0], 4096.0)

    def test_plain(self) -> None:
        self.train(sgd)

    def test_fused(self) -> None:
        self.train(lambda model: torch.optim.AdamW(model.parameters(), fused=True))


@unittest.skipIf(IS_DOUBLE, "CUDA's graphs of torch need a GPU")
class Graphs(Case):
    def test_captured_while_reductions_run(self) -> None:
        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        given, large = torch.ones(1000, device=DEVICE), torch.ones(1 << 24, device=DEVICE)
        ht.allreduce_(large, op=ht.Average, name="beside a capture")
        with torch.cuda.stream(side):
            handle = ht.allreduce_async_(large, op=ht.Average, name="beside a capture")
        with torch.cuda.graph(graph):
            result = given * 3
        ht.synchronize(handle)
        for value in (2.0, 5.0):
            given.fill_(value)
            graph.replay()
            self.assertEqual(float(result.sum()), 3000 * value)
        self.assertEqual(float(large.sum()), float(1 << 24))

    def test_forward_and_backward_of_a_graph(self) -> None:
        """torch.cuda.make_graphed_callables, before the optimizer's hooks are there."""
        model = network()
        sample = torch.zeros(BATCH, WIDTH, device=DEVICE, requires_grad=True)
        graphed = torch.cuda.make_graphed_callables(model, (sample,))
        optimizer = self.distributed(model)
        for step in range(STEPS):
            inputs, labels = (own(part) for part in examples(step))
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(graphed(inputs), labels).backward()
            optimizer.step()
        self.same(model, trained_alone())


@unittest.skipIf(IS_DOUBLE, "torch.compile's graphs need a GPU")
class Compiled(Case):
    def test_reduce_overhead(self) -> None:
        if not shutil.which("cc") and not shutil.which("gcc"):
            self.skipTest("torch.compile finds no C compiler")
        model = network()
        optimizer = self.distributed(model)
        compiled = torch.compile(model, mode="reduce-overhead")
        for step in range(10):
            inputs, labels = (own(part) for part in examples(step))
            optimizer.zero_grad(set_to_none=True)
            torch.compiler.cudagraph_mark_step_begin()
            loss_of(compiled, inputs, labels).backward()
            optimizer.step()
        self.same(model, trained_alone(10), 1e-2)

    def test_operators_in_cuda_graphs_are_refused(self) -> None:
        """A replayed graph would not ask the other ranks."""

        @torch.compile(mode="reduce-overhead")
        def doubled(values: torch.Tensor) -> torch.Tensor:
            return ht.allreduce(values * 2, op=ht.Sum) + 1

        with self.assertRaisesRegex(ht.HvdError, "is being captured into a graph"):
            for step in range(6):
                torch.compiler.cudagraph_mark_step_begin()
                found = doubled(torch.full((100,), float(step), device=DEVICE))
                self.assertEqual(float(found.sum()), 100.0 * (2 * step * ht.size() + 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
