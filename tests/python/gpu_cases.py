# SPDX-License-Identifier: Apache-2.0
"""hvd.torch on tensors of GPUs, run by each rank: on real ones, or on the doubles; see gpu_seam.py.

What a GPU gives must be what the same program gives in CPU memory.
"""

from __future__ import annotations

import copy
import os
import unittest
from collections.abc import Callable

import torch
from gpu_seam import IS_DOUBLE, another_stream, captured_graph, idle_stream, own_device

import hvd.torch as ht
from hvd.torch import devices

DEVICE = own_device()
BATCH = 8
STEPS = 6
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64]
TYPES += [torch.uint8, torch.int8]
TYPES += [getattr(torch, n) for n in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, n)]


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def here(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=DEVICE)


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in CPU memory, also for the double."""
    copied = tensor.detach().cpu().clone()
    return devices.gpus.stays(copied) if IS_DOUBLE else copied  # type: ignore[attr-defined]


class Case(unittest.TestCase):
    def same(self, found: torch.Tensor, expected: torch.Tensor, tolerance: float = 0.0) -> None:
        self.assertEqual(found.device, DEVICE)
        self.assertEqual(found.dtype, expected.dtype)
        self.assertEqual(found.shape, expected.shape)
        far = (found.cpu().double() - expected.cpu().double()).abs()
        self.assertFalse(bool((far > tolerance).any()), f"{found} is not {expected}")


class Operations(Case):
    def test_reductions_of_each_type(self) -> None:
        ranks = range(ht.size())
        for dtype in TYPES:
            for count in (1, 7, 3000):
                mine = torch.full((count,), ht.rank() + 1, dtype=dtype, device=DEVICE)
                total = sum(rank + 1 for rank in ranks)
                for op, value in ((ht.Sum, total), (ht.Max, ht.size()), (ht.Min, 1)):
                    found = ht.allreduce(mine, op=op)
                    self.same(found, torch.full((count,), value, dtype=dtype))
                self.same(mine, torch.full((count,), ht.rank() + 1, dtype=dtype))

    def test_averages_and_scales(self) -> None:
        mine = here(*range(100)) * (ht.rank() + 1)
        mean = torch.arange(100.0) * (ht.size() + 1) / 2
        self.same(ht.allreduce(mine, op=ht.Average), mean, 1e-4)
        self.same(
            ht.allreduce(mine, op=ht.Sum, prescale_factor=0.5, postscale_factor=4.0),
            2 * ht.size() * mean,
            1e-2,
        )
        self.same(ht.allreduce(mine, compression=ht.Compression.fp16), mean, 1.0)

    def test_groups_in_place(self) -> None:
        tensors = [torch.full((n,), float(ht.rank()), device=DEVICE) for n in (3, 0, 50_000)]
        given = list(tensors)
        results = ht.grouped_allreduce_(tensors, op=ht.Sum)
        total = sum(range(ht.size()))
        for mine, result in zip(given, results):
            self.assertIs(mine, result)
            self.same(result, torch.full((len(mine),), float(total)))

    def test_other_memory_orders(self) -> None:
        mine = (torch.arange(12.0, device=DEVICE).reshape(3, 4) + ht.rank()).t()
        expected = torch.arange(12.0).reshape(3, 4).t() * ht.size() + sum(range(ht.size()))
        self.same(ht.allreduce(mine, op=ht.Sum), expected)
        self.same(ht.allreduce_(mine, op=ht.Sum), expected)

    def test_broadcasts(self) -> None:
        root = ht.size() - 1
        for dtype in [*TYPES, torch.bool]:
            mine = here(ht.rank() == root, 1, 0, dtype=dtype)
            self.same(ht.broadcast(mine, root), here(1, 1, 0, dtype=dtype))
            self.assertIs(ht.broadcast_(mine, root), mine)
            self.same(mine, here(1, 1, 0, dtype=dtype))

    def test_allgathers_of_equal_and_of_own_lengths(self) -> None:
        for rows in ([2] * ht.size(), [3 * rank for rank in range(ht.size())]):
            mine = torch.full((rows[ht.rank()], 2), float(ht.rank()), device=DEVICE)
            parts = [torch.full((n, 2), float(rank)) for rank, n in enumerate(rows)]
            self.same(ht.allgather(mine), torch.cat(parts))

    def test_alltoall_of_equal_and_of_own_parts(self) -> None:
        mine = torch.full((ht.size(), 3), float(ht.rank()), device=DEVICE)
        expected = torch.arange(float(ht.size())).reshape(-1, 1).expand(-1, 3)
        self.same(ht.alltoall(mine), expected)
        splits = [(ht.rank() + to) % 3 for to in range(ht.size())]
        sent = torch.full((sum(splits),), ht.rank(), device=DEVICE)
        rows, counts = ht.alltoall(sent, splits=splits)
        came = [(rank + ht.rank()) % 3 for rank in range(ht.size())]
        self.assertEqual(counts.tolist(), came)
        parts = [torch.full((count,), rank) for rank, count in enumerate(came)]
        self.same(rows, torch.cat(parts))

    def test_reducescatter_and_reduce(self) -> None:
        rows = 2 * ht.size() + 1
        mine = torch.arange(float(rows), device=DEVICE) * (ht.rank() + 1)
        total = torch.arange(float(rows)) * sum(range(1, ht.size() + 1))
        lengths = [2 + (rank < 1) for rank in range(ht.size())]
        self.same(
            ht.reducescatter(mine, op=ht.Sum), total.split(lengths)[ht.rank()].contiguous(), 1e-3
        )
        found = ht.reduce(mine, 0, op=ht.Sum)
        if ht.rank() == 0:
            self.same(found, total, 1e-3)
        else:
            self.assertIsNone(found)

    def test_gather_and_scatter(self) -> None:
        mine = torch.full((ht.rank() + 1,), ht.rank(), device=DEVICE)
        found = ht.gather(mine, 0)
        parts = [torch.full((rank + 1,), rank) for rank in range(ht.size())]
        self.same(found, torch.cat(parts) if ht.rank() == 0 else parts[0][:0])
        rows = torch.arange(2 * ht.size(), device=DEVICE).reshape(-1, 1)
        self.same(ht.scatter(rows, 0), rows[2 * ht.rank() : 2 * ht.rank() + 2].cpu())

    def test_sparse_sums(self) -> None:
        mine = torch.zeros(5, 2, device=DEVICE)
        mine[ht.rank() % 5] = 1
        mine[4] = 2
        found = ht.sparse_allreduce(mine.to_sparse(), op=ht.Sum).to_dense()
        self.same(found, ht.allreduce(mine, op=ht.Sum).cpu())

    def test_process_sets(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank is one set")
        evens = ht.add_process_set(ht.ProcessSet(range(0, ht.size(), 2)))
        if evens.included():
            found = ht.allreduce(here(1, 2), op=ht.Sum, process_set=evens)
            self.same(found, evens.size() * torch.tensor([1.0, 2.0]))
        ht.remove_process_set(evens)

    def test_handles(self) -> None:
        handles = [ht.allreduce_async(here(n), name=f"handle.{n}", op=ht.Sum) for n in range(20)]
        for n, handle in enumerate(handles):
            self.same(ht.synchronize(handle, host=n % 2 == 0), torch.tensor([n * ht.size() * 1.0]))
            self.assertIsNone(ht.synchronize(handle))
            self.assertRaises(ValueError, ht.poll, handle)
        handle = ht.broadcast_async(here(1), 0)
        while not ht.poll(handle):
            pass
        self.same(ht.synchronize(handle), torch.tensor([1.0]))

    def test_cpu_memory_in_the_same_step(self) -> None:
        first = ht.allreduce_async(here(1), name="mixed.gpu", op=ht.Sum)
        second = ht.allreduce_async(on_host(here(2)), name="mixed.cpu", op=ht.Sum)
        self.assertEqual(ht.synchronize(second).tolist(), [2.0 * ht.size()])
        self.same(ht.synchronize(first), torch.tensor([1.0 * ht.size()]))


@unittest.skipUnless(IS_DOUBLE, "a real stream cannot be told to do nothing")
@unittest.skipIf(os.environ.get("HVD_BACKEND") == "staged", "through host memory all waits")
class StreamOrder(Case):
    """The host goes on while the device has not even made the inputs."""

    def test_of_operations(self) -> None:
        total = torch.tensor([1.0 * sum(range(ht.size()))])
        self.same(ht.allreduce(here(ht.rank()), name="order", op=ht.Sum), total)
        with idle_stream() as go_on:
            mine = [here(ht.rank()) for _ in range(3)]
            found = ht.allreduce(mine[0], name="order", op=ht.Sum)
            self.assertIs(ht.synchronize(ht.allreduce_async_(mine[1], op=ht.Sum)), mine[1])
            handle = ht.allreduce_async_(mine[2], op=ht.Sum)
            self.assertFalse(ht.poll(handle))
            self.same(mine[1], here(ht.rank()))
            go_on()
            self.same(ht.synchronize(handle, host=True), total)
        self.same(found, total)
        self.same(mine[1], total)

    def test_of_an_optimizer(self) -> None:
        weights = [torch.nn.Parameter(torch.zeros(5, device=DEVICE)) for _ in range(4)]
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD(weights, lr=0.0), [(f"order.{i}", w) for i, w in enumerate(weights)]
        )
        for is_idle in (False, True):  # the first step connects, and makes a bucket
            for weight in weights:
                weight.grad = None
            with idle_stream() as go_on:
                if not is_idle:
                    go_on()
                sum((ht.rank() * weight).sum() for weight in weights).backward()
                optimizer.step()
                if ht.size() > 1 and is_idle:
                    for weight in weights:
                        self.same(weight.grad, torch.full((5,), float(ht.rank())))
            for weight in weights:
                self.same(weight.grad, torch.full((5,), (ht.size() - 1) / 2))


class Refusals(Case):
    def test_a_stream_that_is_captured_is_named(self) -> None:
        mine = here(1, 2)
        with captured_graph():
            with self.assertRaisesRegex(ht.HvdError, "stream 0x[0-9a-f]+ is being captured"):
                ht.allreduce_(mine, op=ht.Sum)
            with another_stream():
                ht.allreduce_(mine, op=ht.Sum)
        self.same(ht.allreduce(mine, op=ht.Max), here(1, 2).cpu() * ht.size())

    def test_addresses_that_elements_cannot_have(self) -> None:
        if not IS_DOUBLE:
            self.skipTest("torch makes no such tensor on a GPU")
        memory = bytearray(64)
        aligned = torch.frombuffer(memory, dtype=torch.uint8).data_ptr() % 4
        odd = torch.frombuffer(memory, dtype=torch.float32, count=4, offset=5 - aligned)
        wrong = rf"rank {ht.rank()}: allreduce 'odd': .* is at {odd.data_ptr():#x}; .* float32 \(4 bytes\)"
        with self.assertRaisesRegex(ValueError, wrong):
            ht.allreduce_(odd, name="odd", op=ht.Sum)
        with self.assertRaisesRegex(ValueError, r"clone\(\)"):
            ht.broadcast(odd, 0)
        self.same(ht.allreduce(odd.clone(), op=ht.Sum), torch.zeros(4))

    def test_a_group_has_one_device(self) -> None:
        with self.assertRaisesRegex(ValueError, "are on GPU [0-9]+ and on the CPU"):
            ht.grouped_allreduce([here(1), on_host(here(1))])

    def test_ranks_have_one_kind_of_memory(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank disagrees with nobody")
        mine = here(1) if ht.rank() == 0 else on_host(here(1))
        with self.assertRaisesRegex(ht.HvdError, "kinds"):
            ht.allreduce(mine, name="kinds")

    def test_gradients_are_not_compressed_by_the_host(self) -> None:
        model = torch.nn.Linear(2, 2).to(DEVICE)
        for method in (ht.Compression.fp8_e4m3, ht.Compression.top_k(), ht.Compression.power_sgd()):
            with self.assertRaisesRegex(ht.HvdError, "GPU memory"):
                ht.DistributedOptimizer(
                    torch.optim.SGD(model.parameters(), lr=0.1), compression=method
                )

    def test_the_model_moves_first(self) -> None:
        if IS_DOUBLE:
            self.skipTest("torch moves nothing to the double")
        model = torch.nn.Linear(2, 2)
        optimizer = ht.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        if ht.size() == 1:
            self.skipTest("one rank reduces nothing")
        model.to(DEVICE)
        with self.assertRaisesRegex(ValueError, "move the model first"):
            model(torch.ones(1, 2, device=DEVICE)).sum().backward()
        del optimizer


class Autograd(Case):
    def test_gradients_of_operations(self) -> None:
        factor = float(ht.rank() + 1)
        total = sum(rank + 1.0 for rank in range(ht.size()))
        for run, expected in (
            (lambda x: ht.allreduce(x, op=ht.Sum), total),
            (lambda x: ht.allreduce(x, op=ht.Average), total / ht.size()),
            (lambda x: ht.allgather(x)[3 * ht.rank() :][:3], factor / ht.size()),
            (lambda x: ht.broadcast(x, 0), total / ht.size() if ht.rank() == 0 else 0.0),
        ):
            values = torch.ones(3, device=DEVICE, requires_grad=True)
            (run(values) * factor).sum().backward()
            self.same(values.grad, torch.full((3,), expected), 1e-5)


def network() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.Tanh(), torch.nn.Linear(24, 4))


def examples(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What all ranks see together in a step."""
    generator = torch.Generator().manual_seed(100 + step)
    inputs = torch.randn(BATCH * ht.size(), 16, generator=generator)
    return inputs, inputs[:, :4].argmax(1)


