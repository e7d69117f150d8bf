# SPDX-License-Identifier: Apache-2.0
"""Where bindings of torch went wrong before: odd gradients, threads, forks; run by each rank."""

from __future__ import annotations

import gc
import os
import select
import threading
import unittest

import torch

import hvd
import hvd.torch as ht


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def optimizer_of(*parameters: torch.nn.Parameter, **options):
    return ht.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), **options)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.zeros(shape, dtype=dtype))


class Gradients(unittest.TestCase):
    def setUp(self) -> None:
        # The mean of what rank r says: (r + 1) times one.
        self.mine = float(ht.rank() + 1)
        self.mean = (ht.size() + 1) / 2

    def test_conjugated_ones(self) -> None:
        # Rank by rank: one gives a lazy conjugate, the others plain memory.
        weight = zeros(3, dtype=torch.complex64)
        optimizer = optimizer_of(weight)
        for _ in range(2):
            value = torch.full((3,), self.mine + 2j)
            weight.grad = value.conj().resolve_conj() if ht.rank() else value.conj()
            self.assertEqual(weight.grad.is_conj(), ht.rank() == 0)
            optimizer.step()
            self.assertTrue(torch.equal(weight.grad, torch.full((3,), self.mean - 2j)))
        # As the backward pass makes them.
        weight.grad = None
        (weight.conj() * self.mine).real.sum().backward()
        optimizer.step()
        self.assertTrue(torch.allclose(weight.grad, torch.full((3,), self.mean + 0j)))

    def test_negated_ones(self) -> None:
        weight = zeros(3)
        optimizer = optimizer_of(weight)
        for backward in (False, True):
            weight.grad = torch._neg_view(torch.full((3,), self.mine))
            self.assertTrue(weight.grad.is_neg())
            if backward:
                # Adds in place, so that the hook meets the view.
                weight.backward(torch.zeros(3))
            optimizer.step()
            self.assertEqual(weight.grad.tolist(), [-self.mean] * 3)

    def test_expanded_ones(self) -> None:
        weight = zeros(2, 3)
        optimizer = optimizer_of(weight)
        weight.grad = torch.tensor(self.mine).expand(2, 3)
        optimizer.step()
        self.assertEqual(weight.grad.tolist(), [[self.mean] * 3] * 2)
        optimizer.zero_grad()
        weight.expand(4, 2, 3).sum().mul(self.mine).backward()
        optimizer.step()
        self.assertEqual(weight.grad.tolist(), [[4 * self.mean] * 3] * 2)

    def test_slices_with_gaps(self) -> None:
        weight = zeros(4)
        optimizer = optimizer_of(weight)
        weight.grad = torch.full((8,), self.mine)[::2]
        optimizer.step()
        self.assertEqual(weight.grad.tolist(), [self.mean] * 4)

    def test_ones_that_share_storage(self) -> None:
        first, second, third = zeros(3), zeros(2, 2), zeros(5)
        optimizer = optimizer_of(first, second, third)
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            row = torch.cat([first, second.reshape(-1), third])
            row.backward(torch.arange(12.0) * self.mine)
            optimizer.step()
            found = torch.cat([p.grad.reshape(-1) for p in (first, second, third)])
            self.assertEqual(found.tolist(), (torch.arange(12.0) * self.mean).tolist())

    def test_ones_dropped_while_on_their_way(self) -> None:
        module = torch.nn.ParameterList([zeros(70001), zeros(3)])
        optimizer = optimizer_of(*module)
        for _ in range(3):
            sum(p.sum() for p in module).backward()
            # Not the optimizer's own zero_grad(), which refuses.
            module.zero_grad(set_to_none=True)
            gc.collect()
            keep = [torch.full((70001,), 7.0) for _ in range(4)]
            optimizer.step()
            self.assertTrue(all(bool((one == 7).all()) for one in keep))
        self.assertEqual(module[1].tolist(), [0, 0, 0])
        module[1].sum().backward()
        optimizer.step()
        self.assertEqual(module[1].tolist(), [-1, -1, -1])

    def test_no_dimension_and_no_element(self) -> None:
        scalar, empty, rows = zeros(), zeros(0), zeros(0, 4)
        optimizer = optimizer_of(scalar, empty, rows)
        for _ in range(2):
            optimizer.zero_grad()
            (scalar * self.mine + empty.sum() + rows.sum()).backward()
            optimizer.step()
            self.assertEqual(scalar.grad.item(), self.mean)
            self.assertEqual(rows.grad.shape, (0, 4))

    def test_many_small_ones_travel_together(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank moves nothing")
        weights = [zeros(64) for _ in range(161)]
        optimizer = optimizer_of(*weights, check_replicas=0)
        begin = ht.statistics()
        for _ in range(3):
            before = ht.statistics()
            torch.cat(weights).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            after = ht.statistics()
        # One says which gradients this rank has; and one, that no replicas are compared.
        self.assertEqual(after.requests - begin.requests, 3 * 162 + 1)
        # Nobody woke for each of them.
        self.assertLess(after.batches - before.batches, 40)


class Threads(unittest.TestCase):
    def test_operations_by_name_from_four(self) -> None:
        outcomes: list[object] = [None] * 4

        def work(number: int) -> None:
            try:
                for turn in range(25):
                    tensor = torch.full((50 + number,), float(ht.rank() + number))
                    total = ht.allreduce(tensor, op=ht.Sum, name=f"thread.{number}.{turn % 3}")
                    expected = ht.size() * number + ht.size() * (ht.size() - 1) / 2
                    assert bool((total == expected).all()), (number, turn, total)
                outcomes[number] = "well"
            except BaseException as failure:
                outcomes[number] = failure

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(outcomes, ["well"] * 4)

    def test_steps_beside_a_thread_that_computes(self) -> None:
        stop = threading.Event()

        def spin() -> None:
            count = 0
            while not stop.is_set():
                count += 1

        thread = threading.Thread(target=spin)
        thread.start()
        try:
            weights = [zeros(64) for _ in range(40)]
            optimizer = optimizer_of(*weights)
            for _ in range(3):
                torch.cat(weights).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        finally:
            stop.set()
            thread.join()
        self.assertEqual(weights[0][0].item(), -3)


class Forks(unittest.TestCase):
    def fork(self) -> tuple[int, int]:
        """A child that asks the library, and says what it was told; its number and a pipe."""
        reading, writing = os.pipe()
        of_rank = (ht.rank(), ht.size())
        child = os.fork()
        if child == 0:
            text = "no error"
            try:
                if (ht.rank(), ht.size()) != of_rank:
                    raise AssertionError("it does not know its rank")
                for call in (ht.barrier, lambda: ht.allreduce(torch.ones(1))):
                    try:
                        call()
                        text = f"{call} took part"
                        break
                    except hvd.AbortedError as failure:
                        text = str(failure)
            finally:
                os.write(writing, text.encode())
                os._exit(0)
        os.close(writing)
        return child, reading

    def test_fifty_while_operations_are_on_their_way(self) -> None:
        stop, sums = threading.Event(), []
        # PyTorch makes the parser of a function's arguments at its first call, under a lock of the C
        # library (glibc 2.36) that a child of that moment would inherit.
        ht.allreduce(torch.ones(1) + torch.tensor([1.0]))
        ht.synchronize(ht.allreduce_async(torch.ones(1)))

        def work() -> None:
            # As many turns on every rank: the last is the first in which all want to stop.
            while True:
                wants = torch.tensor([float(stop.is_set())])
                handles = [ht.allreduce_async(torch.ones(300), name=f"f.{i}") for i in range(20)]
                done = ht.allreduce(wants, op=ht.Min, name="forks.stop")
                sums.extend(ht.synchronize(handle)[0].item() for handle in handles)
                if done.item() == 1:
                    return

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(50):
                child, reading = self.fork()
                ready, _, _ = select.select([reading], [], [], 30)
                if not ready:
                    os.kill(child, 9)
                text = os.read(reading, 1000).decode()
                os.waitpid(child, 0)
                os.close(reading)
                self.assertIn("forked", text)
        finally:
            stop.set()
            thread.join(60)
        self.assertFalse(thread.is_alive())
        self.assertEqual(set(sums), {1.0})


if __name__ == "__main__":
    unittest.main(verbosity=2)