def loss_of(model: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(inputs), labels)


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


class Training(Case):
    def trained_alone(self, make: Callable) -> torch.nn.Module:
        """By one rank, with the batch of all, in CPU memory."""
        model = network()
        optimizer = make(model)
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, *examples(step)).backward()
            optimizer.step()
        return model

    def check(self, make: Callable = sgd, passes: int = 1, tolerance: float = 1e-5, **options):
        model = network().to(DEVICE)
        optimizer = ht.DistributedOptimizer(
            make(model), model.named_parameters(), backward_passes_per_step=passes, **options
        )
        ht.broadcast_parameters(model.state_dict(), 0)
        for step in range(STEPS):
            optimizer.zero_grad()
            inputs, labels = examples(step)
            mine = slice(ht.rank() * BATCH, (ht.rank() + 1) * BATCH)
            parts = zip(inputs[mine].chunk(passes), labels[mine].chunk(passes))
            for some, wanted in parts:
                loss = loss_of(model, some.to(DEVICE), wanted.to(DEVICE)) / passes
                loss.backward()
            optimizer.step()
        for mine, expected in zip(model.parameters(), self.trained_alone(make).parameters()):
            self.same(mine, expected.detach(), tolerance)

    def test_sgd(self) -> None:
        self.check()

    def test_adam(self) -> None:
        self.check(lambda model: torch.optim.Adam(model.parameters(), lr=0.01), tolerance=1e-3)

    def test_passes(self) -> None:
        self.check(passes=2)

    def test_half_types(self) -> None:
        self.check(compression=ht.Compression.fp16, tolerance=1e-2)
        self.check(compression=ht.Compression.bf16, tolerance=5e-2)

    def test_groups(self) -> None:
        self.check(groups=2)

    def test_predivision(self) -> None:
        self.check(gradient_predivide_factor=2.0)

    def test_a_compressor_of_ones_own(self) -> None:
        class Halves:
            @staticmethod
            def compress(tensor):
                return tensor.half(), tensor.dtype

            @staticmethod
            def decompress(tensor, dtype):
                return tensor.to(dtype)

        self.check(compression=Halves, tolerance=1e-2)

    def test_clipping_between_reduction_and_step(self) -> None:
        model = network().to(DEVICE)
        optimizer = ht.DistributedOptimizer(sgd(model), model.named_parameters())
        inputs, labels = (part[: BATCH * ht.size()].to(DEVICE) for part in examples(0))
        loss_of(model, 100 * inputs, labels).backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        with optimizer.skip_synchronize():
            optimizer.step()
        alone = network()
        plain = sgd(alone)
        loss_of(alone, 100 * inputs.cpu(), labels.cpu()).backward()
        torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.5)
        plain.step()
        for mine, expected in zip(model.parameters(), alone.parameters()):
            self.same(mine, expected.detach(), 1e-5)

    def test_embeddings_with_sparse_gradients(self) -> None:
        torch.manual_seed(1)
        table = torch.nn.Embedding(10, 3, sparse=True)
        alone = copy.deepcopy(table)
        table = table.to(DEVICE)
        optimizer = ht.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0), op=ht.Sum)
        table(torch.tensor([ht.rank(), 9], device=DEVICE)).sum().backward()
        optimizer.step()
        used = [row for rank in range(ht.size()) for row in (rank, 9)]
        alone(torch.tensor(used)).sum().backward()
        torch.optim.SGD(alone.parameters(), lr=1.0).step()
        self.same(table.weight, alone.weight.detach(), 1e-5)

    def test_adasum_of_equal_steps_is_one_of_them(self) -> None:
        model, alone = network().to(DEVICE), network()
        optimizer = ht.DistributedOptimizer(sgd(model), model.named_parameters(), op=ht.Adasum)
        inputs, labels = (part[:BATCH] for part in examples(0))
        loss_of(model, inputs.to(DEVICE), labels.to(DEVICE)).backward()
        optimizer.step()
        loss_of(alone, inputs, labels).backward()
        sgd(alone).step()
        for mine, expected in zip(model.parameters(), alone.parameters()):
            self.same(mine, expected.detach(), 1e-5)

    def test_state_of_an_optimizer(self) -> None:
        torch.manual_seed(ht.rank())
        model = torch.nn.Linear(4, 2).to(DEVICE)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (ht.rank() + 1))
        if ht.rank() == 0:
            model(torch.ones(1, 4, device=DEVICE)).sum().backward()
            optimizer.step()
        ht.broadcast_parameters(model.state_dict(), 0)
        ht.broadcast_optimizer_state(optimizer, 0)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.1)
        for parameter in model.parameters():
            mean = optimizer.state[parameter]["exp_avg"]
            self.same(ht.allreduce(mean, op=ht.Max), ht.allreduce(mean, op=ht.Min).cpu())
            self.assertGreater(float(mean.abs().sum()), 0)

    def test_batch_normalisation(self) -> None:
        generator = torch.Generator().manual_seed(5)
        everything = torch.randn(4 * ht.size(), 3, 5, generator=generator)
        layer, alone = ht.SyncBatchNorm(3).to(DEVICE), torch.nn.BatchNorm1d(3)
        whole = everything.clone().requires_grad_()
        (alone(whole) ** 3).sum().backward()
        mine = slice(4 * ht.rank(), 4 * ht.rank() + 4)
        given = everything[mine].to(DEVICE).requires_grad_()
        output = layer(given)
        (output**3).sum().backward()
        self.same(output, alone(everything)[mine].detach(), 1e-4)
        self.same(given.grad, whole.grad[mine], 1e-3)
        self.same(layer.running_mean, alone.running_mean, 1e-1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
